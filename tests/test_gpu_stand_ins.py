"""What can be proved of the GPU code without a GPU, each on a stand-in: see tests/README.md."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import made_up_cuda
from tests.caching_allocator import CachingAllocator, replay
from tests.made_up_cuda import Cuda
from tests.test_pairs import FOR_GPUS, PAIRS, one_thread
from tipbench.records.fields import converted
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.pair import Step, variants
from tipbench.tip.process import ProcessSettings
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
def test_a_warm_step_lasts_until_the_card_has_done_it(
    cuda: Cuda, monkeypatch: pytest.MonkeyPatch, ranks: Ranks
) -> None:
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


def test_the_setters_are_torch_s_own_again(plans: dict[Any, str]) -> None:
    before = torch._C._set_cudnn_benchmark, vars(type(torch.backends.cudnn))["benchmark"].setter
    session("plans.py", "InAProcessOfItsOwn", "cpu").results("optimized", [1, 2])
    assert before == (torch._C._set_cudnn_benchmark, vars(type(torch.backends.cudnn))["benchmark"].setter)


def test_processes_of_their_own_differ_by_variant() -> None:
    pair = PAIRS["cudnn-benchmark.SameShape"]
    baseline, optimized = (variant.settings for variant in variants(pair))
    assert baseline == ProcessSettings()
    assert optimized == ProcessSettings(own_process="optimized")
    assert converted(asdict(optimized), ProcessSettings) == optimized
    old = {"env": [], "without": [], "preload": [], "prefix": [], "ranks": 1}
    assert converted(old, ProcessSettings) == ProcessSettings()


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


# ---- counts as they are expected on a card ---------------------------------------------------------

MIB = 1 << 20

COUNTS_ON_CUDA: dict[str, dict[str, Any]] = {
    "avoid-sync.RunningSum": {"baseline": 51, "optimized": 2},
    "avoid-sync.Mask": {"baseline": 50, "optimized": 0},
    "avoid-sync.RoundTrip": {"baseline": 100, "optimized": 0},
    "avoid-sync.GPTTraining": {"baseline": 8, "optimized": 1},
    "avoid-sync.ResNetTraining": {"baseline": 8, "optimized": 1},
    "create-on-device.Constants": {"baseline": 5, "optimized": 0},
    "create-on-device.GPTTraining": {"baseline": 4, "optimized": 2},
    "cuda-graphs.TinyKernels": {
        "baseline": {"launches": 200, "compiled": 1},
        "optimized": {"launches": 1, "compiled": 1},
        "max_autotune": {"launches": 1, "compiled": 1},
        "eager": {"launches": 200, "compiled": 0},
        "by_hand": {"launches": 1, "compiled": 0},
    },
    "cuda-graphs.SmallBatchTraining": {
        "baseline": {"launches": 190, "compiled": 2},
        "optimized": {"launches": 40, "compiled": 2},
        "eager": {"launches": 420, "compiled": 0},
        "by_hand": {"launches": 60, "compiled": 0},
    },
    "cuda-graphs.SmallBatchInference": {
        "baseline": {"launches": 50, "compiled": 1},
        "optimized": {"launches": 3, "compiled": 1},
        "eager": {"launches": 90, "compiled": 0},
    },
    "cudnn-benchmark.SameShape": {"baseline": 14, "optimized": 120},
    "cudnn-benchmark.ChangingShapes": {"baseline": 3, "optimized": 40},
    "cudnn-benchmark.ResNetTraining": {"baseline": 900, "optimized": 4000},
    "pin-memory.Copies": {
        "baseline": {"pageable": 5, "pinned": 0},
        "optimized": {"pageable": 0, "pinned": 5},
        "pinned_in_the_loop": {"pageable": 0, "pinned": 5},
    },
    "pin-memory.TrainingFromFiles": {
        "baseline": {"pageable": 16, "pinned": 0},
        "optimized": {"pageable": 0, "pinned": 16},
        "waiting": {"pageable": 0, "pinned": 16},
    },
    "preallocate.GrowingTensors": {
        "baseline": {"requests": 9, "reserved": 150 * MIB},
        "optimized": {"requests": 3, "reserved": 50 * MIB},
        "expandable_segments": {"requests": 12, "reserved": 48 * MIB},  # each growth asks
    },
    "preallocate.LSTMEpoch": {
        "baseline": {"requests": 30, "reserved": 900 * MIB},
        "optimized": {"requests": 12, "reserved": 500 * MIB},
        "expandable_segments": {"requests": 31, "reserved": 480 * MIB},
    },
    "tensor-cores.MatrixProduct": {"baseline": 0, "optimized": 1, "bfloat16": 1, "float16": 1},
    "pad-sizes.Product": {"baseline": [4095] * 4, "optimized": [4096] * 4},
    "pad-sizes.GPTTraining": {"baseline": [2048, 512, 512, 50257], "optimized": [2048, 512, 512, 50304]},
    "tensor-cores.Convolution": {"baseline": 0, "optimized": 3},
    "tensor-cores.GPTTraining": {"baseline": 0, "optimized": 110},
    "ddp-not-dp.GPTTraining": {"baseline": 0, "optimized": 14},
    "ddp-not-dp.OnFour": {"baseline": 0, "optimized": 14},
    "ddp-not-dp.OnEight": {"baseline": 0, "optimized": 14},
    "together.ResNetTraining": {
        "baseline": 604,
        "optimized": 445,
        "without_channels_last": 442,
        "without_amp": 422,
        "without_fused_optimizer": 630,
    },
    "together.GPTInference": {
        "baseline": "113, 0",
        "optimized": "30, 0",
        "without_amp": "31, 0",
        "without_compile_modes": "113, 61",
    },
    "prefetch.CopyingAhead": {"baseline": 0, "optimized": 8},
    # These run on CPUs as well, and count something else on a card.
    "fused-optimizer.ManyParameters": {"baseline": 13, "optimized": 2},
    "fused-optimizer.GPTTraining": {"baseline": 400, "optimized": 390},
    "compile-modes.ConvolutionBlock": {
        "baseline": 3,
        "optimized": 1,
        "max_autotune": 1,
        "reduce_overhead": 2,  # and the clone
    },
}
"""What each variant is expected to count at full size, by reading. None was seen on a card so far."""


def test_the_table_has_every_variant_of_every_pair_for_gpus() -> None:
    assert set(FOR_GPUS) <= COUNTS_ON_CUDA.keys()
    for name, counts in COUNTS_ON_CUDA.items():
        there = [
            variant.name for variant in variants(PAIRS[name]) if not any(need.text == "CPU" for need in variant.needs)
        ]
        assert list(counts) == there


@pytest.mark.parametrize("name", COUNTS_ON_CUDA)
def test_counts_of_a_card_show_every_variant_engaged_and_none_that_did_nothing(name: str) -> None:
    pair = PAIRS[name](torch.device("cuda"))
    counts: Mapping[str, Any] = COUNTS_ON_CUDA[name]
    for variant, count in counts.items():
        if variant != "baseline":
            assert pair.mechanism.shows(counts["baseline"], count), variant
    assert not pair.mechanism.shows(counts["baseline"], counts["baseline"])


# ---- a caching allocator ---------------------------------------------------------------------------


def asked_and_reserved(step: Step) -> dict[str, int]:
    """What the pair's mechanism counts, of the pieces that torch's allocator would ask a card's driver for."""
    allocator = CachingAllocator()
    for _ in range(2):  # gradients and states are there from the first step on
        allocator.empty()
        asked, allocator.peak = allocator.asked, allocator.reserved
        replay(step, allocator)
    return {"requests": allocator.asked - asked, "reserved": allocator.peak}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", ["preallocate.GrowingTensors", "preallocate.LSTMEpoch"])
