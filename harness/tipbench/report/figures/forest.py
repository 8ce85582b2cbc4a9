"""Speedups as a forest plot: the whole jobs, and apart from them the operations alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tipbench.report.figures import listing, style
from tipbench.report.figures.listing import JOBS, LINES, MARKS, Entry, name, short
from tipbench.report.figures.style import LIGHT, Drawing, ln
from tipbench.report.rows import CONTROL, Row
from tipbench.report.wording import plural
from tipbench.tip.pair import Claim

OPERATIONS = (0.4, 0.6, 1.0, 1.5, 2.5, 4.0)
"""As JOBS."""

OPEN = "inconclusive"


def drawings(rows: Sequence[Row], which: str) -> list[Drawing]:
    """which: "jobs", of the whole jobs, or "operations", with the controls last."""
    whole = which == "jobs"
    shown = [row for row in listing.worded(rows) if (row.info.scale == "macro" and row.tip != CONTROL) == whole]
    # Where one page cannot hold all of them, the next has those that say least.
    shown.sort(key=lambda row: (row.tip == CONTROL, row.verdict == OPEN, -row.judgement.launches))
    pages = [_sorted(shown[start : start + LINES]) for start in range(0, len(shown), LINES)]
    return [
        Drawing(which if number == 1 else f"{which}-{number}", _alt(page, whole), partial(_paint, page, whole))
        for number, page in enumerate(pages, 1)
    ]


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.tip == CONTROL, -ln(row)[0]))


def _paint(page: Sequence[Row], whole: bool) -> Figure:
    devices = len({row.info.device for row in page})
    figure, over = listing.sheet(
        [_entry(row, devices) for row in page],
        "Speedups in whole jobs" if whole else "Speedups of operations alone",
        "bars are 95 % intervals; arrows point beyond the axis; undecided is paler",
    )
    places = [index + MARKS for index in range(len(page))]
    listing.speedups(over, JOBS if whole else OPERATIONS, places)
    for y, row in zip(places, page, strict=True):
        listing.bounded(over, y, row.verdict, ln(row))
        _promise(over, y, row)
    style.legend(figure, [row.verdict for row in page], top=0.46)
    return figure


def _entry(row: Row, devices: int) -> Entry:
    return Entry(
        title=str(row.info.tip["title"]),
        job=listing.job(row, devices),
        number=short(row.judgement.speedup or 1.0),
        remark=_launches(row.judgement.launches),
        color=style.MARKS[row.verdict].color,
        faint=row.verdict == OPEN,
    )


def _promise(over: Axes, y: float, row: Row) -> None:
    """What the tip is for, where that is not time; at the side that the marks leave free."""
    claim, (left, right), (_, low, high) = str(row.info.tip["claim"]), over.get_xlim(), ln(row)
    if claim in set(Claim) - {Claim.FASTER}:
        listing.beside(over, y, f"promises {claim}", right - high >= low - left, LIGHT["muted"])


def _launches(count: int) -> str:
    return "1 launch" if count == 1 else f"{count} launches"


def _alt(page: Sequence[Row], whole: bool) -> str:
    rows = [row for row in page if row.tip != CONTROL]
    controls = len(page) - len(rows)
    verdicts = Counter(row.verdict for row in rows)
    parts = [f"{verdicts[verdict]} {verdict}" for verdict in style.MARKS if verdicts[verdict]]
    description = f"Speedups of {plural(len(rows), 'whole job' if whole else 'operation')}"
    description += f": {', '.join(parts)}" if parts else ""
    for word, verdict, pick in (("largest gain", "faster", max), ("largest loss", "slower", min)):
        having = [row for row in rows if row.verdict == verdict]
        if having:
            row = pick(having, key=lambda row: row.judgement.speedup or 1.0)
            description += f"; the {word} is {name(row)} with {style.times(row.judgement.speedup or 1.0)}"
    description += f"; {plural(controls, 'control')} with identical sides" if controls else ""
    return f"{description}."
