"""The calibration: what is wrong, what the page holds, what the command leaves behind. Nothing depends on a clock."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests import tiny
from tests.made_up import MIB, both, info, measured, run, tip
from tests.peers import timers
from tipbench.calibrate.findings import Finding, contradicts, findings, share
from tipbench.calibrate.page import page, summary
from tipbench.cli import main
from tipbench.engine import run as running
from tipbench.engine.launcher import Launcher
from tipbench.engine.lock import only_run
from tipbench.engine.noise import NoNoise
from tipbench.engine.profiles import PROFILES
from tipbench.errors import UserError
from tipbench.records import store
from tipbench.records.fields import MalformedRecord
from tipbench.records.record import PairInfo, Record, Run
from tipbench.report.document import Bullets, Page, Quote, Table
from tipbench.report.rows import rows
from tipbench.suite.discover import Discovery, discover
from tipbench.suite.files import BENCHMARKS, KNOWN
from tipbench.tip.reason import Reason
from tipbench.verdict import rules

FIVE = {"sines": 200, "in_baseline": 10, "in_optimized": 0}
SAME = info("Pointwise", tip=tip("control"))
MORE = info("InBaseline10", tip=tip("planted"), sizes=FIVE)
DRAWN = info("AtRandom", tip=tip("planted"), sizes={"sines": 200, "elements": 2000})
HELD = info("Held", tip=tip("memory"), sizes={"live_mib": 512, "resident_mib": 512})
TAKEN = info("Transient", tip=tip("memory"), sizes={"live_mib": 240})


def found(about: PairInfo, effect: float = 0.0, **more: object) -> Record:
    return measured(about, {"optimized": effect}, **more)  # type: ignore[arg-type]


def calibration(*records: Record, state: str = "idle", id: str = "aaaa1111", **more: object) -> Run:
    options = {"profile": "full", "device": "cpu", "seed": 0, "bare": False, "folder": "", "calibration": state}
    return run(records, id=id, options={**options, **more})


def kept(folder: Path, of: Run) -> Path:
    with store.create(folder, of) as writer:
        for record in of.records:
            writer.append(record)
    return writer.path


# ---- what is wrong ----


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
def test_a_verdict_is_wrong_where_it_contradicts_the_truth(
    verdict: str, untrue_of: list[tuple[int, int]], true_of: list[tuple[int, int]]
) -> None:
    assert all(contradicts(verdict, math.log(baseline / optimized)) for baseline, optimized in untrue_of)
    assert not any(contradicts(verdict, math.log(baseline / optimized)) for baseline, optimized in true_of)


@pytest.mark.parametrize(
    ("about", "effect", "said", "wrong", "covered"),
    [
        (SAME, 0.0, "no difference", False, True),
        (SAME, 0.05, "faster", True, False),
        (MORE, math.log(1.05), "faster", False, True),
        (MORE, math.log(1.06), "faster", False, False),  # its direction is right, its size is not
        (MORE, 0.0, "no difference", True, False),
        (DRAWN, 0.05, "faster", True, None),
        (DRAWN, 0.01, "inconclusive", False, None),
    ],
)
def test_what_is_said_of_time_is_set_beside_the_truth(
    about: PairInfo, effect: float, said: str, wrong: bool, covered: bool | None
) -> None:
    (one,) = findings(calibration(found(about, effect)))
    assert (one.pair, one.said, one.wrong, one.covered, one.loaded) == (about.name, said, wrong, covered, False)
    assert one.measured == pytest.approx(math.exp(effect))


def test_each_pair_is_judged_alone() -> None:
    """A claim that the report of many pairs would no longer make is still a claim of the engine."""
    many = [found(replace(SAME, pair=f"Alike{number}")) for number in range(30)]
    claim = found(MORE, 0.05, spread=0.012)
    run_of_one, run_of_many = calibration(claim), calibration(claim, *many)
    assert [row.verdict for of in (run_of_one, run_of_many) for row in rows(of)[:1]] == ["faster", "inconclusive"]
    assert findings(run_of_many)[0].said == findings(run_of_one)[0].said == "faster"


@pytest.mark.parametrize(
    ("about", "live", "resident", "said"),
    [
        (HELD, 512, 512, ["found", "found"]),
        (HELD, 525, 500, ["found", "found"]),
        (HELD, 540, 480, ["missed", "missed"]),
        (HELD, 512, 1024, ["found", "missed"]),
        (TAKEN, 240, 1000, ["found"]),  # what stays resident is the allocator's affair
        (TAKEN, 480, 240, ["missed"]),
    ],
)
def test_planted_memory_may_be_off_by_five_percent(about: PairInfo, live: int, resident: int, said: list[str]) -> None:
    listed = findings(calibration(found(about, 0.3, memory=both(800 + live, 1000 + resident))))
    assert [one.said for one in listed] == said
    assert [one.wrong for one in listed] == [word == "missed" for word in said]
    assert [one.measured for one in listed] == [live * MIB, resident * MIB][: len(said)]


def test_what_was_not_measured_is_neither_right_nor_wrong() -> None:
    hang = Reason("hang", {"seconds": 300, "doing": "block"})
    unread = found(HELD, memory={name: {"tensor_peak": 512 * MIB} for name in ("baseline", "optimized")})
    listed = findings(calibration(Record(MORE, "failed", hang), Record(TAKEN, "failed", hang), unread))
    assert [one.said for one in listed] == ["failed", "failed", "missed", "skipped"]
    assert [one.done for one in listed] == [False, False, True, False]
    assert listed[0].why == listed[1].why != ""


@pytest.mark.parametrize("sizes", [{"live_mib": "512"}, {**FIVE, "sines": 0}, {**FIVE, "in_baseline": -1}])
def test_sizes_that_plant_nothing_are_refused(sizes: dict[str, object], tmp_path: Path) -> None:
    of = calibration(found(replace(MORE, sizes=sizes)))
    with pytest.raises(MalformedRecord):
        findings(of)
    assert main(["calibrate", "--page", str(kept(tmp_path, of)), "--reports", str(tmp_path)]) == 2


def test_a_shares_interval_is_the_exact_binomial_one() -> None:
    counted = share([True] * 10)
    assert counted is not None
    assert (counted.low, counted.high) == pytest.approx((0.025 ** (1 / 10), 1.0))  # 10 of 10: low^10 = 2.5 %
    counted = share([False] * 20)
    assert counted is not None
    assert (counted.low, counted.high) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    assert share([]) is None


# ---- the page ----


RUNS = {
    Path("a.jsonl"): calibration(found(SAME, 0.05), found(MORE, math.log(1.05)), found(HELD, memory=both(1312, 1512))),
    Path("b.jsonl"): replace(
        calibration(found(SAME, 0.0), found(MORE, 0.04), state="loaded", id="bbbb2222"),
        started="2026-03-01T09:40:00+00:00",
        planned=("control.Pointwise", "planted.InBaseline10", "planted.Nothing"),
    ),
    Path("c.jsonl"): replace(calibration(found(SAME, 0.0), id="cccc3333"), started="2026-03-01T09:50:00+00:00"),
}


WHOLE = {Path("a.jsonl"): RUNS[Path("a.jsonl")]}


def cells(of: Page) -> list[list[str]]:
    """The text of the page's table."""
    (table,) = (block for block in of.blocks if isinstance(block, Table))
    return [["".join(getattr(span, "text", str(span)) for span in cell.line) for cell in row] for row in table.rows]


