"""Memory against time: which comparisons bring both, and which trade one for the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from tipbench.report.figures import style
from tipbench.report.figures.forest import name
from tipbench.report.figures.style import LIGHT, Drawing
from tipbench.report.rows import CONTROL, MEMORY_KINDS, MEMORY_MARGIN, Row, judged_memory
from tipbench.report.wording import plural

SIDE = 6.4
"""Inches: the height of the figure."""

CORNERS = {
    (1, 1): "faster and leaner",
    (-1, 1): "slower but leaner",
    (1, -1): "faster, with more memory",
    (-1, -1): "slower, with more memory",
}

MOST_LABELS = 16

NEAR = math.log(1.1)
"""What lies so near to no change needs no name."""

PLACES = ((1, 0.0), (-1, 0.0), (1, 0.8), (1, -0.8), (-1, 0.8), (-1, -0.8))
"""Where a label may stand beside its mark: to the right or left, so many lines up."""


@dataclass(frozen=True)
class Point:
    """x, y: natural logarithms of t_baseline / t_variant and of the same ratio of memory: up and right is better.
    kind: of memory, a key of MEMORY_KINDS."""

    row: Row
    kind: str
    x: float
    y: float


def drawings(rows: Sequence[Row]) -> list[Drawing]:
    points = [point for row in rows if row.tip != CONTROL and (point := _point(row)) is not None]
    return [Drawing("memory-time", _alt(points), lambda: _paint(points))] if points else []


def front(points: Sequence[Point]) -> list[Point]:
    """Those that no other exceeds in both, from the leanest to the fastest."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (-point.x, -point.y)):
        if not found or point.y > found[-1].y:
            found.append(point)
    return found[::-1]


def _point(row: Row) -> Point | None:
    memory, speedup = judged_memory(row), row.judgement.speedup
    if memory is None or speedup is None or min(memory[1:]) <= 0:
        return None
    return Point(row, memory[0], math.log(speedup), math.log(memory[1] / memory[2]))


def _paint(points: Sequence[Point]) -> Figure:
    figure = style.sheet(SIDE)
    over = style.axes(figure, 0.62, 0.45, 0.12, 0.72)
    margin = -math.log(1 - MEMORY_MARGIN), -math.log(1 + MEMORY_MARGIN)
    for axis, found, set_limits in (
        (over.xaxis, [point.x for point in points], over.set_xlim),
        (over.yaxis, [point.y for point in points], over.set_ylim),
    ):
        low, high = style.limits([*found, math.log(0.8), math.log(1.25)], [])
        room = 0.05 * (high - low)  # for the words in the corners
        set_limits(low - room, high + room)
        style.ratio_ticks(axis, low, high, most=12)
    over.grid()
    style.no_difference(over)
    over.axhspan(margin[1], margin[0], facecolor=LIGHT["band"], edgecolor="none", zorder=0)
    for edge in margin:
        over.axhline(edge, color=LIGHT["muted"], linewidth=0.4, linestyle=(0, (2, 2)), zorder=1)
    over.set_xlabel("speedup: the baseline's time over the variant's, on a log axis")
    kinds = " or ".join(MEMORY_KINDS[kind] for kind in MEMORY_KINDS if kind in {point.kind for point in points})
    over.set_ylabel(f"memory saved: the baseline's peak of {kinds} over the variant's, on a log axis")
    best = front(points)
    corners = [(best[0].x, best[0].y)]
    for point in best[1:]:
        corners += [(point.x, corners[-1][1]), (point.x, point.y)]
    over.plot(*zip(*corners, strict=True), color=LIGHT["muted"], linewidth=0.8, linestyle=(0, (5, 2)), zorder=2)
    for verdict, mark in style.MARKS.items():
        here = [point for point in points if point.row.verdict == verdict]
        if here:
            over.plot([point.x for point in here], [point.y for point in here], zorder=4, **style.marker(mark))
    for (right, up), words in CORNERS.items():
        over.text(0.5 + 0.49 * right, 0.5 + 0.487 * up, words, transform=over.transAxes, weight="bold",
                  color=LIGHT["muted"], size=style.MEDIUM, ha="right" if right > 0 else "left",
                  va="top" if up > 0 else "bottom")  # fmt: skip
    _label(figure, over, points, corners)
    style.title(
        figure,
        "Memory and time together",
        "up is leaner, right is faster; nothing measured is beyond the dashed line in both",
    )
    bands = "bands: time within ±1 %, memory within ±5 %"
    style.legend(figure, [point.row.verdict for point in points], top=0.42, dots=False, band=bands)
    return figure


def _label(figure: Figure, over: Axes, points: Sequence[Point], corners: Sequence[tuple[float, float]]) -> None:
    """Name what lies farthest out, one comparison a pair, where there is room. corners: of the dashed line."""
    line = 1.25 * style.SMALL * figure.dpi / 72
    half = 3.0 * figure.dpi / 72
    frame = over.get_window_extent()
    marks = over.transData.transform([(point.x, point.y) for point in points])
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for x, y in marks]
    taken += [text.get_window_extent() for text in over.texts]
    turns = over.transData.transform(corners)
    taken += [Bbox([before, after]).padded(1) for before, after in pairwise(turns)]
    named: set[tuple[str, str]] = set()
    for point, (x, y) in sorted(zip(points, marks, strict=True), key=lambda found: -math.hypot(found[0].x, found[0].y)):
        pair = point.row.tip, point.row.info.pair
        if pair in named or len(named) == MOST_LABELS or math.hypot(point.x, point.y) < NEAR:
            continue
        for side, up in PLACES:
            left, down = over.transData.inverted().transform((x + side * 1.6 * half, y + up * line))
            text = over.text(left, down, name(point.row), size=style.SMALL - 0.5, va="center_baseline",
                             ha="left" if side > 0 else "right", zorder=5)  # fmt: skip
            box = text.get_window_extent().padded(1)
            if frame.x0 <= box.x0 and box.x1 <= frame.x1 and not any(map(box.overlaps, taken)):
                taken.append(box)
                named.add(pair)
                break
            text.remove()


def _alt(points: Sequence[Point]) -> str:
    corners = [
        (len([point for point in points if point.row.verdict == verdict and _memory(point) == up]), words)
        for (verdict, up), words in zip(
            (("faster", 1), ("slower", 1), ("faster", -1), ("slower", -1)), CORNERS.values(), strict=True
        )
    ]
    counted = ", ".join(f"{count} {words.replace(',', '')}" for count, words in corners)
    description = f"Memory against time: of {plural(len(points), 'comparison')} {counted}"
    leanest, hungriest = max(points, key=lambda point: point.y), min(points, key=lambda point: point.y)
    if _memory(leanest) > 0:
        description += (
            f"; the leanest is {name(leanest.row)} with {style.times(math.exp(-leanest.y))} the baseline's memory"
        )
    if _memory(hungriest) < 0:
        description += f"; the least lean is {name(hungriest.row)} with {style.times(math.exp(-hungriest.y))}"
    return f"{description}."


def _memory(point: Point) -> int:
    """1 where a comparison is leaner by more than the margin, -1 where it needs more by that, else 0."""
    return (point.y >= -math.log(1 - MEMORY_MARGIN)) - (point.y <= -math.log(1 + MEMORY_MARGIN))
