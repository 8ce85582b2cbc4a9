"""What a worker answers where a pair is wrong or incomplete; whole workers: test_bad_luck.py, test_liars.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tipbench.worker import session as sessions
from tipbench.worker.clock import warm_up
from tipbench.worker.failed import Failed
from tipbench.worker.ranks import Ranks
from tipbench.worker.session import LAUNCH_WARM_S, WHOLE_WARM_S, Session

PAIRS = '''
import itertools, torch
from torch import nn

from tipbench.tip.words import Claim, Job, MacroPair, Mechanism, Pair, Tip, falls, sweep

TIP = Tip(id="unfinished", title="Write a pair", guide=(), claim=Claim.FASTER)


def engaged(baseline, optimized):
    return {}[optimized]  # line 11


class Complete(Pair):
    mechanism = Mechanism("additions", lambda step: 1, engaged)

    def baseline(self):
        x = torch.randn(10)
        return lambda: x + 1

    def optimized(self):
        return self.baseline()


class Nothing(Pair):
    pass


class NothingOfAJob(MacroPair):
    pass


class AppliesNothing(MacroPair):
    def job(self):
        return Job(nn.Linear(1, 1), [], self.device)


class Fixed(Complete):
    """It draws nothing."""

    def baseline(self):
        x = torch.arange(1.0, 11.0)
        return lambda: x + 1


class FixedAndSaysSo(Fixed):
    seeded = False


class FixedOnOneSide(Complete):
    def optimized(self):
        return Fixed.baseline(self)


COUNTS = {
    "a tensor": torch.ones(2), "an object": nn.ReLU(), "infinity": float("inf"), "inside": [1, {"kinds": {"add"}}],
    "fine": {"add": [1, 2.5, None, True]},
}


class Counts(Complete):
    mechanism = falls("nothing", lambda step: COUNTS[step()])

    @sweep(count=tuple(COUNTS))
    def optimized(self, count):
        return lambda: count
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("pairs") / "unfinished.py"
    written.write_text(PAIRS)
    return written


Opened = Callable[[str], Session]


@pytest.fixture(scope="module")
def session(file: Path) -> Opened:
    """Opens a session of one of PAIRS in this process."""

    def opened(pair: str) -> Session:
        task = {"file": str(file), "folder": str(file.parent), "pair": pair, "device": "cpu", "size": {}}
        return Session(task, Ranks(1, "cpu"))

    return opened


# ---- what a step raises ----


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total"), "out of memory"),
        (RuntimeError("CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`"), "out of memory"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "out of memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "out of memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"), "step raised"),
    ],
)
def test_a_step_for_which_memory_does_not_suffice_is_called_so(session: Opened, error: Exception, kind: str) -> None:
    def step() -> None:
        raise error

    complete = session("Complete")
    complete.steps["optimized"] = step
    with pytest.raises(Failed) as failed:
        complete.warm("optimized")
    assert failed.value.why.kind == kind
    assert failed.value.why.text.startswith(f"optimized, step 1: {type(error).__name__}: ")


def test_an_error_in_a_mechanism_is_the_pairs_failure_with_its_line(session: Opened) -> None:
    with pytest.raises(Failed, match=r"^mechanism: KeyError: 1 \(unfinished\.py, line 11\)$"):
        session("Complete").engaged(2, 1)


# ---- what a pair does not define ----


@pytest.mark.parametrize(
    ("pair", "door", "missing"),
    [
        ("Nothing", lambda session: session.build("baseline", 0), "baseline(self)"),
        ("Nothing", lambda session: session.build("optimized", 0), "optimized(self)"),
        ("Nothing", lambda session: session.results("reference", [0]), "reference(self)"),
        ("NothingOfAJob", lambda session: session.build("baseline", 0), "job(self)"),
        ("AppliesNothing", lambda session: session.build("optimized", 0), "apply=FUNCTION"),
        ("AppliesNothing", lambda session: session.observe("baseline", 0), "mechanism=falls("),
    ],
)
def test_a_missing_method_is_named(session: Opened, pair: str, door: Callable[[Session], object], missing: str) -> None:
    with pytest.raises(Failed) as failed:
        door(session(pair))
    assert missing in failed.value.why.text


# ---- seeds ----


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        ("Fixed", r"the baseline's outputs are the same for every seed; draw .*seeded = False"),
        ("FixedOnOneSide", "optimized: the variant's outputs are the same for every seed"),
        ("FixedAndSaysSo", ""),
    ],
)
def test_a_pair_that_draws_nothing_has_to_say_so(session: Opened, pair: str, why: str) -> None:
    opened = session(pair)
    for variant in ("baseline", "optimized"):
        opened.results(variant, [0, 1, 2])
    if not why:
        assert opened.compare("optimized")["worst"] == 0.0
        return
    with pytest.raises(Failed, match=why) as failed:
        opened.compare("optimized")
    assert failed.value.why.kind == "stale results"


# ---- answers that a record cannot hold ----


@pytest.mark.parametrize(
    ("count", "named"),
    [
        ("a tensor", "Tensor is not"),
        ("an object", "ReLU is not"),
        ("infinity", "float values are not"),
        ("inside", "set is not"),
    ],
)
def test_a_count_that_a_record_cannot_hold_is_named_with_the_method(session: Opened, count: str, named: str) -> None:
    with pytest.raises(Failed) as failed:
        session("Counts").observe(f"count={count}", seed=0)
    assert failed.value.why.kind == "not storable"
    assert failed.value.why.text.startswith(f"count={count}: mechanism returned what no record can hold: ")
    assert named in failed.value.why.text
    assert session("Counts").observe("count=fine", seed=0) == {"add": [1, 2.5, None, True]}


def test_a_launch_warms_up_for_less_long_than_the_pass_that_measures_what_warming_up_costs(
    session: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    def noted(
        step: Callable[[], object], device: torch.device, before: None, limit: float, slowest: Callable[[float], float]
    ) -> dict[str, float]:
        limits.append(limit)
        return warm_up(step, device, before, limit, slowest)

    monkeypatch.setattr(sessions, "warm_up", noted)
    opened = session("Complete")
    opened.build("baseline", 0)
    opened.warm("baseline")
    opened.measure_memory("baseline", 0)
    assert limits == [LAUNCH_WARM_S, WHOLE_WARM_S]
