"""`python -m tests.calibrate`: what counts as wrong, and how it repeats, resumes and disturbs. No clock decides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests import calibrate, tiny
from tests.made_up import MIB, both, info, measured, run, tip
from tests.noise import NoNoise
from tipbench.engine import limits
from tipbench.engine import run as running
from tipbench.records import store
from tipbench.records.record import PairInfo, Record
from tipbench.suite.discover import Discovery, discover
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.reason import Reason
from tipbench.verdict import rules

SAME = info("Pointwise", tip=tip("control"), truth={"optimized": 1.0})
MORE = info("InBaseline10", tip=tip("planted"), truth={"optimized": 1.05})
RANDOM = info("AtRandom", tip=tip("planted"))
HELD = info("Held", tip=tip("memory"), sizes={"live_mib": 512, "resident_mib": 512})
TAKEN = info("Transient", tip=tip("memory"), sizes={"live_mib": 240})


def record(pair: PairInfo, effect: float = 0.0, **more: object) -> Record:
    return measured(pair, {"optimized": effect}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdict", "untrue_of", "true_of"),
    [
        # in sines of the baseline and the optimized side; exactly 1 % is no difference, whatever the last bit says
        ("faster", [(200, 200), (200, 210), (202, 200)], [(210, 200), (203, 200)]),
        ("slower", [(200, 200), (210, 200), (200, 202)], [(200, 210), (200, 203)]),
        ("no difference", [(210, 200), (200, 210), (203, 200)], [(200, 200), (202, 200), (200, 202)]),
        ("at most 3 %", [(207, 200), (200, 207)], [(200, 200), (206, 200), (200, 206)]),
        ("inconclusive", [], [(200, 200), (210, 200), (200, 210)]),
    ],
)
def test_a_verdict_is_wrong_if_it_contradicts_the_truth(
    verdict: str, untrue_of: list[tuple[int, int]], true_of: list[tuple[int, int]]
) -> None:
    assert all(calibrate.contradicts(verdict, math.log(baseline / optimized)) for baseline, optimized in untrue_of)
    assert not any(calibrate.contradicts(verdict, math.log(baseline / optimized)) for baseline, optimized in true_of)


@pytest.mark.parametrize(
    ("pair", "effect", "verdict", "wrong", "covered"),
    [
        (SAME, 0.0, "no difference", False, True),
        (SAME, 0.05, "faster", True, False),
        (MORE, math.log(1.05), "faster", False, True),
        (MORE, math.log(1.06), "faster", False, False),  # its direction is right, its size is not
        (MORE, 0.0, "no difference", True, False),
        (RANDOM, 0.05, "faster", True, None),
        (RANDOM, 0.01, "at most 3 %", False, None),
    ],
)
def test_a_verdict_on_time_is_set_against_the_truth(
    pair: PairInfo, effect: float, verdict: str, wrong: bool, covered: bool | None
) -> None:
    (outcome,) = calibrate.outcomes(run([record(pair, effect)]))
    assert (outcome.pair, outcome.verdict, outcome.wrong, outcome.covered) == (pair.name, verdict, wrong, covered)


@pytest.mark.parametrize(
    ("pair", "live", "resident", "verdicts"),
    [
        (HELD, 525, 500, ["found", "found"]),
        (HELD, 540, 480, ["missed", "missed"]),
        (HELD, 512, 1024, ["found", "missed"]),
        (TAKEN, 240, 1000, ["found"]),  # what stays resident is the allocator's affair
        (TAKEN, 480, 240, ["missed"]),
    ],
)
def test_planted_memory_may_be_off_by_5_percent(pair: PairInfo, live: int, resident: int, verdicts: list[str]) -> None:
    listed = list(calibrate.outcomes(run([record(pair, 0.3, memory=both(800 + live, 1000 + resident))])))
    assert [outcome.verdict for outcome in listed] == verdicts
    assert [outcome.wrong for outcome in listed] == [verdict == "missed" for verdict in verdicts]


def test_what_was_not_measured_is_neither_right_nor_wrong() -> None:
    hang = Reason("hang", {"seconds": 300, "doing": "block"})
    unread = record(HELD, memory={name: {"tensor_peak": 512 * MIB} for name in ("baseline", "optimized")})
    listed = list(calibrate.outcomes(run([Record(MORE, "failed", hang), Record(TAKEN, "failed", hang), unread])))
    assert [outcome.verdict for outcome in listed] == ["failed", "failed", "missed", "skipped"]
    assert [outcome.wrong for outcome in listed] == [False, False, True, False]


def test_the_table_counts_verdicts_and_gives_exact_binomial_intervals() -> None:
    listed = [*calibrate.outcomes(run([record(SAME, 0.0)])), *calibrate.outcomes(run([record(SAME, 0.05)]))]
    text = calibrate.table(listed)
    assert "1 no difference, 1 faster" in text
    # one of two: p^2 = 1 - 0.025 at the lower end of the complement
    assert f"wrong: 1 of 2 (95 % interval {100 * (1 - math.sqrt(0.975)):.1f} to" in text


class Here:
    """The command with made-up measurements of the real pairs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stops: list[str] = []
        """Of each run, the pair before which it is interrupted."""
        self.effect = math.log(1.05)

    def run(self, pairs: Sequence[PairInfo], *_: object) -> Iterator[Record]:
        stop = self.stops.pop(0) if self.stops else ""
        for pair in pairs:
            if pair.name == stop:
                raise KeyboardInterrupt
            yield record(pair, self.effect if pair.name == "planted.InBaseline10" else 0.0)

    def calibrate(self, *arguments: object) -> int:
        return calibrate.main([*map(str, arguments), "--results", str(self.folder)])

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.jsonl"), key=lambda file: store.header(file).options["seed"])


