"""The README's example is run as a reader would paste it, and its words are checked against the code."""

from __future__ import annotations

import re
from pathlib import Path

from tipbench.cli import EXIT_CODES
from tipbench.engine.launcher import Launcher
from tipbench.engine.profiles import Profile
from tipbench.engine.runner import measure
from tipbench.records.store import read
from tipbench.report import write
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.verdict.statistics import Looks

README = Path(__file__).parent.parent / "README.md"


ROWS = 2


def excerpt(report: str) -> str:
    """The part of a report that the README shows: the limits, and the first ROWS tips of each answer."""
    limits = report[report.index("> **Limits.**") : report.index("## In one line each")]
    head, line, *tips = report[report.index("| answer |") :].split("\n\n")[0].splitlines()
    by_answer: dict[str, list[str]] = {}
    for tip in tips:
        by_answer.setdefault(tip.split(" | ")[0], []).append(tip)
    return limits + "\n".join([head, line, *(tip for listed in by_answer.values() for tip in listed[:ROWS])])


def without_code(report: str) -> str:
    """What is shown of the pairs' code comes from git, and not every checkout has all commits."""
    folded = re.sub(r"<details><summary>The code of .*?</details>\n\n", "", report, flags=re.DOTALL)
    return re.sub(r"^Code: .*\n\n", "", folded, flags=re.MULTILINE)


def test_the_excerpt_is_the_committed_report_and_that_the_committed_run(tmp_path: Path) -> None:
    (shown,) = re.findall(r"<!-- excerpt: .*? -->\n(.*?)\n<!-- end of excerpt -->", README.read_text(), re.DOTALL)
    (link,) = re.findall(r"\[all of it\]\((reports/\S+\.md)\)", README.read_text())
    report = README.parent / link
    stored, notices = read(README.parent / link.replace("reports/", "results/").replace(".md", ".jsonl"))
    written = write(stored, notices, "md", tmp_path)
    assert written is not None
    assert without_code(written.read_text()) == without_code(report.read_text())
    figures = {file.name for file in report.with_suffix("").iterdir()}
    assert figures == {file.name for file in written.with_suffix("").iterdir()}
    assert shown == re.sub(r"\]\(#", f"]({link}#", excerpt(report.read_text()))


def test_the_example_pair_works_when_pasted_into_a_folder_of_ones_own(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    folder = tmp_path / "my_pairs"
    folder.mkdir()
    (folder / "addmm.py").write_text(source)
    found = discover(folder, "cpu")
    assert not found.broken
    (info,) = found.pairs
    shortest = Profile(Looks((2,), (0.05,)), rounds=(1, 1), seconds={"micro": 0.0, "macro": 0.0}, block_s=1e-4)
    launcher = Launcher(folder, {})
    try:
        record = measure(info, launcher.start, shortest, seed=0, cores=1, show=lambda what: None)
    finally:
        launcher.close()
    assert (record.outcome, record.kind, record.reason) == ("measured", "", "")
    assert record.variants["optimized"].mechanism["baseline"] == 2
    assert record.variants["optimized"].mechanism["optimized"] == 1


def test_examples_of_shapes_exist() -> None:
    for file in re.findall(r"\| `((?:general|cpu|gpu|distributed)/\w+\.py)` \|", README.read_text()):
        assert (BENCHMARKS / file).exists(), file


def test_exit_codes_are_those_of_the_command() -> None:
    told = " ".join(README.read_text().split())
    assert f"Exit codes: {EXIT_CODES.removeprefix('exit codes: ')}." in told
