"""The first screen of a run's page: how many tips got which answer, how fine the run could see, and the answers."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tipbench.report.advice import ANSWERS, IMPOSSIBLE, SMALL, Advice
from tipbench.report.cells import between, speedup, table
from tipbench.report.document import Break, Cell, Interval, Line, Link, Literal, Paragraph, Span, Strong, Table
from tipbench.report.rows import Row
from tipbench.report.wording import percent, plural

Place = Callable[[str], str]
"""From the key of a page of evidence to what a link to it names."""

NEEDS = {
    **dict.fromkeys(("needs.gpus", "needs.cuda"), "GPU"),
    "needs.numa-nodes": "NUMA node",
    "needs.bfloat16-cpu": "bfloat16 instructions",
}
"""By code of a reason, what is missing; where the reason has a number of it, one of them."""


def needs(found: Sequence[Row]) -> dict[str, str]:
    """By tip, what this machine lacks for it, in few words; tips whose reason is none of NEEDS are not in it."""
    lacking: dict[str, str] = {}
    for row in found:
        why = row.judgement.record.why
        if row.verdict == "skipped" and why and why.code in NEEDS:
            wanted, noun = why.fields.get("wanted"), NEEDS[why.code]
            counted = noun if not isinstance(wanted, int) else f"a {noun}" if wanted == 1 else plural(wanted, noun)
            lacking.setdefault(row.tip, counted)
    return lacking


def count(advice: Sequence[Advice], lacking: Mapping[str, str]) -> Line:
    """`31 tips tried: 9 use it, ...; 9 more need a GPU or 2 NUMA nodes.`"""
    if not advice:
        return (Strong("No tip was reached."),)
    counted = Counter(given.kind for given in advice)
    named = {kind: f"{kind} x %" if kind == SMALL else kind for kind in ANSWERS if kind != IMPOSSIBLE}
    kinds = ", ".join(f"{counted[kind]} {shown}" for kind, shown in named.items() if counted[kind])
    impossible = counted.pop(IMPOSSIBLE, 0)
    tried = Strong(f"{plural(counted.total(), 'tip')} tried{f': {kinds}' if kinds else ''}.")
    if not impossible:
        return (tried,)
    wanted = list(dict.fromkeys(lacking.get(given.tip, "") for given in advice if given.kind == IMPOSSIBLE))
    verb = "needs" if impossible == 1 else "need"
    listed = " or ".join(filter(None, (", ".join(wanted[:-1]), wanted[-1])))
    needed = f"{verb} {listed}" if all(wanted) else "cannot be tried here"
    return (tried, f" {impossible} more {needed}.")


def noise(controls: Sequence[Row]) -> Line:
    """What identical code on both sides says of the smallest effect that the run could see."""
    measured = [row for row in controls if row.measured]
    if not measured:
        return ("No identical code was timed against itself, so the noise floor of this run is unknown.",)
    wrong = [row for row in measured if row.verdict in ("faster", "slower")]
    reach = {row.info.pair: found for row in measured if (found := _reach(row)) is not None}
    seen = ""
    if reach:
        seen = f" Effects under {percent(statistics.median(reach.values()))} can hardly be seen"
        noisiest = max(reach, key=lambda pair: reach[pair])
        seen += f", in the noisiest ({noisiest}) under {percent(reach[noisiest])}." if len(reach) > 1 else "."
    if wrong:
        named = ", ".join(f"{row.info.pair} {row.verdict}, {speedup(row)}" for row in wrong)
        distrust = Strong(f"Identical code was called different ({named}): distrust small effects in this run.")
        return (distrust, seen)
    judged = sum(row.judgement.p is not None for row in measured)
    if judged == len(measured):
        return (f"Identical code, timed against itself {plural(judged, 'time')}, was never called different.{seen}",)
    few = f"Identical code was timed against itself in {plural(len(measured), 'pair')}."
    return (f"{few} Of the {judged} with launches enough for a verdict none was called different.{seen}",)


def _reach(row: Row) -> float | None:
    """How far from equal the interval of identical code reaches, as a share."""
    low, high = row.judgement.low, row.judgement.high
    return None if not low or not high else max(1 / low, high) - 1


def answers(advice: Sequence[Advice], lacking: Mapping[str, str], place: Place) -> Table | Paragraph:
    body: list[list[Cell | Line | str]] = [
        [_answer(given), (_link(given, place),), (Literal(given.do),) if given.do else "", _gains(given), given.price]
        for given in advice
        if given.kind != IMPOSSIBLE
    ]
    missing: dict[str, list[Span]] = {}
    for given in advice:
        if given.kind == IMPOSSIBLE:
            why = f"needs {lacking[given.tip]}" if given.tip in lacking else given.gain
            missing.setdefault(why, []).append(_link(given, place))
    impossible = Cell((Strong(IMPOSSIBLE),), ANSWERS.index(IMPOSSIBLE), IMPOSSIBLE)
    body += [[impossible, tuple(between(links, ", ")), "", why, ""] for why, links in missing.items()]
    if not body:
        return Paragraph(("There are no answers yet.",))
    return table("answers", ("answer", "tip", "what to write", "gain", "price"), body, cards=(0, 3, 1, 2, 4))


def _answer(given: Advice) -> Cell:
    return Cell((Strong(given.answer),), ANSWERS.index(given.kind), given.kind)


def _gains(given: Advice) -> Cell:
    """One job a line; sorted by what it brings as a whole."""
    lines: list[Line] = [(*([Interval(*gain.interval)] if gain.interval else []), gain.text) for gain in given.gains]
    spans = [span for index, line in enumerate(lines) for span in (*([Break()] if index else []), *line)]
    return Cell(tuple(spans), given.brings)


def _link(given: Advice, place: Place) -> Span:
    return Link(given.title, place(given.tip))