@pytest.fixture(scope="module")
def discovered() -> dict[Path, Discovery]:
    return {folder: discover(folder, "cpu") for folder in (calibrate.PLANTED, BENCHMARKS / "control.py")}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, discovered: dict[Path, Discovery]) -> Here:
    made = Here(tmp_path)
    monkeypatch.setattr(running, "discover", lambda folder, *_, **__: discovered[folder])
    monkeypatch.setattr(running, "run", made.run)
    return made


TWO = "control.Pointwise", "planted.InBaseline10"


def test_each_repetition_is_an_ordinary_run_of_its_own(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here.calibrate(*TWO, "--repeat", 2, "--seed", 5) == 0
    first, second = (store.read(file)[0] for file in here.files)
    assert first.planned == second.planned == TWO
    assert second.options["seed"] - first.options["seed"] > rules.RULES.most
    assert [entry.info.truth for entry in first.records] == [{"optimized": 1.0}, {"optimized": 1.05}]
    assert "wrong: 0 of 4" in capsys.readouterr().out
    here.effect = 0.0
    assert here.calibrate(*TWO, "--seed", 9000) == 1, "a verdict is wrong"


def test_the_same_command_continues_an_interrupted_run_and_counts_the_earlier_ones(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    here.stops = ["", "planted.InBaseline10"]
    assert here.calibrate(*TWO, "--repeat", 3) == 130
    assert len(here.files) == 2
    assert "wrong: 0 of 2" in capsys.readouterr().out
    assert here.calibrate(*TWO, "--repeat", 3) == 0
    assert [[entry.name for entry in store.read(file)[0].records] for file in here.files] == [list(TWO)] * 3
    assert "wrong: 0 of 6" in capsys.readouterr().out


def test_what_was_measured_without_its_noise_is_not_kept(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended() -> None:
        raise NoNoise("made up")

    monkeypatch.setattr(calibrate, "noise", lambda seed: nullcontext(ended))
    with pytest.raises(NoNoise, match="deleted"):
        here.calibrate(*TWO, "--loaded")
    assert here.files == []


@pytest.mark.slow
def test_end_to_end_with_next_to_no_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "LIMITS", tiny.LIMITS)
    monkeypatch.setattr(rules, "RULES", tiny.RULES)
    names = "control.SmallOperations", "memory.Leak", "planted.InBaseline10"
    assert calibrate.main([*names, "--loaded", "--results", str(tmp_path)]) in (0, 1)  # two launches say little
    (file,) = tmp_path.rglob("*.jsonl")
    assert [entry.outcome for entry in store.read(file)[0].records] == ["measured"] * 3
    assert "1 found" in capsys.readouterr().out
