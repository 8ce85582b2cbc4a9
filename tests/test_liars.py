"""A pair that leaves work out, or a switch changed, is a failed record that says which side; honest ones pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
import torch

from tests.tiny import LIMITS, PAIRS
from tipbench.engine.checks import check, mark_failed
from tipbench.engine.handle import WorkerFailed
from tipbench.engine.launch import NextLaunch
from tipbench.engine.launcher import Launcher
from tipbench.engine.limits import Limits
from tipbench.machine.controls import controls
from tipbench.records.record import PairInfo, Record, VariantRecord
from tipbench.suite.discover import discover
from tipbench.tip.needs import available_cores
from tipbench.worker import switches

LIARS = PAIRS / "liars"

LAUNCHED = ("switches.StepsLater", "switches.RestoresWhatItChanged", "switches.Honest")
"""What shows, or must not, only when blocks are timed; of all others the check is enough."""

Found = dict[str, VariantRecord]


def checked(info: PairInfo, launcher: Launcher) -> Found:
    """What the check finds of each variant; what ends it, or a launch after it, is found of the baseline."""
    try:
        found = check(info, info.variants, launcher.start, 0)
        if info.name in LAUNCHED:
            launch = NextLaunch(Record(info, "measured"), info.variants, launcher.start, LIMITS, seed=0)
            with ExitStack() as stack:
                stack.callback(launch.end)
                launch.prepare()
                launch.measure()
        return found
    except WorkerFailed as failure:
        return {"baseline": VariantRecord("failed", failure.why)}


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    """Every pair of tests/pairs/liars, by name, in real workers."""
    pairs = sorted(discover(LIARS, "cpu").pairs, key=lambda info: -len(info.variants))
    launchers = [Launcher(LIARS, controls(1)) for _ in range(2)]

    def half(index: int) -> dict[str, Found]:
        return {info.name: checked(info, launchers[index]) for info in pairs[index::2]}

    try:
        # Two at a time: nothing is timed here, and most of it is waiting for processes.
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(half, range(2))
            return first | second
    finally:
        for launcher in launchers:
            launcher.close()


# ---- results that were kept ----

RESULTS = {
    "ReturnsAViewOfItsInput": ("stale results", "optimized: step 2 returned what step 1 had returned.* a view of"),
    "ReturnsWhatItReturnedTwice": (
        "stale results",
        "optimized: step 3 returned NaN, computed from what step 2 had returned",
    ),
}
"""Pair -> (kind, beginning of the reason)."""


@pytest.mark.parametrize("name", RESULTS)
def test_a_step_that_does_not_work_is_found(found: dict[str, Found], name: str) -> None:
    kind, reason = RESULTS[name]
    variant = found[f"kept-results.{name}"][re.split(r"\W", reason)[0]]
    assert (variant.outcome, variant.kind) == ("failed", kind), variant.reason
    assert re.match(reason, variant.reason)


@pytest.mark.parametrize(
    "name",
    [*("kept-results.Honest", "switches.Honest", "switches.RestoresWhatItChanged", "switches.AloneInItsProcess")],
)
def test_an_honest_pair_passes(found: dict[str, Found], name: str) -> None:
    assert {variant: each.reason for variant, each in found[name].items() if each.outcome != "measured"} == {}


# ---- switches ----

CHANGES = (
    "torch.get_default_dtype(): torch.float32 -> torch.float64",
    "torch.get_default_device(): cpu -> meta",
    "torch.backends.mkldnn.matmul.fp32_precision: none -> bf16",
    "torch.backends.cuda.matmul.fp32_precision: none -> tf32",
    "torch.backends.cudnn.conv.fp32_precision: tf32 -> none",
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction: ",
    "torch.backends.cudnn.benchmark: False -> True",
    "torch.backends.mkldnn.enabled: True -> False",
    "torch.backends.cuda.math_sdp_enabled(): True -> False",
    "torch.get_num_threads(): 1 -> 7",
    "torch.are_deterministic_algorithms_enabled(): False -> True",
    "torch.is_deterministic_algorithms_warn_only_enabled(): False -> True",
    "torch.is_grad_enabled(): True -> False",
    "torch.is_inference_mode_enabled(): False -> True",
    "torch.is_autocast_enabled('cpu'): False -> True",
    "torch.is_anomaly_enabled(): False -> True",
    "denormal numbers are flushed (torch.set_flush_denormal): False -> True",
    "gc.isenabled(): True -> False",
    "gc.get_threshold(): ",
    "sys.getswitchinterval(): 0.005 -> 1.0",
    "os.getpriority(): ",
    "os.environ['OMP_NUM_THREADS']: 1 -> 64",
    pytest.param("os.sched_getaffinity(0): ", marks=pytest.mark.skipif(available_cores() == 1, reason="one core")),
)
"""What the pair `Builds` changes in its build, in the words of the reason."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_switch_that_a_build_leaves_changed_is_named(found: dict[str, Found], change: str) -> None:
    variant = found["switches.Builds"]["optimized"]
    assert (variant.outcome, variant.kind) == ("failed", "global switch")
    assert variant.reason.startswith("optimized changed and left changed: ")
    assert change in variant.reason


