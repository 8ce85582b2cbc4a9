"""What can be proved of the GPU code without a GPU, each on a stand-in: see tests/README.md."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import made_up_cuda
from tests.made_up_cuda import Cuda
from tests.test_pairs import one_thread
from tipbench.suite.files import BENCHMARKS
from tipbench.worker import memory
from tipbench.worker.failed import Failed
from tipbench.worker.memory import process_peaks
from tipbench.worker.ranks import Ranks
from tipbench.worker.session import Session

__all__ = ["cuda", "one_thread"]
cuda = made_up_cuda.cuda

GPU_PAIRS = Path(__file__).parent / "pairs" / "gpu"


def session(file: str, pair: str, device: str, ranks: Ranks | None = None) -> Session:
    task = {"file": str(GPU_PAIRS / file), "folder": str(GPU_PAIRS), "pair": pair, "device": device, "size": {}}
    return Session(task, ranks or Ranks(1, device))


# ---- a current device, and streams of each card ----------------------------------------------------


class OfTwo(Ranks):
    """Rank 1 of two, whose other does just the same."""

    def __init__(self) -> None:
        self.count, self.rank = 2, 1

    def meet(self) -> None:
        pass

    def gather(self, answer: Any) -> list[Any]:
        return [answer, answer]


def test_a_rank_times_its_own_card(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events and waits without a device are the current card's, which is the first one until somebody sets it."""
    monkeypatch.setenv("LOCAL_RANK", "1")
    second = session("timed.py", "Work", "cuda", OfTwo())
    assert cuda.current == 1
    second.build("baseline", seed=0)
    second.warm("baseline")
    assert second.block("baseline", steps=5)["seconds"] == pytest.approx(5 * 0.004)
    assert cuda.free_at[0] == 0.0


@pytest.mark.parametrize("ranks", [Ranks(1, "cpu"), OfTwo()], ids=["alone", "rank 1 of 2"])
def test_a_warm_step_lasts_until_the_card_is_done(cuda: Cuda, monkeypatch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    """Otherwise it would be as short as handing over its work, and blocks far too long."""
    monkeypatch.setenv("LOCAL_RANK", "1")
    warmed = session("timed.py", "Work", "cuda", ranks)
    warmed.build("baseline", seed=0)
    warm = warmed.warm("baseline")
    assert (warm["step_s"], warm["excess_s"]) == (pytest.approx(0.004), pytest.approx(0.0))


# ---- a cache of plans that does not know the setting they were made under --------------------------


@pytest.fixture
def plans() -> dict[Any, str]:
    made_up_cuda.PLANS.clear()
    return made_up_cuda.PLANS


@pytest.mark.parametrize("pair", ["AroundTheBlocks", "WithinTheStep", "ByFlags"])
def test_a_switch_with_a_cache_behind_it_needs_a_process_of_its_own(plans: dict[Any, str], pair: str) -> None:
    both = session("plans.py", pair, "cpu")
    both.results("baseline", [1, 2])
    with pytest.raises(Failed, match=r"optimized sets torch\.backends\.cudnn\.benchmark, .*own_process=True") as why:
        both.results("optimized", [1, 2])
    assert why.value.why.kind == "shared cache"
    assert set(plans.values()) == {"by rules"}, "what the other side left is what would have been measured"
    assert not torch.backends.cudnn.benchmark


def test_in_a_process_of_its_own_a_side_finds_its_own_plans(plans: dict[Any, str]) -> None:
    alone = session("plans.py", "InAProcessOfItsOwn", "cpu")
    alone.results("optimized", [1, 2])
    assert set(plans.values()) == {"searched"}


def test_setting_what_is_set_already_needs_no_process_of_its_own(plans: dict[Any, str]) -> None:
    both = session("plans.py", "LeftAsItIs", "cpu")
    both.results("baseline", [1, 2])
    both.results("optimized", [1, 2])
    assert set(plans.values()) == {"by rules"}


# ---- what nothing here can count -------------------------------------------------------------------


def test_a_count_that_nothing_here_can_count_says_nothing_about_the_tip() -> None:
    alone = session("plans.py", "InAProcessOfItsOwn", "cpu")
    unseen = alone.observe("optimized", seed=1)
    assert unseen == {"unseen": "nothing here can count it"}
    assert alone.engaged(5, unseen) == {"engaged": None, "what": "plans that were searched for"}


# ---- memory of several cards -----------------------------------------------------------------------


def test_memory_is_that_of_all_cards_a_process_computes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """DataParallel computes on all cards in one process; DDP's ranks, a card each, are added up as well."""
    allocated, reserved, free = {0: 100, 1: 70, 2: 0}, {0: 200, 1: 90, 2: 0}, {0: 600, 1: 800}
    reset: list[int] = []
    monkeypatch.setattr(memory, "_reset_resident_peak", lambda: False)
    monkeypatch.setattr(memory, "_tree_bytes", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset.append)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda card: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", allocated.__getitem__)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", reserved.__getitem__)
    # Of the third card nothing may be asked: that would make a context there.
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda card: (free[card], 1000))
    found = process_peaks(lambda: None, torch.device("cuda", 0))
    assert found == {"allocated_peak": 170, "reserved_peak": 290, "device_used": 400 + 200}
    assert reset == [0, 1, 2]


# ---- make gpu --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checks", "measuring", "done", "ends"),
    [
        (0, 0, ["run", "report", "pytest"], 0),
        (1, 0, ["run", "report", "pytest"], 2),
        (0, 1, ["run", "report", "pytest"], 2),  # some pair failed
        (1, 2, ["run", "pytest"], 2),  # nothing was measured
    ],
)
def test_make_gpu_measures_reports_and_checks_whatever_fails(
    tmp_path: Path, checks: int, measuring: int, done: list[str], ends: int
) -> None:
    """make itself ends with 2 for whatever fails."""
    (tmp_path / "Makefile").write_bytes((BENCHMARKS.parent / "Makefile").read_bytes())
    for file in ("pyproject.toml", "harness/constraints.txt"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    log = tmp_path / "log"
    for program, says, code in (("python", "pytest", checks), ("tipbench", "$1", measuring)):
        script = f'#!/bin/sh\necho "{says}" >>{log}\n[ "$1" = report ] && exit 0\nexit {code}\n'
        (programs / program).write_text(script)
        (programs / program).chmod(0o755)
    (tmp_path / ".venv" / "installed").touch()  # last: newer than what it depends on
    found = subprocess.run(["make", "gpu"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert log.read_text().split() == done
    assert found.returncode == ends, found.stdout + found.stderr
