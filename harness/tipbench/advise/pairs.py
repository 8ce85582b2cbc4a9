"""The files of pairs that measure ways to follow tips on a person's job; `tipbench.given.pair` has their classes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tipbench.advise.combination import WITHOUT, Combination, left_out
from tipbench.given.survey import Survey, WayHere
from tipbench.report.output import write_file
from tipbench.tip.wording import plain

AS_IT_IS, TOGETHER = "as-it-is", "together"
"""The tips of the pair that has the job on both sides, and of those of a combination."""

ALONE_PAIR, WITHOUT_ALL = "Alone", "WithoutAll"
"""The pair of a tip, and that of a combination: its baseline is the whole combination, `optimized` the job as it is;
each further side leaves out one member."""

IN_A_ROW = 8
"""Batches of a step where worker processes load them, or might."""

LOADING = ("async-loading", "prefetch")
"""Tips about those processes."""

ROUNDING = 1e-3
"""What a way may add to the rounding errors of the job as it is, relative to its results, and three times what such
errors become in it: `torch._dynamo.utils.same` adds a tenth of a tolerance, which is 1e-2 for most trainings."""

FILE = '''"""{title}."""

from tipbench.given.pair import {base}, {word}

TIP = {tip}
'''

CLASS = '''

class {name}({base}, {arguments}):
    """{title}."""
'''


def in_docstring(text: str) -> str:
    """Foreign text as one line that ends no docstring and escapes nothing in it."""
    return plain(text).replace('"', "'").replace("\\", "/")


def is_known(survey: Survey) -> bool:
    """Whether the job's model and data are known, and not a step alone."""
    return survey.kind in ("training", "inference")


def sides_alone(survey: Survey) -> dict[str, dict[str, WayHere]]:
    """By tip, the ways that the job can follow, by the side of the tip's pair that does: the first is `optimized`."""
    usable = [way for way in survey.ways if not way.why_not]
    sides = {}
    for tip, ways in groupby(usable, key=lambda way: way.tip):
        first, *others = ways
        sides[tip] = {"optimized": first, **{way.name.partition("/")[2]: way for way in others}}
    return sides


def write_alone(folder: Path, target: str, survey: Survey) -> None:
    """One file for the job beside itself, and one for each tip that it can follow. Raises ReportError."""
    _make_empty(folder)
    name = survey.name
    _write(folder, target, survey, AS_IT_IS, "AS_IT_IS", f"{name} on both sides", {"Job": {"optimized": ()}})
    for tip, ways in sides_alone(survey).items():
        title = f"{ways['optimized'].title}: {name}"
        sides = {side: (way.name,) for side, way in ways.items()}
        words = [ways["optimized"].name, *([] if is_known(survey) else [survey.kind])]
        written = f"the_tip({', '.join(map(repr, words))})"
        _write(folder, target, survey, tip, written, title, {ALONE_PAIR: sides})


def write_together(folder: Path, target: str, survey: Survey, combination: Combination, each: bool) -> None:
    """A file for the combination. each: with a side without each member. Raises ReportError."""
    _make_empty(folder)
    sides: dict[str, Combination] = {"baseline": combination, "optimized": ()}
    if each and len(combination) > 1:
        sides |= {f"{WITHOUT}{name}": left_out(combination, {name}) for name in combination}
    title = f"{survey.name}: {', '.join(combination)}"
    _write(folder, target, survey, TOGETHER, "TOGETHER", title, {WITHOUT_ALL: sides})


def _make_empty(folder: Path) -> None:
    """Whatever lies there would be imported, and may be somebody else's. Raises OSError."""
    if folder.exists():
        shutil.rmtree(folder)


def _write(
    folder: Path,
    target: str,
    survey: Survey,
    tip: str,
    written: str,
    title: str,
    pairs: Mapping[str, Mapping[str, Sequence[str]]],
) -> None:
    base = "OnGivenJob" if is_known(survey) else "OnGivenStep"
    title = in_docstring(title)
    text = FILE.format(title=title, base=base, word=written.partition("(")[0], tip=written)
    for name, sides in pairs.items():
        loads = any(way in LOADING for side in sides.values() for way in side)
        arguments = _arguments(target, survey, sides, IN_A_ROW if loads else 0)
        text += CLASS.format(name=name, base=base, arguments=arguments, title=title)
    write_file(folder / f"{tip.replace('-', '_')}.py", text.encode())


def _arguments(target: str, survey: Survey, sides: Mapping[str, Sequence[str]], batches: int) -> str:
    others = {name: tuple(ways) for name, ways in sides.items() if name not in ("baseline", "optimized")}
    arguments: dict[str, object] = {"target": target}
    arguments |= {name: tuple(sides[name]) for name in ("baseline", "optimized") if name in sides}
    if others:
        arguments["others"] = others
    if batches or survey.workers:
        arguments |= {"batches": survey.epoch or IN_A_ROW, "draws": tuple(survey.draws)}
    if not survey.is_compared:
        arguments["compared"] = False
    elif is_known(survey):
        arguments |= {
            "tolerance": ROUNDING + 3 * max(survey.noise or 0.0, survey.rounding or 0.0),
            "exact": survey.exact,
        }
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