@pytest.mark.parametrize(
    ("name", "variant", "kind", "reason"),
    [
        ("switches.Steps", "optimized", "global switch", "optimized changed and left changed: torch.get_default_dtype"),
        ("switches.Baseline", "baseline", "global switch", "baseline changed and left changed: torch.is_anomaly"),
        ("switches.BeyondItsScope", "optimized", "global switch", "optimized changed and left changed: torch.get_num"),
        (
            "switches.StepsLater",
            "baseline",
            "global switch",
            "optimized changed and left changed: torch.get_num_threads",
        ),
        ("imports-dtype.Adding", "baseline", "global switch", "importing imports_dtype.py changed and left changed: "),
    ],
)
def test_it_is_found_at_any_place(found: dict[str, Found], name: str, variant: str, kind: str, reason: str) -> None:
    record = found[name][variant]
    assert (record.outcome, record.kind) == ("failed", kind)
    assert record.reason.startswith(reason)


def test_affinity_is_read_where_nobody_binds_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in switches.BINDING:
        monkeypatch.delenv(name, raising=False)
    reader = switches.SWITCHES["os.sched_getaffinity(0)"]
    assert reader() != "unknown"
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    assert reader() == "unknown"


# ---- work between blocks ----


def launched(info: PairInfo, launcher: Launcher) -> Record:
    """The record after the launches of the first interim look, or after the one that failed the pair."""
    record = Record(info, "measured")
    for _ in range(6):
        with ExitStack() as stack:
            launch = NextLaunch(record, info.variants, launcher.start, LONGER, seed=0)
            stack.callback(launch.end)
            launch.prepare()
            try:
                record = launch.measure()
            except WorkerFailed as failure:
                return mark_failed(record, failure)
    return record


LONGER = Limits(rounds=(5, 5), longest_s=10.0)
"""Launches that last longer than what a bounded queue holds."""

AHEAD = {"Bounded": "optimized", "Unbounded": "optimized", "Honest": ""}
"""Pair -> the side that works ahead."""


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with closing(Launcher(LIARS, controls(1))) as launcher:
        yield launcher


@pytest.mark.parametrize("name", AHEAD)
def test_a_side_that_works_while_the_other_is_timed_fails_the_pair_by_name(launcher: Launcher, name: str) -> None:
    (info,) = (info for info in discover(LIARS, "cpu").pairs if info.name == f"works-ahead.{name}")
    record = launched(info, launcher)
    assert (record.outcome, record.kind) == (("failed", "works ahead") if AHEAD[name] else ("measured", ""))
    assert record.reason.startswith(AHEAD[name])


# ---- the words ----


def test_what_has_moved_is_named_with_both_values_and_what_could_not_be_read_has_not() -> None:
    before = {"threads": 2, "dtype": torch.float32, "same": True}
    after = {"threads": 1, "dtype": torch.float64, "same": True}
    assert switches.describe_changes(before, after) == "threads: 2 -> 1; dtype: torch.float32 -> torch.float64"
    unread = dict.fromkeys(before, "unknown")
    for one, other in ((before, before), (before, unread), (unread, before), (unread, unread)):
        assert switches.describe_changes(one, other) == ""


def test_a_reader_that_raises_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed() -> str:
        raise RuntimeError("you have used a mix of the legacy and new APIs")

    monkeypatch.setitem(switches.SWITCHES, "precision", mixed)
    assert switches.read()["precision"] == "unknown"


def test_reading_changes_nothing_and_every_switch_can_be_read_here() -> None:
    first = switches.read()
    assert switches.describe_changes(first, switches.read()) == ""
    assert [name for name, value in first.items() if value == "unknown"] == []
