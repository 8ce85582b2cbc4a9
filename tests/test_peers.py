"""tipbench beside its peers: what the script decides and tells. Needs none of the peers, and reads no clock."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from tests.peers import __main__ as peers
from tests.peers import pairs, tools
from tests.peers.cases import CASE, SEED, SIDE, TRUTHS
from tests.peers.comparison import Comparison, UnusableFile, append, begin, read
from tests.peers.rules import GATE, RULES, gate
from tests.peers.steps import chosen
from tests.peers.table import table
from tests.peers.tools import TOOLS, Answer, Shell, Tool, ToolFailed
from tipbench.engine import lock
from tipbench.suite.files import pair_classes
from tipbench.tip.pair import Pair, Step
from tipbench.worker.outputs import Outputs, compare, snapshot

HEADER = {
    "began": "2026-11-20",
    "command": "python -m tests.peers --out made-up.jsonl",
    "seed": 7,
    "machine": "made-up-2c",
    "versions": {"python": "3.11.7", "torch": "2.15.0"},
    "commit": "0123456789ab",
}


def timed(repetition: int, truth: float, seconds: float, **speedup: float) -> Comparison:
    return Comparison("pytest-benchmark", "Pointwise", repetition, truth, seconds, speedup)


def judged(
    case: str, truth: float, seconds: float, verdict: str, low: float, speedup: float, high: float
) -> Comparison:
    speedups, words = {"trimmed mean": speedup}, {"verdict": verdict}
    return Comparison("tipbench", case, 0, truth, seconds, speedups, words, (low, high))


MADE_UP = (
    timed(0, 1.0, 4.0, median=1.08, min=1.01, mean=1.20),
    timed(1, 1.0, 6.0, median=0.94, min=1.0, mean=1.0),
    timed(2, 0.8, 5.0, median=0.8, min=1.0, mean=1.2),
    judged("Convolution", 1.0, 30.0, "no difference", 0.99, 1.002, 1.01),
    judged("MoreInBaseline", 1.03, 40.0, "inconclusive", 1.04, 1.05, 1.06),
    Comparison("pyperf", "Convolution", 0, 1.0, 90.0, {"mean": 0.99}, {"compare_to": "slower"}),
)

EXPECTED = """\
| tool | claims a difference by | identical: wrong claims | planted: missed | planted: reversed | ratio off by: median \
(worst) | interval holds the truth | seconds a comparison |
| --- | --- | --- | --- | --- | --- | --- | --- |
| tipbench | its verdict: interval beyond ±1 % | 0 of 1 | 1 of 1 | 0 of 1 | 1.1% (1.9%) | 1 of 2 | 35.0 |
| pytest-benchmark | medians over 5 % apart | 2 of 2 (Pointwise 2) | 0 of 1 | 0 of 1 | 6.0% (8.0%) | none given | 5.0 |
| pytest-benchmark | minima over 5 % apart | 0 of 2 | 1 of 1 | 0 of 1 | 1.0% (25.0%) | none given | 5.0 |
| pytest-benchmark | means over 5 % apart | 1 of 2 (Pointwise 1) | 0 of 1 | 1 of 1 | 20.0% (50.0%) | none given | 5.0 |
| pyperf | `compare_to`: t-test at 95 % | 1 of 1 (Convolution 1) | not run | not run | 1.0% (1.0%) | none given | 90.0 |

Begun 2026-11-20 with `python -m tests.peers --out made-up.jsonl`, seed 7, suite 0123456789ab, on made-up-2c; \
python 3.11.7, torch 2.15.0."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The made-up comparisons, stored."""
    path = tmp_path / "made-up.jsonl"
    assert begin(path, HEADER) == []
    for comparison in MADE_UP:
        append(path, comparison)
    return path


def test_the_documented_table_is_that_of_the_kept_file() -> None:
    documented = Path(peers.__file__).with_name("README.md").read_text()
    (kept,) = Path(peers.__file__).parent.glob("*.jsonl")
    assert f"`tests/peers/{kept.name}`" in documented
    assert table(*read(kept)) in documented


# ---- the cases ------------------------------------------------------------------------------------


def test_every_case_has_its_truth() -> None:
    assert [pair.__name__ for pair in pair_classes(pairs)] == list(TRUTHS)