def test_the_page_pools_runs_and_keeps_idle_and_loaded_apart() -> None:
    shown = cells(page(RUNS))
    assert [row[:2] for row in shown] == [
        ["control.Pointwise", "idle"],
        ["planted.InBaseline10", "idle"],
        ["memory.Held", "idle"],
        ["memory.Held", "idle"],
        ["control.Pointwise", "loaded"],
        ["planted.InBaseline10", "loaded"],
    ]
    assert shown[0][3:4] + shown[0][5:] == ["1 faster, 1 no difference", "1 of 2", "1 of 2"]
    assert shown[1][3:4] + shown[1][5:] == ["faster", "0 of 1", "1 of 1"]
    assert shown[2][3:] == ["found", "512 MiB", "0 of 1", "-"]
    assert shown[5][3:4] + shown[5][5:] == ["faster", "0 of 1", "0 of 1"]


def test_shares_count_what_they_name() -> None:
    def made(truth: float | None, said: str, memory: str = "", loaded: bool = False) -> Finding:
        # the interval of 4 to 6 % holds a truth of 5 % alone
        return Finding("x", loaded, truth, said, memory, 1.05, 1.04, 1.06)

    listed = [
        *(made(0.0, "no difference"), made(0.0, "faster"), made(0.0, "inconclusive"), made(0.0, "faster", loaded=True)),
        *(made(math.log(1.05), "faster"), made(None, "inconclusive"), made(None, "faster")),
        *(made(1.0, "found", "tensor_peak"), made(1.0, "missed", "tensor_peak"), made(0.0, "failed")),
    ]
    counted = [line.rsplit(": ", 1)[1].split(" (")[0] for line in summary(listed)]
    assert counted == ["1 of 4", "1 of 1", "1 of 4", "0 of 1", "1 of 3", "0 of 1", "1 of 2", "1 of 2", "1"]
    assert len(summary([])) == 1


