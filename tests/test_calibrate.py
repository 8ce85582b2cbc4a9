"""The calibration: what it plans, keeps, tells and writes. Nothing here depends on a clock."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import tiny
from tests.made_up import MACHINE, info, tip
from tipbench.calibrate import command, findings, noise, page, plan, stored, timer
from tipbench.calibrate.command import PLANTED, seed_of
from tipbench.calibrate.measure import launches, measured
from tipbench.calibrate.plan import Case
from tipbench.calibrate.stored import Calibration, Comparison
from tipbench.cli import main
from tipbench.engine import lock
from tipbench.engine.handle import WorkerFailed
from tipbench.engine.launcher import Launcher
from tipbench.engine.profiles import PROFILES
from tipbench.machine import describe
from tipbench.machine.controls import callers
from tipbench.records.record import PairInfo
from tipbench.records.store import Notice, StoreError, newest
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.suite.selection import NothingSelected
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

MIB = 1 << 20

LOOKS = {"launches": [4, 6], "alphas": [0.005, 0.045]}

BEGUN = Calibration(
    id="c0ffee00c0ffee00",
    started="2026-03-01T10:00:00+00:00",
    suite="0.1.0",
    machine=MACHINE,
    controls={"OMP_NUM_THREADS": "2"},
    options={
        "profile": "quick",
        "engine": "quick",
        "looks": LOOKS,
        "device": "cpu",
        "seed": 0,
        "repeat": 1,
        "only": [],
    },
    planned=("aa/idle/Pointwise", "planted/idle/optimized+5", "memory/held"),
)


def compared(case: str, verdict: str, speedup: float, half: float = 0.005, **more: Any) -> Comparison:
    """A comparison whose interval reaches `half` to both sides, in log units."""
    mean = math.log(speedup)
    known: dict[str, Any] = {
        "part": case.split("/")[0],
        "pair": f"control.{case.split('/')[-1]}" if case.startswith("aa/") else "planted.Made",
        "repetition": 0,
        "loaded": "/loaded/" in case,
        "seed": 7,
        "commit": "abc",
        "wall_s": 5.0,
        "truth": 0.0,
        "effects": (mean - 0.002, mean, mean + 0.002),
        "verdict": verdict,
        "speedup": speedup,
        "low": math.exp(mean - half),
        "high": math.exp(mean + half),
    }
    return Comparison(case, **{**known, **more})


def memory(case: str, before: int, after: int, planted: int = 512 * MIB) -> Comparison:
    memory = {
        side: {"tensor_peak": peak, "resident_peak": peak}
        for side, peak in (("baseline", before), ("optimized", after))
    }
    return Comparison(case, "memory", "planted.Held", 0, False, 7, "abc", 8.0, planted_bytes=planted, memory=memory)


def timed(ours: tuple[float, ...], theirs: tuple[float, ...]) -> Comparison:
    seconds = {"harness": ours, "Timer": theirs}
    return Comparison("timer/Pointwise", "timer", "control.Pointwise", 0, False, 7, "abc", 30.0, seconds=seconds)


# ---- the plan -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def listed() -> list[plan.Case]:
    """The cases of the long profile, from the files that are really measured."""
    return plan.cases("long", discover(BENCHMARKS / "control.py", "cpu").pairs, discover(PLANTED, "cpu").pairs)


def test_all_amounts_are_planted_on_both_sides_with_their_exact_truth(listed: list[plan.Case]) -> None:
    truths = {case.name: case.truth for case in listed if case.part == "planted" and not case.loaded}
    expected = {"planted/idle/none": 0.0}
    for extra, percent in ((1, "0.5"), (2, "1"), (3, "1.5"), (4, "2"), (6, "3"), (10, "5"), (20, "10")):
        expected[f"planted/idle/baseline+{percent}"] = math.log((200 + extra) / 200)
        expected[f"planted/idle/optimized+{percent}"] = math.log(200 / (200 + extra))
    assert truths == pytest.approx(expected)


def test_all_controls_are_compared_idle_and_loaded_and_five_percent_too(listed: list[plan.Case]) -> None:
    pairs = ("Pointwise", "Convolution", "TrainingStep", "SmallOperations", "OwnSurroundings")
    names = [case.name for case in listed if case.part == "aa"]
    assert names == [*(f"aa/idle/{pair}" for pair in pairs), *(f"aa/loaded/{pair}" for pair in pairs)]
    assert [case.name for case in listed if case.loaded and case.part != "aa"] == [
        "planted/loaded/baseline+5",
        "planted/loaded/optimized+5",
    ]
    assert {case.name for case in listed if case.part in ("random", "memory")} == {
        "random", "memory/held", "memory/transient", "memory/leak",
    }  # fmt: skip


def test_every_name_is_one_case(listed: list[plan.Case]) -> None:
    assert len({case.name for case in listed}) == len(listed)


def test_the_quick_profile_takes_some_of_every_part() -> None:
    controls = [info(pair, tip=tip("control")) for pair in ("Pointwise", "SmallOperations")]
    planted = [info(pair, tip=tip("planted"), sizes={"mib": 1}) for pair in ("AtRandom", "Held", "Transient", "Leak")]
    planted += [info(f"In{extra}", sizes={"sines": 200, "in_baseline": extra, "in_optimized": 0}) for extra in (6, 10)]
    names = [case.name for case in plan.cases("quick", controls, planted)]
    assert names == [
        *("aa/idle/Pointwise", "aa/idle/SmallOperations", "aa/loaded/Pointwise", "aa/loaded/SmallOperations"),
        *("planted/idle/baseline+5", "planted/loaded/baseline+5", "random"),
        *("memory/held", "memory/transient", "memory/leak"),
        *("timer/Pointwise", "timer/SmallOperations"),
    ]


def test_a_name_selects_its_case_or_all_that_begin_so() -> None:
    listed = [Case(name, "aa", info()) for name in ("aa/idle/A", "aa/idle/AB", "aa/loaded/A", "random")]

    def names(*asked: str) -> list[str]:
        return [case.name for case in plan.select(listed, asked)]

    assert names() == ["aa/idle/A", "aa/idle/AB", "aa/loaded/A", "random"]
    assert names("aa/idle") == ["aa/idle/A", "aa/idle/AB"]
    assert names("aa/idle/A") == ["aa/idle/A"]
    assert names("random", "aa/loaded") == ["aa/loaded/A", "random"]
    with pytest.raises(NothingSelected, match="no case of this profile is named 'randon'; did you mean random"):
        names("randon")


def test_the_plan_is_told_with_its_expected_time() -> None:
    left = [
        Case("aa/idle/A", "aa", info()),
        Case("aa/loaded/A", "aa", info(), loaded=True),
        Case("random", "random", info()),
    ]
    first, *lines = plan.announcement(left, "quick").splitlines()
    seconds = 2 * plan.SECONDS["quick"]["aa"] + plan.SECONDS["quick"]["random"]
    assert first == f"3 comparisons, about {seconds / 60:.1f} min on 2 cores:"
    assert [line.split(",")[0].split() for line in lines] == [
        ["aa", "2", "comparisons", "(1", "loaded)"],
        ["random", "1", "comparisons", "(0", "loaded)"],
    ]


def test_each_comparison_has_a_seed_of_its_own_and_the_same_at_every_try() -> None:
    seeds = [seed_of(seed, number, case) for seed in (0, 1) for number in (0, 1) for case in ("aa/idle/A", "random")]
    assert len(set(seeds)) == 8
    assert seed_of(1, 1, "random") == seeds[-1]


# ---- what is wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "truth", "untrue"),
    [
        ("faster", 0.0, True),
        ("slower", 0.0, True),
        ("no difference", 0.0, False),
        ("inconclusive", 0.0, False),
        ("faster", math.log(1.05), False),
        ("slower", math.log(1.05), True),
        ("no difference", math.log(1.05), True),
        ("inconclusive", math.log(1.05), False),
        ("slower", math.log(1 / 1.05), False),
        ("faster", math.log(1 / 1.05), True),
        # exactly 1 % counts as no difference, whatever the last bit says
        ("no difference", math.log(202 / 200), False),
        ("no difference", math.log(200 / 202), False),
        ("faster", math.log(202 / 200), True),
        ("slower", math.log(200 / 202), True),
    ],
)
def test_a_verdict_is_wrong_where_it_contradicts_the_truth(verdict: str, truth: float, untrue: bool) -> None:
    assert findings.wrong(compared("planted/idle/x", verdict, 1.0, truth=truth)) == untrue


def test_only_inconclusive_is_right_for_what_comes_and_goes() -> None:
    assert not findings.wrong(compared("random", "inconclusive", 1.0, part="random", pair="planted.AtRandom"))
    assert findings.wrong(compared("random", "no difference", 1.0, part="random", pair="planted.AtRandom"))


def test_planted_memory_may_be_off_by_five_percent() -> None:
    assert not findings.wrong(memory("memory/held", 100 * MIB, 100 * MIB + 525 * MIB))
    assert findings.wrong(memory("memory/held", 100 * MIB, 100 * MIB + 540 * MIB))
    assert findings.wrong(memory("memory/held", 100 * MIB, 100 * MIB + 480 * MIB))
    assert not findings.wrong(memory("memory/leak", 100 * MIB, 100 * MIB, 4 * MIB))  # told, not judged
    let_go = memory("memory/transient", 100 * MIB, 612 * MIB)
    assert let_go.memory is not None
    resident = {**let_go.memory["optimized"], "resident_peak": 1636 * MIB}
    assert not findings.wrong(replace(let_go, memory={**let_go.memory, "optimized": resident}))
    assert findings.wrong(memory("memory/transient", 100 * MIB, 1636 * MIB))


def test_timers_agree_by_welchs_interval_and_by_practical_size() -> None:
    same = 1.00, 1.02, 0.98, 1.01, 0.99
    (found,) = findings.agreements(timed(same, same))
    assert (found.word, found.ratio) == ("agree", 1.0)
    # equal spreads s on both sides of n each: half width t(2n - 2) x s x sqrt(2 / n)
    logs = [math.log(seconds) for seconds in same]
    deviation = math.sqrt(sum((one - sum(logs) / 5) ** 2 for one in logs) / 4)
    assert math.log(found.high) == pytest.approx(2.306004 * deviation * math.sqrt(2 / 5), rel=1e-6)

    close = 1.00, 1.0002, 0.9998
    (found,) = findings.agreements(timed(close, tuple(1.005 * seconds for seconds in close)))
    assert found.word == "agree within 1 %"
    assert not findings.wrong(timed(close, tuple(1.005 * seconds for seconds in close)))
    wide = 1.0, 1.2, 0.8
    (found,) = findings.agreements(timed(wide, wide))
    assert found.word == "cannot be distinguished"
    (found,) = findings.agreements(timed(close, tuple(1.05 * seconds for seconds in close)))
    assert found.word == "differ"
    assert found.ratio == pytest.approx(1 / 1.05)
    assert findings.wrong(timed(close, tuple(1.05 * seconds for seconds in close)))


def test_a_shares_interval_is_the_exact_binomial_one() -> None:
    found = findings.share([True] * 10)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.025 ** (1 / 10), 1.0))  # 10 of 10: low^10 = 2.5 %
    found = findings.share([False] * 20)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    assert findings.share([]) is None


# ---- what is kept -------------------------------------------------------------------------------------


def test_what_is_stored_is_read_back_the_same(tmp_path: Path) -> None:
    kept = [
        compared("aa/idle/Pointwise", "no difference", 1.001, effects=(0.001, None, 0.002)),
        memory("memory/held", MIB, 513 * MIB),
        timed((1e-3, 1.1e-3), (1.0e-3, 1.2e-3)),
        Comparison("random", "random", "planted.AtRandom", 3, False, 1, "abc", 1.0, failed="killed: by someone"),
    ]
    path = stored.create(tmp_path, BEGUN)
    assert path == tmp_path / "amd-epyc-zen4-2c-24g" / "calibration-2026-03-01-c0ffee00.jsonl"
    for comparison in kept:
        stored.append(path, comparison)
    assert stored.read(path) == (replace(BEGUN, comparisons=tuple(kept)), [])


def test_a_truncated_last_line_costs_its_comparison_only_and_is_cut_before_going_on(tmp_path: Path) -> None:
    path = stored.create(tmp_path, BEGUN)
    first, second = (
        compared("aa/idle/Pointwise", "no difference", 1.0),
        compared("aa/idle/Convolution", "no difference", 1.0),
    )
    stored.append(path, first)
    whole = path.read_bytes()
    for cut in (1, 30, len(json.dumps(asdict(second), separators=(",", ":")))):
        path.write_bytes(whole)
        stored.append(path, second)
        path.write_bytes(path.read_bytes()[: len(whole) + cut])
        found, (notice,) = stored.read(path)
        assert found.comparisons == (first,)
        assert str(notice) == f"{path}, line 3: truncated: ended while it was written; this comparison is lost"
        stored.cut_truncated_line(path)
        stored.append(path, second)
        found, notices = stored.read(path)
        assert (found.comparisons, notices) == ((first, second), [])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda line: "{broken", "no comparison"),
        (lambda line: "[]", "an object is expected, not list"),
        (lambda line: line.replace('"seed":7,', ""), "the field 'seed' is missing"),
        (lambda line: line.replace('"wall_s":5.0', '"wall_s":"5"'), "a number is expected"),
        (lambda line: line.replace('"verdict":"slower"', '"verdict":3'), "a word is expected"),
        (lambda line: line.replace('"effects":[', '"effects":["x",'), "a number is expected"),
        (lambda line: line.replace('"seed":7', '"seed":7,"sed":7'), "sed"),
    ],
)
def test_a_damaged_line_is_told_and_the_rest_is_kept(tmp_path: Path, change: Callable[[str], str], told: str) -> None:
    path = stored.create(tmp_path, BEGUN)
    for verdict in ("slower", "no difference"):
        stored.append(path, compared(f"aa/idle/{verdict}", verdict, 1.0))
    header, damaged, whole, _ = path.read_text().split("\n")
    path.write_text("\n".join([header, change(damaged), whole, ""]))
    found, (notice,) = stored.read(path)
    assert [comparison.verdict for comparison in found.comparisons] == ["no difference"]
    assert notice.line == 2
    assert told in notice.text


def test_a_comparison_stored_twice_counts_once(tmp_path: Path) -> None:
    path = stored.create(tmp_path, BEGUN)
    for verdict in ("no difference", "faster"):
        stored.append(path, compared("aa/idle/Pointwise", verdict, 1.0))
    found, (notice,) = stored.read(path)
    assert [comparison.verdict for comparison in found.comparisons] == ["no difference"]
    assert "stored a second time" in notice.text


def test_a_pipe_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "calibration-x.jsonl")
    with pytest.raises(StoreError, match="not a regular file"):
        stored.read(tmp_path / "calibration-x.jsonl")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "line 1: the header is not readable"),
        ('{"schema":1}\n', "is no calibration of tipbench"),
        ('{"calibration":99}\n', "written by another version"),
        ('{"calibration":1,"id":"x"}\n', "the header's field 'started' is missing or damaged"),
        (
            json.dumps({"calibration": 1, **{name: kind() for name, kind in stored.HEADER.items()}}),
            "'device' is missing",
        ),
    ],
)
def test_a_file_without_a_usable_header_is_refused(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "calibration-x.jsonl"
    path.write_text(content)
    with pytest.raises(StoreError, match=told):
        stored.read(path)


def test_reports_of_runs_pass_calibrations_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored.create(tmp_path, BEGUN)
    with pytest.raises(StoreError, match="no results under"):
        newest(tmp_path)
    run = path.parent / "2026-02-01-00000000.jsonl"
    run.write_text("{}\n")
    assert newest(tmp_path) == run
    assert main(["report", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"tipbench: {path} is no run; its page is written by `tipbench calibrate --resume {path}`\n"
    )


# ---- the command --------------------------------------------------------------------------------------


class Here:
    """`tipbench calibrate` with made-up cases, and findings as told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, int]] = []
        self.verdicts = {
            "aa/idle/Pointwise": "no difference",
            "planted/idle/optimized+5": "slower",
            "random": "inconclusive",
        }
        self.stop_at = ""
        self.cases = [
            Case("aa/idle/Pointwise", "aa", info("Pointwise"), 0.0),
            Case("planted/idle/optimized+5", "planted", info("InOptimized10"), math.log(200 / 210)),
            Case("random", "random", info("AtRandom"), 0.0),
        ]

    def measured(self, case: Case, repetition: int, *_: object) -> Comparison:
        if case.name == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append((case.name, repetition))
        verdict = self.verdicts[case.name]
        more: dict[str, Any] = {"failed": "killed: made up"} if verdict == "failed" else {}
        speedup = math.exp(case.truth or 0.0)
        return compared(case.name, verdict, speedup, part=case.part, truth=case.truth, repetition=repetition, **more)

    def calibrate(self, *arguments: str) -> int:
        return main(["calibrate", *arguments, "--reports", str(self.folder / "reports")])

    def begin(self, *arguments: str) -> int:
        return self.calibrate("--results", str(self.folder / "results"), *arguments)

    @property
    def file(self) -> Path:
        (file,) = self.folder.rglob("*.jsonl")
        return file

    @property
    def page(self) -> str:
        (file,) = self.folder.rglob("*.md")
        assert (file.parent.name, file.stem) == (MACHINE["name"], self.file.stem)
        return file.read_text()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    made = Here(tmp_path)
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "lock")
    monkeypatch.setattr(command, "_cases", lambda profile, device: (made.cases, 2, "cpu"))
    monkeypatch.setattr(command, "measured", made.measured)
    monkeypatch.setattr(describe, "describe", lambda: dict(MACHINE))
    return made