@pytest.mark.parametrize("case", TRUTHS)
def test_both_sides_compute_the_same(case: str) -> None:
    pair: Pair = getattr(pairs, case)(torch.device("cpu"), for_test=True)

    def outputs(build: Callable[[], Step]) -> list[Outputs]:
        kept = []
        for seed in range(3):
            torch.manual_seed(seed)
            kept.append(snapshot(build()()))
        return kept

    assert compare(pair.equal, pair.tolerance, outputs(pair.baseline), outputs(pair.optimized), [])["worst"] == 0.0


@pytest.mark.parametrize(("case", "truth"), TRUTHS.items())
def test_the_truth_is_the_ratio_of_the_operations_counted(
    case: str, truth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CASE, case)
    monkeypatch.setenv(SEED, "1")
    pair: Pair = getattr(pairs, case)(torch.device("cpu"))
    counts = {}
    for side in ("baseline", "optimized"):
        monkeypatch.setenv(SIDE, side)
        counts[side] = pair.mechanism(chosen())
        assert counts[side] == pair.mechanism(chosen(side))
    assert counts["baseline"] / counts["optimized"] == truth


def test_the_seed_decides_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CASE, "Pointwise")

    def drawn(seed: int) -> torch.Tensor:
        monkeypatch.setenv(SEED, str(seed))
        result = chosen("baseline")()
        assert isinstance(result, torch.Tensor)
        return result

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_pytest_neither_times_nor_measures_anything_here() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", str(Path(pairs.__file__).parent)]
    collected = subprocess.run(command, capture_output=True, text=True, check=False)
    assert collected.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, collected.stdout


# ---- the rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speedup", "claim"),
    [
        (1.0, ""),
        (1.049, ""),
        (1 + GATE, ""),
        (1.051, "faster"),
        (0.953, ""),
        (0.952, "slower"),
        (1 / 1.06, "slower"),
        (2.0, "faster"),
    ],
)
def test_the_gate_is_passed_by_more_than_five_percent_in_either_direction(speedup: float, claim: str) -> None:
    assert gate(speedup) == claim


@pytest.mark.parametrize(
    ("word", "claim"),
    [
        ("faster", "faster"),
        ("slower", "slower"),
        ("no difference", ""),
        ("inconclusive", ""),
        ("not significant", ""),
        ("no change", ""),
    ],
)
def test_what_a_tool_says_itself_stands_whatever_the_ratio(word: str, claim: str) -> None:
    own = [rule for rule in RULES if rule.said]
    assert {rule.tool for rule in own} == {"tipbench", "pyperf", "asv"}
    for rule in own:
        assert (
            rule.claim(Comparison(rule.tool, "Pointwise", 0, 1.0, 1.0, {rule.statistic: 2.0}, {rule.said: word}))
            == claim
        )


def test_every_tool_is_judged_and_every_rule_has_its_tool() -> None:
    assert {rule.tool for rule in RULES} == {tool.name for tool in TOOLS}


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        ("Mean +- std dev: [baseline] 1.06 ms +- 0.01 ms -> [optimized] 1.09 ms +- 0.01 ms: 1.03x slower\n", "slower"),
        ("Mean +- std dev: [baseline] 212 us +- 9 us -> [optimized] 206 us +- 6 us: 1.03x faster\n", "faster"),
        ("Mean +- std dev: [baseline] 212 us +- 9 us -> [optimized] 212 us +- 6 us: no change\n", "no change"),
        ("Benchmark hidden because not significant (1): step\n", "not significant"),
    ],
)
def test_what_pyperf_says_is_understood(printed: str, meant: str) -> None:
    assert tools.pyperf_said(printed) == meant


def test_what_pyperf_never_said_before_is_told() -> None:
    with pytest.raises(ToolFailed, match="pyperf compare_to said: Benchmark suites have no benchmark in common"):
        tools.pyperf_said("Benchmark suites have no benchmark in common\n")


ASV = """
All benchmarks:

| Change   | Before [6d0a9cf1] <main~1>   | After [7fffc3b2] <main>   |   Ratio | Benchmark (Parameter)   |
|----------|------------------------------|---------------------------|---------|-------------------------|
| {change}        | 2.05±0.03ms                  | 1.85±0.2ms                | {ratio} | suite.time_step         |
"""