def test_allocating_for_the_longest_first_spares_the_driver(name: str) -> None:
    pair = PAIRS[name](torch.device("cpu"), for_test=True)
    found = []
    for builder in (pair.baseline, pair.optimized):
        torch.manual_seed(0)
        found.append(asked_and_reserved(builder()))
    print(found)
    assert pair.mechanism.shows(*found)
    assert found[1]["requests"] < found[0]["requests"]


def test_the_allocator_keeps_what_is_given_back_and_asks_for_more_where_nothing_fits() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, 300)
    allocator.allocate(2, 5 * MIB)
    assert (allocator.asked, allocator.reserved) == (2, 22 * MIB)  # 2 MiB for small ones, 20 MiB for middling ones
    allocator.release(2)
    allocator.allocate(3, 9 * MIB)  # where the 5 MiB were
    allocator.allocate(4, 10 * MIB)  # what is left of the 20 MiB
    assert allocator.asked == 2
    allocator.allocate(5, 11 * MIB)  # of its own, a multiple of 2 MiB
    assert (allocator.asked, allocator.reserved) == (3, 34 * MIB)
    for pointer in (3, 4, 5):
        allocator.release(pointer)
    allocator.empty()
    assert (allocator.reserved, allocator.peak) == (2 * MIB, 34 * MIB)  # the 300 bytes are still in use


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
