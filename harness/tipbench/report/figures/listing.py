"""Figures that are lists: a line of words over a line of marks, so that they can be read on a phone too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Transform, blended_transform_factory

from tipbench.report.figures import style
from tipbench.report.figures.style import LIGHT
from tipbench.report.rows import Row

LINES = 40
"""Of a page of A4."""

PITCH = 0.24
"""Inches from line to line."""

ABOVE, LEGEND, BELOW, LEFT, NUMBER, EDGE = 0.68, 0.2, 0.42, 0.16, 0.76, 0.06
"""Inches around the axes: over them, more of it for a legend, under them, to their left, and for the numbers to their
right; and around everything."""

LETTER, SMALL_LETTER = 4.9 / 72, 4.5 / 72
"""Inches that a letter takes on average, in MEDIUM and in SMALL."""

JOBS = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
"""Speedups on an axis of whole jobs, which reaches from the first to the last."""

WORDS, MARKS = -0.25, 0.2
"""Where within a line its words and its marks are; a line is 1 high."""


@dataclass(frozen=True)
class Entry:
    """A line. title: on the left. job: at the right of the same line. number: beside it, and under that a remark.
    color: of the number. faint: whether the line draws less attention than others."""

    title: str
    job: str = ""
    number: str = ""
    remark: str = ""
    color: str = LIGHT["ink"]
    faint: bool = False


def sheet(
    entries: Sequence[Entry], title: str, below: str, right: float = NUMBER, legend: bool = True
) -> tuple[Figure, Axes]:
    """A figure with the words of all entries; the marks of the n-th belong at y = n + MARKS.

    right: inches beside the axes, for the remarks. legend: whether there is to be room for one.
    """
    above = ABOVE + LEGEND * legend
    figure = style.sheet(len(entries) * PITCH + above + BELOW)
    over = style.axes(figure, LEFT, BELOW, right, above)
    over.set_ylim(len(entries) - 0.5, -0.5)
    over.set_yticks([])
    over.spines[["left", "bottom"]].set_visible(False)
    over.tick_params(axis="x", top=True, labeltop=True, length=0)
    inches = blended_transform_factory(figure.dpi_scale_trans, over.transData)
    for index, entry in enumerate(entries):
        over.plot((EDGE, style.WIDTH - EDGE), (index - 0.5,) * 2, transform=inches, clip_on=False,
                  color=LIGHT["grid"], linewidth=0.5)  # fmt: skip
        _words(over, inches, index, entry)
    style.title(figure, title, below)
    return figure, over


def _words(over: Axes, inches: Transform, index: int, entry: Entry) -> None:
    """inches: those from the figure's left, and lines."""
    job, end = style.shown(entry.job, 34), style.WIDTH - EDGE
    middle = style.WIDTH - NUMBER if entry.number else end
    title = style.shown(entry.title, int((middle - EDGE - len(job) * SMALL_LETTER) / LETTER) - 1)
    muted = LIGHT["muted"]
    ink, color = (muted, muted) if entry.faint else (LIGHT["ink"], entry.color)
    over.text(EDGE, index + WORDS, title, transform=inches, va="center", color=ink, size=style.MEDIUM)
    for text, x, y, size, painted in (
        (job, middle, WORDS, style.SMALL, muted),
        (entry.number, end, WORDS, style.MEDIUM, color),
        (entry.remark, end, MARKS, style.SMALL, muted),
    ):
        if text:
            over.text(x, index + y, text, transform=inches, va="center", ha="right", size=size, color=painted)


def grid(
    over: Axes, ticks: Sequence[float], at: Sequence[float], color: str = LIGHT["grid"], half: float = 0.28
) -> None:
    """Upright lines at the ticks that cross the lines of marks alone, not the words. at: where those are; half: of
    their height."""
    xs = [x for tick in ticks for _ in at for x in (tick, tick, math.nan)]
    ys = [y for _ in ticks for middle in at for y in (middle - half, middle + half, math.nan)]
    over.plot(xs, ys, color=color, linewidth=0.6, zorder=1)


def speedups(over: Axes, ratios: Sequence[float], at: Sequence[float], half: float = 0.28) -> None:
    """Make the axis one of speedups, from the first of the ratios to the last. at, half: as in `grid`."""
    ticks = list(map(math.log, ratios))
    over.set_xlim(ticks[0], ticks[-1])
    over.set_xticks(ticks, list(map(style.times, ratios)))
    over.set_xlabel("speedup: the baseline's time over the variant's, on a log axis")
    grid(over, [tick for tick in ticks if tick], at, half=half)
    grid(over, [0.0], at, LIGHT["muted"], half)


def bounded(over: Axes, y: float, verdict: str, found: tuple[float, float, float]) -> None:
    """An estimate, (ln speedup, ln low, ln high), with its interval; where it lies beyond the axis, its value there."""
    middle, low, high = found
    left, right = over.get_xlim()
    if left <= middle <= right:
        style.estimates(over, verdict, [y], [(middle, max(low, left), min(high, right))])
        return
    value = short(math.exp(middle))
    beside(over, y, f"{value} →" if middle > right else f"← {value}", middle > right, style.MARKS[verdict].color)


def beside(over: Axes, y: float, text: str, right: bool, color: str) -> None:
    """A text at the axes' right or left edge."""
    over.annotate(
        text, (float(right), y), (-2 if right else 2, 0), xycoords=("axes fraction", "data"),
        textcoords="offset points", va="center_baseline", ha="right" if right else "left", color=color,
    )  # fmt: skip


def short(speedup: float) -> str:
    """In a column of its like: `1.20x`."""
    return f"{speedup:.2f}x" if 0.1 <= speedup < 10 else style.times(speedup)


def job(row: Row, devices: int) -> str:
    """What a row was measured in: `ResNetInference, freezing on cuda`. devices: how many the figure has."""
    variant = "" if row.variant == "optimized" else f", {row.variant}"
    return f"{row.info.pair}{variant}" + f" on {row.info.device}" * (devices > 1)


def name(row: Row) -> str:
    """A comparison in a few words, for who cannot see the figure."""
    variant = "" if row.variant == "optimized" else f" ({row.variant})"
    return style.shown(f"{row.tip} {row.info.pair}{variant}", 60)


def worded(rows: Sequence[Row]) -> list[Row]:
    """One row a pair: the way that the guide words, or of a sweep of which it names no value, the best."""
    pairs: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.judgement.speedup is not None:
            pairs.setdefault((row.tip, row.info.pair, row.info.device), []).append(row)
    return [
        max(found, key=lambda row: (row.variant == (row.info.worded or "optimized"), row.judgement.speedup or 0.0))
        for found in pairs.values()
    ]
