"""The README's example is run as a reader would paste it, and its words are checked against the code."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from tipbench.engine.launcher import Launcher
from tipbench.engine.limits import Limits
from tipbench.engine.plan import Plan
from tipbench.engine.runner import measure
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.verdict.rules import Rules

HOME = Path(__file__).parent.parent

README = HOME / "README.md"


def test_the_excerpt_is_of_the_committed_report() -> None:
    text = README.read_text()
    (shown,) = re.findall(r"<!-- excerpt: .*? -->\n(.*?)\n<!-- end of excerpt -->", text, re.DOTALL)
    (link,) = re.findall(r"\[the page of [^]]*\]\((reports/\S+\.md)\)", text)
    report = (README.parent / link).read_text().splitlines()
    assert len(shown.splitlines()) == 5
    for row in shown.splitlines():
        assert row.replace(f"]({Path(link).parent}/", "](") in report


PAGES = [
    README,
    *(
        page
        for depth in ("[a-z]*", "[a-z]*/[a-z]*", "harness/tipbench/[a-z]*")
        for page in sorted(HOME.glob(f"{depth}/README.md"))
    ),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_files_of_pairs_that_a_page_names_are_there() -> None:
    text = (BENCHMARKS / "README.md").read_text()
    named = re.findall(r"\| `((?:general|cpu|gpu|distributed)/\w+\.py)` \|", text)
    assert [file for file in named if not (BENCHMARKS / file).exists()] == []
    assert named


def test_the_example_pair_works_when_pasted_into_a_folder_of_ones_own(tmp_path: Path) -> None:
    _, section = (BENCHMARKS / "README.md").read_text().split("## Your own tip, in one file")
    source = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    folder = tmp_path / "my_pairs"
    folder.mkdir()
    (folder / "addmm.py").write_text(source)
    found = discover(folder, "cpu")
    assert not found.broken
    (info,) = found.pairs
    rules = Rules(most=2)
    shortest = Limits(rounds=(1, 1), longest_s=0.0, block_s=1e-4)
    with closing(Launcher(folder, {})) as launcher:
        record = measure(info, launcher.start, Plan(shortest, rules, seed=0, cores=1))
    assert (record.outcome, record.kind, record.reason) == ("measured", "", "")
    assert record.variants["optimized"].mechanism["baseline"] == 2
    assert record.variants["optimized"].mechanism["optimized"] == 1
