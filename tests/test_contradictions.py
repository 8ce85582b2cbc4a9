"""No row of a page advises against what another row of it tells people to write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.made_up import info, measured, run, tip
from tipbench.records import store
from tipbench.records.record import Record
from tipbench.report.answer import Answer, answers
from tipbench.report.answer_kinds import ACTS, DO_NOT, WORKLOADS
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.report.ways import JOB_AS_IT_IS, WayEffect
from tipbench.tip.pair import TipText

FILES = sorted((Path(__file__).parents[1] / "results/reference").glob("*/*.jsonl"))

VARIABLE, LIBRARY = re.compile(r"\b(?!LD_PRELOAD)[A-Z][A-Z0-9_]+=\S+"), re.compile(r"(?<=lib)[a-z]+|(?<=--enable-)\w+")
ASSIGNED, CALLED = re.compile(r"(?<!\w)[\w.\[\]\"]*[.\[][\w.\[\]\"]+ = [^;#]*[^;# ]"), re.compile(r"[\w.]+\([^()]*\)")


def settings(code: str) -> set[str]:
    """The variables of the environment with their values, the names of preloaded libraries, the attributes that are
    assigned, and the calls with their arguments, in what a page tells to write or not to write."""
    plain = re.sub("#.*", "", code)
    listed = {each for pattern in (VARIABLE, ASSIGNED, CALLED) for each in pattern.findall(plain)}
    return listed | libraries(plain)


def libraries(text: str) -> set[str]:
    return {name for name in LIBRARY.findall(text) if name not in ("rary", "raries")}


@dataclass
class Against:
    """What a page advises against. title: of the tip. text: what is shown beside it. ways: to which this refers."""

    title: str
    text: str
    ways: Sequence[WayEffect]

    def contradicts(self, use: WayEffect) -> bool:
        """Whether somebody who writes what `use` tells to does what is advised against. A row that names its way and
        what this was measured against speaks of nothing else."""
        advised = settings(use.do)
        if all(way.name in self.text and (way.against or JOB_AS_IT_IS) in self.text for way in self.ways):
            return any(
                settings(way.do) and settings(way.do) <= advised and way.against == use.against for way in self.ways
            )
        words = set(re.findall(r"\w+", self.title.lower()))
        return bool({*words & libraries(use.do)} or any(settings(way.do) & advised for way in self.ways))


def advised_against(made: Sequence[Answer]) -> Iterator[Against]:
    """What the page of these answers says not to do."""
    for answer in made:
        for way in (*answer.ways[: answer.kind == DO_NOT], *answer.harmful):
            yield Against(answer.title, f"{way.name} {way.against or JOB_AS_IT_IS}", [way])


def contradictions(rows: Sequence[Result]) -> list[tuple[str, str]]:
    """(title of a tip to follow, title of one that is advised against) on the page of a run."""
    listed, every = [], answers(rows)
    for workload in WORKLOADS:
        made = [answer for answer in every if answer.workload == workload]
        uses = [
            (answer.title, way) for answer in made if answer.kind in ACTS for way in (answer.ways[0], *answer.others)
        ]
        against = list(advised_against(made))
        listed += [(title, each.title) for title, way in uses for each in against if each.contradicts(way)]
    return listed


def test_no_page_of_a_reference_run_contradicts_itself() -> None:
    found = {file.name: contradictions(results(store.read(file)[0])) for file in FILES}
    assert len(found) >= 3
    assert not any(found.values()), found


WAYS = {"tcmalloc": "LD_PRELOAD=libtcmalloc_minimal.so.4 python train.py"}
ALLOCATOR = tip(
    "allocator", title="Use jemalloc or tcmalloc", called="jemalloc", against="glibc's allocator",
    do="LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=background_thread:true python train.py", ways=WAYS,
)  # fmt: skip
LAUNCHER = tip("launcher", title="Start by the launcher", do="python -m run_cpu --enable-tcmalloc train.py")


def job(about: TipText, **effects: float) -> Record:
    return measured(info("Job", list(effects), scale="macro", task="training", tip=about), effects)


@pytest.mark.parametrize(
    ("against", "expected"), [("glibc's allocator", 0), ("", 1)], ids=["against something else", "against the same"]
)
def test_what_is_advised_against_names_the_way_and_what_it_was_measured_against(against: str, expected: int) -> None:
    """tcmalloc costs time alone, and the launcher that preloads it pays: only where both were measured against the
    same do they contradict each other."""
    allocator = job(replace(ALLOCATOR, against=against), optimized=-0.3, tcmalloc=-0.2)
    assert len(contradictions(results(run([allocator, job(LAUNCHER, optimized=0.2)])))) == expected