def test_the_page_begins_with_its_limits_and_does_not_depend_on_the_order_of_files() -> None:
    made = page(RUNS)
    assert [type(block) for block in made.blocks if isinstance(block, Quote | Table)] == [Quote, Table]
    assert made == page(dict(reversed(RUNS.items())))
    *_, files = (block for block in made.blocks if isinstance(block, Bullets))
    assert [str(line[0]).split(":")[0] for line in files.lines] == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert "2 of 3" in str(files.lines[1])
    limits, complete = (next(one for one in of.blocks if isinstance(one, Quote)) for of in (made, page(WHOLE)))
    assert len(limits.lines) == len(complete.lines) + 1  # one planned pair was not reached


def test_what_could_not_be_used_or_measured_is_on_the_page() -> None:
    killed = Record(MORE, "failed", Reason("killed", {"doing": "block"}))
    notice = store.Notice(Path("a.jsonl"), 7, "made up")
    shown = str(page({Path("a.jsonl"): calibration(killed)}, [notice]).blocks)
    assert "a.jsonl, line 7: made up" in shown
    assert killed.reason in shown


# ---- files ----


def test_whoever_looks_for_runs_passes_calibrations_by(tmp_path: Path) -> None:
    file = kept(tmp_path, calibration(found(SAME)))
    assert file.name == f"{store.CALIBRATION}2026-03-01-aaaa1111.jsonl"
    with pytest.raises(store.StoreError):
        store.newest(tmp_path)
    ordinary = kept(tmp_path, run([found(SAME)], started="2026-02-01T00:00:00+00:00"))
    assert store.newest(tmp_path) == ordinary


STORED = sorted(Path("results").rglob("calibration-*.jsonl"))


@pytest.mark.parametrize("file", STORED)
def test_every_stored_calibration_has_its_page_or_is_named_in_that_of_several(file: Path) -> None:
    pages = Path("reports", file.parent.name)
    named = any(file.name in page.read_text() for page in pages.glob("calibration-*.md"))
    assert (pages / f"{file.stem}.md").is_file() or named


@pytest.mark.parametrize(
    ("door", "of", "named"),
    [
        *((["calibrate", "--page"], "old", "reports/"), (["calibrate", "--resume"], "old", "reports/")),
        *((["run", "--resume"], "old", "reports/"), (["report"], "old", "reports/"), (["compare"], "old", "reports/")),
        (["run", "--resume"], "calibration", "tipbench calibrate --resume "),
        (["report"], "calibration", "tipbench calibrate --page "),
        (["compare"], "calibration", ""),
        (["calibrate", "--page"], "ordinary", "tipbench report "),
        (["calibrate", "--resume"], "ordinary", "tipbench run --resume "),
    ],
)
def test_a_file_at_the_wrong_door_is_kept_and_sent_to_the_right_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], door: list[str], of: str, named: str
) -> None:
    new = {"calibration": calibration(found(SAME)), "ordinary": run([found(SAME)])}
    file = STORED[0] if of == "old" else kept(tmp_path, new[of])
    content = file.read_bytes()
    assert main([*door, str(file)]) == 2
    err = capsys.readouterr().err
    assert (named if of == "old" else f"{named}{file}") in err
    assert err.count("\n") == 1
    assert file.read_bytes() == content