def test_all_cases_are_measured_kept_and_told(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here.begin("--repeat", "2") == 0
    names = ["aa/idle/Pointwise", "planted/idle/optimized+5", "random"]
    assert here.asked == [(name, number) for number in (0, 1) for name in names]
    found, notices = stored.read(here.file)
    assert ([comparison.key for comparison in found.comparisons], notices) == (here.asked, [])
    assert found.options["looks"] == asdict_looks("quick")
    out, err = capsys.readouterr()
    assert err.startswith("6 comparisons, about ")
    assert "[6/6] random: inconclusive 1.000x" in err
    assert f"results: {here.file}" in out
    assert "- wrong verdicts on time: 0 of 4 " in here.page
    assert "wrong verdicts on time: 0 of 4 " in out


def asdict_looks(engine: str) -> dict[str, list[float]]:
    return {name: list(found) for name, found in asdict(PROFILES[engine].looks).items()}


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ("aa/idle/Pointwise", "faster"),
        ("planted/idle/optimized+5", "no difference"),
        ("random", "slower"),
        ("random", "failed"),
    ],
)
def test_a_wrong_verdict_or_a_failure_gives_exit_code_1(
    here: Here, capsys: pytest.CaptureFixture[str], case: str, verdict: str
) -> None:
    here.verdicts[case] = verdict
    assert here.begin() == 1
    err = capsys.readouterr().err
    assert (f"WRONG: {case}: {verdict}" in err) == (verdict != "failed")
    assert (f"{case}: failed: killed: made up" in err) == (verdict == "failed")