@pytest.mark.parametrize(
    ("change", "ratio", "meant"),
    [("-", "0.80", "faster"), ("+", "1.30", "slower"), (" ", "1.02", "no change"), (" ", "~1.30", "no change")],
)
def test_what_asv_says_is_understood(change: str, ratio: str, meant: str) -> None:
    assert tools.asv_said(ASV.format(change=change, ratio=ratio)) == meant


@pytest.mark.parametrize("printed", ["No results found\n", ASV.format(change="!", ratio="n/a")])
def test_what_asv_never_said_before_is_told(printed: str) -> None:
    with pytest.raises(ToolFailed, match="asv compare said: "):
        tools.asv_said(printed)


def test_ratios_are_of_the_baseline_to_the_optimized_side() -> None:
    sides = {"baseline": {"median": 3.0, "min": 2.0}, "optimized": {"median": 1.5, "min": 4.0}}
    assert tools.ratios(sides, ("median", "min")) == {"median": 2.0, "min": 0.5}


# ---- the file and its table -----------------------------------------------------------------------


def test_the_table_of_a_made_up_file_is_the_one_made_by_hand(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.main(["--table", str(file)]) == 0
    assert capsys.readouterr().out == EXPECTED + "\n"


def test_what_is_stored_is_read_again(file: Path) -> None:
    header, comparisons = read(file)
    assert header == {"schema": 1, **HEADER}
    assert tuple(comparisons) == MADE_UP


def test_a_truncated_last_line_is_cut_off_and_the_rest_kept(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert tuple(begin(file, HEADER)) == MADE_UP[:-1]
    append(file, MADE_UP[-1])
    assert file.read_bytes() == whole


@pytest.mark.parametrize(("name", "value"), [("machine", "another"), ("versions", {}), ("seed", 8)])
def test_a_file_of_another_machine_or_installation_is_not_gone_on_with(file: Path, name: str, value: object) -> None:
    with pytest.raises(UnusableFile, match=f"was begun with {name} .*Name another file"):
        begin(file, {**HEADER, name: value})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: no line of"),
        ("[]\n", "line 1: no line of"),
        ('{"schema": 99}\n', "line 1: no line of .*schema 99; this is 1"),
        ('{"schema": 1}\nnot JSON\n', "line 2: no line of"),
        ('{"schema": 1}\n{"tool": "asv"}\n', "line 2: no line of"),
    ],
)
def test_a_file_of_something_else_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(text)
    with pytest.raises(UnusableFile, match=told):
        read(path)


def test_a_file_that_is_not_there_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert peers.main(["--table", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"peers: cannot read {tmp_path / 'none'}: ")


def test_a_file_with_nothing_measured_has_an_empty_table() -> None:
    assert table(HEADER, []).splitlines()[:3] == [*EXPECTED.splitlines()[:2], ""]


# ---- the run --------------------------------------------------------------------------------------


class Fake:
    """A tool that answers at once, and keeps what it was asked."""

    def __init__(self, name: str, asked: list[tuple[str, str]], package: str = "torch") -> None:
        self.name, self.asked, self.broken = name, asked, ""
        self.tool = Tool(name, package, 0, 0.0, self.compare)

    def compare(self, shell: Shell) -> Answer:
        assert shell.env[SEED] in ("7", "107")
        self.asked.append((self.name, shell.env[CASE]))
        if shell.env[CASE] == self.broken:
            raise ToolFailed("made up")
        return Answer(2.0, {"median": 1.0, "min": 1.0, "mean": 1.0})


@pytest.fixture
def asked() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[str, str]]) -> Mapping[str, Fake]:
    """Two tools that answer at once, and a lock of the test's own."""
    made = {name: Fake(name, asked) for name in ("pytest-benchmark", "torch.utils.benchmark")}
    monkeypatch.setattr(peers, "TOOLS", tuple(fake.tool for fake in made.values()))
    monkeypatch.setattr(peers, "start_seconds", lambda _: 0.0)
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "lock")
    return made


def measured(path: Path, *more: str) -> int:
    return peers.main(["--out", str(path), "--seed", "7", *more])