@pytest.mark.parametrize("other", [{"profile": "quick"}, {"device": "cuda"}, {"id": "aaaa1111"}])
def test_runs_that_were_not_made_alike_or_are_the_same_one_are_not_pooled(
    tmp_path: Path, other: dict[str, str]
) -> None:
    first = kept(tmp_path / "1", calibration(found(SAME)))
    second = kept(tmp_path / "2", calibration(found(SAME), **{"id": "bbbb2222", **other}))
    assert main(["calibrate", "--page", str(first), str(second), "--reports", str(tmp_path)]) == 2
    assert list(tmp_path.rglob("*.md")) == []


# ---- the command ----


class Here:
    """`tipbench calibrate` with made-up measurements of the real pairs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stops: list[str] = []
        """Of each run, before which pair it is interrupted."""

    def run(self, pairs: Sequence[PairInfo], *_: object) -> Iterator[Record]:
        stop = self.stops.pop(0) if self.stops else ""
        for about in pairs:
            if about.name == stop:
                raise KeyboardInterrupt
            yield found(about, math.log(1.05) if about.name == "planted.InBaseline10" else 0.0)

    def calibrate(self, *arguments: object) -> int:
        listed = ["calibrate", *map(str, arguments), "--reports", str(self.folder / "reports")]
        return main(listed if {"--page", "--resume"} & set(listed) else [*listed, "--results", str(self.folder)])

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.jsonl"), key=lambda file: store.header(file).options["seed"])

    @property
    def pages(self) -> list[str]:
        return sorted(file.stem for file in self.folder.rglob("*.md"))


@pytest.fixture(scope="module")
def discovered() -> dict[Path, Discovery]:
    return {folder: discover(folder, "cpu") for folder in (KNOWN, BENCHMARKS / "control.py")}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, discovered: dict[Path, Discovery]) -> Here:
    made = Here(tmp_path)
    monkeypatch.setattr(running, "discover", lambda folder, *_: discovered[folder])
    monkeypatch.setattr(running, "run", made.run)
    return made


TWO = "control.Pointwise", "planted.InBaseline10"


def test_each_repetition_is_an_ordinary_run_of_its_own_and_all_have_one_page(here: Here) -> None:
    assert here.calibrate(*TWO, "--repeat", 2, "--seed", 5) == 0
    runs = [store.read(file)[0] for file in here.files]
    assert [one.planned for one in runs] == [TWO, TWO]
    assert [one.options["calibration"] for one in runs] == ["idle", "idle"]
    assert runs[1].options["seed"] - runs[0].options["seed"] > rules.RULES_2.looks.launches[-1]
    assert [one.options["folder"] for one in runs] == ["", ""]
    assert [one.options["rules"] for one in runs] == [2, 2]
    (page_of_both,) = here.pages
    assert page_of_both in [file.stem for file in here.files]


def test_without_names_every_control_and_every_planted_pair_is_measured(here: Here) -> None:
    here.stops = ["control.Pointwise"]
    assert here.calibrate() == 130
    planned = store.header(here.files[0]).planned
    assert {name.split(".")[0] for name in planned} == {"control", "planted", "memory"}
    assert len(planned) == len(set(planned)) > 15


@pytest.mark.parametrize(
    "record", [found(SAME, 0.05), found(TAKEN, memory=both(800, 1000)), Record(MORE, "failed", Reason("killed", {}))]
)
def test_what_is_wrong_or_failed_gives_exit_code_1(tmp_path: Path, record: Record) -> None:
    file = kept(
        tmp_path, calibration(found(MORE, math.log(1.05)), replace(record, info=replace(record.info, pair="X")))
    )
    assert main(["calibrate", "--page", str(file), "--reports", str(tmp_path)]) == 1


def test_an_interrupted_run_is_gone_on_with_as_it_was_begun(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.stops = ["planted.InBaseline10"]
    assert here.calibrate(*TWO, "--loaded", "--profile", "full") == 130
    (file,) = here.files
    assert f"tipbench calibrate --resume {file}\n" in capsys.readouterr().err
    assert here.pages == []
    file.write_bytes(file.read_bytes()[:-20])
    assert here.calibrate("--resume", file) == 0
    of, notices = store.read(file)
    assert ([record.name for record in of.records], notices) == ([*TWO], [])
    assert (of.options["calibration"], of.options["profile"]) == ("loaded", "full")
    assert here.pages == [file.stem]
    assert here.calibrate("--resume", file) == 0  # nothing is left: the page anew


def test_interrupted_between_repetitions_it_names_the_files_of_one_page(
    here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    here.stops = ["", "control.Pointwise"]
    assert here.calibrate(*TWO, "--repeat", 3) == 130
    assert f"--page {' '.join(map(str, here.files))}\n" in capsys.readouterr().err
    assert len(here.files) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["planted.InBaselin10"],
        ["--resume", "gone.jsonl"],
        ["--resume", "gone.jsonl", "--loaded"],
        ["--page", "gone.jsonl"],
        ["--repeat", "2", "--page", "gone.jsonl"],
    ],
)
def test_a_mistake_is_answered_in_one_line_with_exit_code_2(
    here: Here, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert here.calibrate(*arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert here.files == []


def test_a_second_measurement_at_once_is_refused_and_not_disturbed(
    here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "noise", lambda seed: pytest.fail("the other would be disturbed"))
    with only_run("`tipbench run other`"):
        assert here.calibrate(*TWO, "--loaded") == 2
    assert "`tipbench run other`" in capsys.readouterr().err


def test_what_was_measured_without_its_noise_is_not_kept(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    lasts = iter((True, False))

    def ended() -> None:
        if not next(lasts):
            raise NoNoise("made up")

    monkeypatch.setattr(running, "noise", lambda seed: nullcontext(ended))
    assert here.calibrate(*TWO, "--loaded") == 1
    assert [record.name for record in store.read(here.files[0])[0].records] == [TWO[0]]


@pytest.mark.slow
def test_a_calibration_end_to_end_with_next_to_no_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("quick", "full"):
        monkeypatch.setitem(PROFILES, name, tiny.PROFILE)
    monkeypatch.setattr(rules, "RULES_2", tiny.RULES)
    folder = str(tmp_path)
    names = "control.SmallOperations", "memory.Leak", "planted.InBaseline10"
    code = main(["calibrate", *names, "--loaded", "--results", folder, "--reports", folder])
    assert code in (0, 1)  # two launches of a few steps say next to nothing
    (file,), (written,) = tmp_path.rglob("*.jsonl"), tmp_path.rglob("*.md")
    of, notices = store.read(file)
    assert notices == []
    assert [record.outcome for record in of.records] == ["measured"] * 3
    (live,) = (one for one in findings(of) if one.memory)
    assert (live.measured, live.said) == (live.truth, "found")
    assert written.stem == file.stem
    assert all(record.name in written.read_text() for record in of.records)


# ---- the other timer ----


def test_the_ratio_of_two_timers_has_welchs_interval() -> None:
    same = 1.00, 1.02, 0.98, 1.01, 0.99
    ratio, _, high = timers.welch(same, same)
    assert ratio == 1.0
    # equal spreads s on both sides of n each: half width t(2n - 2) x s x sqrt(2 / n)
    logs = [math.log(seconds) for seconds in same]
    deviation = math.sqrt(sum((one - sum(logs) / 5) ** 2 for one in logs) / 4)
    assert math.log(high) == pytest.approx(2.306004 * deviation * math.sqrt(2 / 5), rel=1e-6)
    assert timers.welch(same, [1.05 * seconds for seconds in same])[0] == pytest.approx(1 / 1.05)


@pytest.mark.slow
def test_another_timer_answers_in_seconds_or_says_that_it_could_not(discovered: dict[Path, Discovery]) -> None:
    about = next(one for one in discovered[BENCHMARKS / "control.py"].pairs if one.pair == "SmallOperations")
    launcher = Launcher(BENCHMARKS, {})
    try:
        assert timers.seconds_a_step(about, "Timer", 0, launcher) > 0.0
        with pytest.raises(UserError):
            timers.seconds_a_step(replace(about, pair="Gone"), "Timer", 0, launcher)
    finally:
        launcher.close()
