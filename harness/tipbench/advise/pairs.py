"""The files of pairs that measure ways to follow tips on a person's job: data, of which `tipbench.given.pair` makes
pairs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from tipbench.advise.combination import MOST_RUNGS, SIDE_OF, SIDE_WITHOUT, Combination, left_out, rungs
from tipbench.given.survey import AS_IT_IS, GivenPair, Survey, WayHere
from tipbench.report.output import write_file
from tipbench.report.result import Result
from tipbench.suite.files import MADE_OF_DATA
from tipbench.tip.pair import TOGETHER
from tipbench.tip.wording import plain

ALONE_PAIR, WITHOUT_ALL = "Alone", "WithoutAll"
"""The pair of a tip, and that of a combination: its baseline is the whole combination, `optimized` the job as it is;
each further side leaves out one member."""

IN_A_ROW = 8
"""Batches of a step where worker processes load them, or might."""

LOADING_TIPS = ("async-loading", "prefetch")
"""Tips about those processes."""

ROUNDING = 1e-3
"""What a way may add to the rounding errors of the job as it is, relative to its results, and three times what such
errors become in it: `torch._dynamo.utils.same` adds a tenth of a tolerance, which is 1e-2 for most trainings."""


def sides_alone(survey: Survey) -> dict[str, dict[str, WayHere]]:
    """By tip, the ways that the job can follow, by the side of the tip's pair that does: the first is `optimized`."""
    usable = [way for way in survey.ways if not way.why_not]
    sides = {}
    for tip, ways in groupby(usable, key=lambda way: way.tip):
        first, *others = ways
        sides[tip] = {"optimized": first, **{way.name.partition("/")[2]: way for way in others}}
    return sides


def results_by_way(survey: Survey, rows: Sequence[Result]) -> dict[str, Result]:
    """By name, what each way brings alone, in their order. rows: of the run of every tip by itself."""
    by_side = {(row.tip, row.variant): row for row in rows}
    sides = [(way.name, (tip, side)) for tip, ways in sides_alone(survey).items() for side, way in ways.items()]
    return {name: by_side[side] for name, side in sides if side in by_side}


def write_alone(folder: Path, target: str, survey: Survey) -> None:
    """One file for the job beside itself, and one for each tip that it can follow. Raises ReportError."""
    _make_empty(folder)
    _write(folder, target, survey, AS_IT_IS, AS_IT_IS, "Job", f"{survey.name} on both sides", {"optimized": ()})
    for tip, ways in sides_alone(survey).items():
        first, sides = ways["optimized"], {side: (way.name,) for side, way in ways.items()}
        _write(folder, target, survey, tip, first.name, ALONE_PAIR, f"{first.title}: {survey.name}", sides)


def write_together(
    folder: Path, target: str, survey: Survey, combination: Combination, each: bool, alone: Mapping[str, Result]
) -> None:
    """A file for the combination. each: with a side without each member, and the `rungs` of a small one. alone: by way,
    what it brings alone. Raises ReportError."""
    _make_empty(folder)
    sides: dict[str, Combination] = {"baseline": combination, "optimized": ()}
    if each and len(combination) > 1:
        sides |= {f"{SIDE_WITHOUT}{name}": left_out(combination, {name}) for name in combination}
        few = combination if len(combination) <= MOST_RUNGS else ()
        sides |= {side: members for _, side, members in rungs(few, alone) if side.startswith(SIDE_OF)}
    _write(folder, target, survey, TOGETHER, TOGETHER, WITHOUT_ALL, f"{survey.name}: {', '.join(combination)}", sides)


def _make_empty(folder: Path) -> None:
    """Whatever lies there would be imported. Raises OSError."""
    if folder.exists():
        shutil.rmtree(folder)


def _write(
    folder: Path,
    target: str,
    survey: Survey,
    file: str,
    tip: str,
    name: str,
    title: str,
    sides: Mapping[str, Sequence[str]],
) -> None:
    loads = any(way.partition("/")[0] in LOADING_TIPS for side in sides.values() for way in side)
    pair = GivenPair(
        tip=tip,
        name=name,
        title=plain(title),
        kind=survey.kind,
        target=target,
        sides={"baseline": (), **sides},
        batches=(survey.epoch or IN_A_ROW) if loads or survey.workers else 0,
        draws=survey.draws if loads or survey.workers else (),
        compared="not" if not survey.is_compared else "fp64" if survey.exact else "directly",
        tolerance=ROUNDING + 3 * max(survey.noise or 0.0, survey.rounding or 0.0),
    )
    write_file(folder / f"{file}{MADE_OF_DATA}", json.dumps(asdict(pair), indent=1).encode())