def test_every_tool_answers_on_a_case_before_the_next_begins(
    fakes: Mapping[str, Fake], asked: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert measured(tmp_path / "out", "--repeat", "2") == 0
    turns = [asked[start : start + len(fakes)] for start in range(0, len(asked), len(fakes))]
    for turn in turns:
        assert sorted(tool for tool, _ in turn) == sorted(fakes)
        assert len({case for _, case in turn}) == 1
    for repetition in (turns[: len(TRUTHS)], turns[len(TRUTHS) :]):
        assert sorted(turn[0][1] for turn in repetition) == sorted(TRUTHS)


def test_a_second_call_measures_only_what_is_left(
    fakes: Mapping[str, Fake], asked: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out"
    assert measured(path, "--only", "pytest-benchmark", "--cases", "Pointwise", "MoreInBaseline") == 0
    assert sorted(asked) == [("pytest-benchmark", "MoreInBaseline"), ("pytest-benchmark", "Pointwise")]
    assert measured(path, "--cases", "Pointwise", "MoreInBaseline") == 0
    assert sorted(asked[2:]) == [("torch.utils.benchmark", "MoreInBaseline"), ("torch.utils.benchmark", "Pointwise")]
    assert measured(path, "--cases", "Pointwise", "MoreInBaseline", "--repeat", "2") == 0
    assert sorted(asked[4:]) == sorted(asked[:4])
    assert "4 comparisons, about 0 minutes" in capsys.readouterr().err
    assert len({comparison.key for comparison in read(path)[1]}) == len(asked) == 8


def test_the_order_is_the_seeds() -> None:
    assert list(peers.schedule(3, 1)) == list(peers.schedule(3, 1))
    assert list(peers.schedule(3, 1)) != list(peers.schedule(3, 2))
    assert list(peers.schedule(3, 1))[: len(TOOLS) * len(TRUTHS)] == list(peers.schedule(1, 1))


def test_a_comparison_that_fails_is_told_and_tried_again(
    fakes: Mapping[str, Fake], asked: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fakes["pytest-benchmark"].broken = "Convolution"
    assert measured(tmp_path / "out") == 1
    told = capsys.readouterr().err
    assert "pytest-benchmark, Convolution: failed: made up" in told
    assert "1 comparisons failed; the same command tries them again" in told
    assert len(read(tmp_path / "out")[1]) == len(asked) - 1
    del asked[:]
    fakes["pytest-benchmark"].broken = ""
    assert measured(tmp_path / "out") == 0
    assert asked == [("pytest-benchmark", "Convolution")]


def test_the_lines_hold_the_planted_truth_and_the_header_what_it_was_measured_with(
    fakes: Mapping[str, Fake], tmp_path: Path
) -> None:
    assert measured(tmp_path / "out") == 0
    header, comparisons = read(tmp_path / "out")
    assert {comparison.case: comparison.truth for comparison in comparisons} == TRUTHS
    assert header["versions"]["torch"] == version("torch")
    assert header["command"] == f"python -m tests.peers --out {tmp_path / 'out'} --seed 7"
    assert json.loads((tmp_path / "out").read_text().splitlines()[0])["schema"] == 1


def test_it_does_not_measure_beside_another_run(
    fakes: Mapping[str, Fake], asked: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lock.only_run("`tipbench run`"):
        assert measured(tmp_path / "out") == 2
    assert "`tipbench run` (process" in capsys.readouterr().err
    assert not asked
    assert not (tmp_path / "out").exists()


def test_a_tool_that_is_not_installed_is_named_before_anything_is_measured(
    fakes: Mapping[str, Fake],
    asked: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    absent = Fake("pyperf", asked, package="no-such-distribution").tool
    monkeypatch.setattr(peers, "TOOLS", (*(fake.tool for fake in fakes.values()), absent))
    assert measured(tmp_path / "out") == 2
    assert "not installed: no-such-distribution. The tools come with `pip install" in capsys.readouterr().err
    assert not asked


def test_a_command_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"PATH": "/usr/bin:/bin"})
    with pytest.raises(ToolFailed, match="left with exit code 3: last words"):
        shell.python("-c", "import sys; print('last words'); sys.exit(3)")


def test_a_command_gets_its_side_and_only_some_count(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {SIDE: "neither"})
    show = f"import os; print(os.environ[{SIDE!r}])"
    assert shell.python("-c", show, counts=False) == "neither\n"
    assert shell.seconds == 0.0
    assert shell.python("-c", show, side="optimized") == "optimized\n"
    assert shell.seconds > 0.0