def test_ctrl_c_loses_nothing_and_says_how_to_go_on(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    here.stop_at = "random"
    assert here.begin("--repeat", "1") == 130
    err = capsys.readouterr().err
    assert err.endswith(
        f"interrupted; every finished comparison is safe in {here.file}\n"
        f"go on with: tipbench calibrate --resume {here.file}\n"
    )
    assert "1 planned comparison not measured yet" in here.page
    here.stop_at = ""
    assert here.calibrate("--resume", str(here.file)) == 0
    assert here.asked == [("aa/idle/Pointwise", 0), ("planted/idle/optimized+5", 0), ("random", 0)]
    assert "All planned comparisons are there" in here.page


def test_resume_goes_on_after_a_truncated_line_and_takes_more_repetitions_or_fewer_cases(here: Here) -> None:
    assert here.begin() == 0
    file = here.file
    file.write_bytes(file.read_bytes()[:-20])
    here.asked.clear()
    assert here.calibrate("--resume", str(file), "--repeat", "3", "--only", "random") == 0
    assert here.asked == [("random", 0), ("random", 1), ("random", 2)]
    here.asked.clear()
    assert here.calibrate("--resume", str(file), "--repeat", "2") == 0
    assert here.asked == [("aa/idle/Pointwise", 1), ("planted/idle/optimized+5", 1)]
    assert stored.read(file)[1] == []


def test_the_way_on_names_the_repetitions_and_cases_asked_for(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here.begin() == 0
    here.stop_at = "random"
    assert here.calibrate("--resume", str(here.file), "--repeat", "2", "--only", "random") == 130
    told = f"go on with: tipbench calibrate --resume {here.file} --repeat 2 --only random\n"
    assert told in capsys.readouterr().err


def test_with_nothing_left_the_page_is_written_anew_on_any_machine(
    here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here.begin() == 0
    before = here.page
    next(here.folder.rglob("*.md")).unlink()
    monkeypatch.setattr(describe, "describe", lambda: {**MACHINE, "name": "another"})
    assert here.calibrate("--resume", str(here.file)) == 0
    assert (here.page, len(here.asked)) == (before, 3)
    assert here.calibrate("--resume", str(here.file), "--repeat", "2") == 2
    assert "was begun with name amd-epyc-zen4-2c-24g; here it is another" in capsys.readouterr().err


def test_other_looks_than_at_the_beginning_are_refused(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here.begin() == 0
    header, rest = here.file.read_text().split("\n", 1)
    changed = json.loads(header)
    changed["options"]["looks"] = {"launches": [3], "alphas": [0.05]}
    here.file.write_text(json.dumps(changed) + "\n" + rest)
    assert here.calibrate("--resume", str(here.file), "--repeat", "2") == 2
    assert "was begun with other looks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--only", "aa/idle/Pointwize"],
            "no case of this profile is named 'aa/idle/Pointwize'; did you mean aa/idle/Pointwise?",
        ),
        (["--resume", "gone.jsonl"], "cannot read gone.jsonl: no such file"),
        (["--resume", "gone.jsonl", "--seed", "3"], "beside it stand only --repeat, --only and --reports"),
        (["--resume", "gone.jsonl", "--profile", "long"], "beside it stand only --repeat, --only and --reports"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_exit_code_2(
    here: Here, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert here.calibrate(*arguments) == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1
    assert not here.asked


def test_a_second_measurement_at_once_is_refused(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    with lock.only_run("`tipbench run other`"):
        assert here.begin() == 2
    assert "`tipbench run other`" in capsys.readouterr().err
    assert not here.asked


def test_help_imports_no_harness() -> None:
    code = (
        "import sys\nfrom tipbench.cli import main\n"
        "try: main(['calibrate', '--help'])\nexcept SystemExit: pass\n"
        "print(*(name for name in sys.modules if name.split('.')[0] in ('torch', 'scipy', 'numpy', 'tipbench')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=callers())
    assert told.stdout.splitlines()[-1] == "tipbench tipbench.errors tipbench.cli"


# ---- the page -----------------------------------------------------------------------------------------


def rows(shown: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading that begins so."""
    part = re.split(r"^## ", shown, flags=re.MULTILINE)
    (section,) = (text for text in part if text.startswith(heading))
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def made(*comparisons: Comparison, **options: Any) -> Calibration:
    return replace(BEGUN, options={**BEGUN.options, **options}, comparisons=comparisons)


def test_the_page_counts_identical_sides() -> None:
    shown = page.render(
        made(
            compared("aa/idle/Pointwise", "no difference", 1.001, wall_s=4.0),
            compared("aa/idle/Pointwise", "faster", 1.02, repetition=1, wall_s=8.0),
            compared("aa/idle/OwnSurroundings", "inconclusive", 1.0, half=0.05),
            compared("aa/loaded/Pointwise", "no difference", 1.0, wall_s=5.0),
        ),
        [],
    )
    exact = {
        "1 of 2": "1 of 2 (50 % [1.3, 98.7])",  # 1 - 0.975^(1/2) = 1.26 %
        "0 of 1": "0 of 1 (0 % [0.0, 97.5])",
        "1 of 1": "1 of 1 (100 % [2.5, 100.0])",
        "1 of 3": "1 of 3 (33 % [0.8, 90.6])",
        "2 of 3": "2 of 3 (67 % [9.4, 99.2])",
        "0 of 2": "0 of 2 (0 % [0.0, 84.2])",  # 1 - 0.025^(1/2) = 84.2 %
    }
    assert rows(shown, "Identical sides") == [
        ["control.Pointwise", "one process", "idle", "2", "1", exact["1 of 2"], exact["0 of 2"], exact["1 of 2"],
         "0.20 %", "6.0"],
        ["control.OwnSurroundings", "own processes", "idle", "1", "0", exact["0 of 1"], exact["1 of 1"],
         exact["1 of 1"], "0.20 %", "5.0"],
        ["control.Pointwise", "one process", "loaded", "1", "0", exact["1 of 1"], exact["0 of 1"], exact["1 of 1"],
         "0.20 %", "5.0"],
        ["**all**", "both kinds", "idle", "3", "1", exact["1 of 3"], exact["1 of 3"], exact["2 of 3"], "0.20 %", "5.0"],
        ["**all**", "both kinds", "loaded", "1", "0", exact["1 of 1"], exact["0 of 1"], exact["1 of 1"],
         "0.20 %", "5.0"],
    ]  # fmt: skip
    assert "- wrong verdicts on time: 1 of 4 (25 % [0.6, 80.6])" in shown
    assert "- identical sides, idle, resolved as `no difference`: 1 of 3 (33 % [0.8, 90.6])" in shown


def test_the_page_draws_the_detection_curve() -> None:
    up, down = math.log(1.05), math.log(1 / 1.05)
    shown = page.render(
        made(
            compared("planted/idle/none", "no difference", 1.0),
            compared("planted/idle/baseline+5", "faster", 1.05 * math.exp(0.001), truth=up),
            compared("planted/idle/optimized+5", "slower", math.exp(0.003) / 1.05, truth=down),
            compared("planted/idle/optimized+5", "inconclusive", math.exp(0.006) / 1.05, truth=down, repetition=1),
            compared("planted/loaded/optimized+5", "no difference", 1.0, truth=down),
        ),
        [],
    )
    table = rows(shown, "Planted differences in time")
    assert [row[:7] for row in table] == [
        ["0 %", "idle", "1", "0 of 1 (0 % [0.0, 97.5])", "1", "0", "0"],
        ["5 %", "idle", "3", "2 of 3 (67 % [9.4, 99.2])", "0", "1", "0"],
        ["5 %", "loaded", "1", "0 of 1 (0 % [0.0, 97.5])", "1", "0", "1"],
        ["**all, in the baseline**", "idle", "1", "1 of 1 (100 % [2.5, 100.0])", "0", "0", "0"],
        ["**all, in the optimized side**", "idle", "2", "1 of 2 (50 % [1.3, 98.7])", "0", "1", "0"],
    ]
    # intervals reach 0.5 %, so the one that is off by 0.6 % misses, and the one off by ln 1.05 too
    assert [row[7].split(" (")[0] for row in table] == ["1 of 1", "2 of 3", "0 of 1", "1 of 1", "1 of 2"]
    # 0.1, 0.3, 0.6: mean 1/3, deviation 0.2517, t(2) = 4.3027: half 0.6252
    assert table[1][8] == "+0.33 % [-0.29, +0.96]"
    # of one comparison no interval; of 0.3 and 0.6: t(1) = 12.706, half 12.706 x 0.15
    assert (table[0][8], table[4][8]) == ("+0.00 %", "+0.45 % [-1.46, +2.36]")
    assert table[2][8] == f"{100 * up:+.2f} %"


def test_the_page_shows_memory_and_what_it_is_off_by() -> None:
    shown = page.render(
        made(
            memory("memory/held", 100 * MIB, 100 * MIB + 513 * MIB), memory("memory/leak", 4 * MIB, 12 * MIB, 4 * MIB)
        ),
        [],
    )
    assert rows(shown, "Planted memory") == [
        ["512 MiB held all the while", "live tensors, peak", "100 MiB", "613 MiB", "513 MiB", "+0.20 %"],
        ["512 MiB held all the while", "resident memory of the process, peak", "100 MiB", "613 MiB", "513 MiB",
         "+0.20 %"],
        ["4.00 MiB kept by each step", "live tensors, peak", "4.00 MiB", "12.0 MiB", "8.00 MiB", "not judged"],
        ["4.00 MiB kept by each step", "resident memory of the process, peak", "4.00 MiB", "12.0 MiB", "8.00 MiB",
         "not judged"],
    ]  # fmt: skip
    assert "- planted memory: off by at most 0.20 % (5 % allowed)" in shown


def test_the_page_shows_what_another_timer_says() -> None:
    shown = page.render(made(timed((1.0e-3, 1.0002e-3, 0.9998e-3), (1.05e-3, 1.0502e-3, 1.0498e-3))), [])
    ((pair, other, processes, ours, theirs, ratio, word),) = rows(shown, "The same steps by another timer")
    assert (pair, other, processes, ours, theirs) == ("control.Pointwise", "Timer", "3", "1.00 ms", "1.05 ms")
    assert ratio.startswith("0.952x [0.952, 0.953]")
    assert word == "differ"
    assert "seconds a step that agree with another timer: 0 of 1" in shown


def test_the_page_says_what_comes_and_goes() -> None:
    drawn = [
        compared("random", verdict, 1.0, part="random", effects=(-0.05, 0.0, 0.05), repetition=number)
        for number, verdict in enumerate(("inconclusive", "inconclusive", "no difference"))
    ]
    shown = page.render(made(*drawn), [])
    assert rows(shown, "A difference that comes and goes") == [["3", "2 of 3 (67 % [9.4, 99.2])", "1", "5.00 %", "5.0"]]


def test_the_page_begins_with_the_limits_and_ends_with_the_command() -> None:
    found = made(
        compared("aa/idle/Pointwise", "no difference", 1.0), repeat=4, only=["aa", "planted/idle/baseline+5"], seed=3
    )
    shown = page.render(found, [Notice(Path("calibration-x.jsonl"), 7, "truncated")])
    assert shown.index("**Limits.**") < shown.index("## What came out") < shown.index("| pair |")
    assert "looks at the data after 4 and 6 launches and spends 0.5 and 4.5 % of error there, 5 % in all" in shown
    assert "- calibration-x.jsonl, line 7: truncated" in shown
    assert "did not run" in shown  # do_bench, without a GPU
    assert (
        "tipbench calibrate --profile quick --repeat 4 --device cpu --seed 3 --only aa planted/idle/baseline+5" in shown
    )
    assert page.render(found, []) == page.render(found, [])


def test_the_page_does_not_depend_on_the_order_in_which_portions_came() -> None:
    found = [
        compared("planted/idle/optimized+5", "slower", 1 / 1.05, truth=-math.log(1.05)),
        compared("aa/idle/Pointwise", "no difference", 1.0),
        compared("aa/idle/Pointwise", "no difference", 1.0, repetition=1, wall_s=6.0),
    ]
    assert page.render(made(*found), []) == page.render(made(*reversed(found)), [])


def test_a_page_of_nothing_yet_and_of_failures_is_still_a_page() -> None:
    assert "nothing has been measured yet" in page.render(made(), [])
    lost = Comparison("random", "random", "planted.AtRandom", 0, False, 1, "abc", 1.0, failed="killed | <b>")
    shown = page.render(made(lost), [])
    assert rows(shown.replace("\\|", "/"), "Could not be measured") == [["random", "0", "killed / &lt;b>"]]
    assert "- could not be measured: 1 comparison" in shown


# ---- the noise ----------------------------------------------------------------------------------------


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    code = (
        "import time\nfrom tipbench.calibrate.noise import noise\n"
        "with noise(1) as pid:\n    print(pid, flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=callers()) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_the_noise_ends_with_its_parent(parent: subprocess.Popen[str], ending: signal.Signals) -> None:
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    assert child.is_running()
    os.kill(parent.pid, ending)
    # Returns as soon as it is gone; the deadline is only there so that a failure ends.
    gone, left = psutil.wait_procs([child], timeout=60)
    assert left == []
    assert gone == [child]


def test_the_noise_ends_with_the_comparison_and_with_its_failure() -> None:
    with noise.noise(1) as pid:
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)
    with pytest.raises(ValueError, match="made up"), noise.noise(1) as pid:
        raise ValueError("made up")
    assert not psutil.pid_exists(pid)


def test_noise_that_did_not_last_is_no_noise() -> None:
    disturbed = noise.noise(1)
    child = psutil.Process(disturbed.__enter__())
    child.kill()
    while child.status() != psutil.STATUS_ZOMBIE:
        pass
    with pytest.raises(WorkerFailed, match="noise: its process ended by itself"):
        disturbed.__exit__(None, None, None)


def test_a_noise_process_whose_parent_is_another_leaves_at_once() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tipbench.calibrate.noise", "1", "3"], capture_output=True, text=True, env=callers()
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "burning\n", "")


def test_bursts_repeat_with_their_seed_and_stay_within_their_bounds() -> None:
    first, again, other = ([next(drawn) for _ in range(200)] for drawn in map(noise.bursts, (1, 1, 2)))
    assert first == again != other
    assert all(0.02 <= seconds <= 0.5 for pair in first for seconds in pair)


# ---- the measuring ------------------------------------------------------------------------------------


class SteadyWorker:
    """A worker whose blocks last exactly as long as its sides are said to."""

    def __init__(self, step_s: dict[str, float]) -> None:
        self.step_s = step_s

    def ready(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def end(self) -> None: ...

    def begin(self, command: str, **arguments: Any) -> None: ...

    def finish(self) -> Any:
        return {"seconds": 0.0}

    def ask(self, command: str, **arguments: Any) -> Any:
        step_s = self.step_s[arguments["variant"]]
        if command == "warm":
            return {"step_s": step_s, "excess_s": 0.0}
        if command == "block":
            counted = dict.fromkeys(("steal_ticks", "throttled_us", "pressure_us", "switches"), 0)
            return {"seconds": arguments["steps"] * step_s, **counted}
        raise AssertionError(command)


class SteadyWorkplace:
    def __init__(self, baseline_s: float, optimized_s: float) -> None:
        self.step_s = {"baseline": baseline_s, "optimized": optimized_s}
        self.started = 0

    def start(self, info: PairInfo, settings: ProcessSettings, cache: str, launch: int | None = None) -> SteadyWorker:
        self.started += 1
        if self.step_s["optimized"] < 0:
            raise WorkerFailed(Reason("killed.made-up", {}, "made up"))
        return SteadyWorker(self.step_s)


def test_a_comparison_is_judged_from_its_launches_and_keeps_their_effects() -> None:
    here = SteadyWorkplace(0.00105, 0.001)
    case = Case("planted/idle/baseline+5", "planted", info("InBaseline10"), math.log(1.05))
    launcher: Any = here
    found = measured(case, 2, launcher, PROFILES["full"], 5, 2, "abc")
    looks = PROFILES["full"].looks.launches
    assert here.started == len(found.effects) in looks
    assert found.effects == pytest.approx([math.log(1.05)] * len(found.effects))
    assert (found.verdict, found.failed, found.repetition, found.seed) == ("faster", "", 2, 5)
    assert found.speedup == pytest.approx(1.05)
    assert findings.covered(found)
    assert findings.error(found) == pytest.approx(0.0, abs=1e-9)
    assert not findings.wrong(found)


def test_launches_stop_as_soon_as_it_is_decided() -> None:
    here = SteadyWorkplace(0.001, 0.001)
    record = launches(info(), here.start, PROFILES["full"], 0, 2)
    assert len(record.launches) == here.started < PROFILES["full"].looks.launches[-1]
    assert [launch.seed for launch in record.launches] == list(range(here.started))


def test_a_comparison_that_breaks_is_kept_as_failed() -> None:
    launcher: Any = SteadyWorkplace(0.001, -1.0)
    found = measured(Case("aa/idle/Pointwise", "aa", info(), 0.0), 0, launcher, PROFILES["quick"], 5, 2, "abc")
    assert (found.failed, found.verdict, found.effects) == ("killed: made up", "", ())


def test_the_memory_pass_of_a_planted_pair_goes_through_real_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 16 MiB: what a process holds beside, and how its heap grows, must not decide a test."""
    text = PLANTED.read_text().replace('{"mib": 512}', '{"mib": 16}')
    (tmp_path / "planted.py").write_text(text)
    (held,) = (info for info in discover(tmp_path, "cpu").pairs if info.pair == "Held")
    launcher = Launcher(tmp_path, {})
    try:
        found = measured(Case("memory/held", "memory", held), 0, launcher, PROFILES["quick"], 0, 2, "abc")
    finally:
        launcher.close()
    assert (found.failed, found.planted_bytes) == ("", 16 * MIB)
    assert findings.memory_errors(found)["tensor_peak"] == 0.0


def test_another_timer_answers_in_seconds_or_with_its_last_words(tmp_path: Path) -> None:
    task = timer.Task(str(PLANTED), str(PLANTED.parent), "Nothing", "cpu", "baseline", 0, "Timer")
    assert timer.seconds_a_step(task, callers(), tmp_path, 300.0) > 0.0
    with pytest.raises(WorkerFailed, match=r"left with exit code 1 while doing: Timer; it last printed: .*'gone'"):
        timer.seconds_a_step(replace(task, variant="gone"), callers(), tmp_path, 300.0)


def test_a_calibration_end_to_end_with_next_to_no_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "lock")
    for name in ("quick", "full"):
        monkeypatch.setitem(PROFILES, name, tiny.PROFILE)
    results, reports = str(tmp_path / "results"), str(tmp_path / "reports")
    code = main(
        [
            "calibrate",
            "--only",
            "planted/loaded/baseline+5",
            "aa/idle/Pointwise",
            "--results",
            results,
            "--reports",
            reports,
        ]
    )
    assert code in (0, 1)  # two launches of a few steps say next to nothing
    (file,), (written,) = tmp_path.rglob("*.jsonl"), tmp_path.rglob("*.md")
    found, notices = stored.read(file)
    assert notices == []
    assert [(one.case, one.loaded, one.truth, one.failed) for one in found.comparisons] == [
        ("aa/idle/Pointwise", False, 0.0, ""),
        ("planted/loaded/baseline+5", True, math.log(210 / 200), ""),
    ]
    assert all(len(one.effects) == 2 for one in found.comparisons)
    assert written.read_text() == page.render(found, [])
    assert "[2/2] " in capfd.readouterr().err
