"""Speedups as a forest plot: a line a comparison, grouped by tip, on as many pages as A4 needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Transform, blended_transform_factory

from tipbench.report.advice import advise
from tipbench.report.cells import speedup
from tipbench.report.effect import effect
from tipbench.report.figures import style
from tipbench.report.figures.style import LIGHT, Drawing, ln
from tipbench.report.rows import CONTROL, Row
from tipbench.report.wording import plural

LINES = 58
"""Of a page."""

PITCH = 0.15
"""Inches from line to line."""

ABOVE, BELOW, LABELS, NUMBERS, EDGE = 0.95, 0.45, 2.62, 1.28, 0.06
"""Inches around the axes, and around what is beside them."""

Group = tuple[str, list[Row]]


def drawings(rows: Sequence[Row]) -> list[Drawing]:
    pages = _pages(_groups(rows))
    return [
        Drawing(
            "speedups" if number == 1 else f"speedups-{number}",
            _alt(page, number, len(pages)),
            partial(_paint, page, number, len(pages)),
        )
        for number, page in enumerate(pages, 1)
    ]


def _groups(rows: Sequence[Row]) -> list[Group]:
    """Tips by their largest effect, so that a page's comparisons are of a size and its axis suits all of them;
    the controls last."""
    answers = {advice.tip: advice.answer for advice in advise([list(map(effect, rows))])}
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.judgement.speedup is not None:
            groups.setdefault(row.tip, []).append(row)
    order = sorted(groups, key=lambda tip: (tip == CONTROL, -max(map(_effect, groups[tip]))))
    return [(answers.get(tip, "identical sides"), groups[tip]) for tip in order]


def _pages(groups: Sequence[Group]) -> list[list[Group]]:
    """A tip stays on one page where it can: on which page it is, is then its line's place on that page."""
    pages: list[list[Group]] = []
    left = 0
    for answer, rows in groups:
        while rows:
            if left < min(len(rows), LINES - 1) + 1:
                pages.append([])
                left = LINES
            here, rows = rows[: left - 1], rows[left - 1 :]
            pages[-1].append((answer, here))
            left -= len(here) + 1
    return pages


def _paint(page: Sequence[Group], number: int, of: int) -> Figure:
    lines = sum(len(rows) + 1 for _, rows in page)
    shown = [row for _, rows in page for row in rows]
    figure = style.sheet(lines * PITCH + ABOVE + BELOW)
    over = style.axes(figure, LABELS, BELOW, NUMBERS, ABOVE)
    over.set_ylim(lines - 0.5, -0.5)
    devices = {row.info.device for row in shown}
    placed: list[tuple[int, Row]] = []
    line = 0
    for answer, rows in page:
        _head(over, line, rows[0].tip, answer)
        last = ""
        for row in rows:
            line += 1
            pair = row.info.pair + (f" on {row.info.device}" if len(devices) > 1 else "")
            _words(over, line, row, pair if pair != last else "")
            placed.append((line, row))
            last = pair
        line += 1
    dots = [(effect, line + 0.24) for line, row in placed for effect in row.effects]
    _axis(over, [x for x, _ in dots] + [ln(row)[0] for row in shown], [end for row in shown for end in ln(row)[1:]])
    style.launches(over, [x for x, _ in dots], [y for _, y in dots])
    for verdict in style.MARKS:
        here = [(line - 0.12, ln(row)) for line, row in placed if row.verdict == verdict]
        if here:
            style.estimates(over, verdict, [at for at, _ in here], [found for _, found in here])
    style.title(
        figure,
        "Speedups" + (f", page {number} of {of}" if of > 1 else ""),
        "tips by their largest effect; bars are 95 % intervals; operations alone in italics, whole jobs upright",
    )
    style.legend(figure, [row.verdict for row in shown], top=0.42, band="no difference: within ±1 %")
    return figure


def _axis(over: Axes, points: Sequence[float], ends: Sequence[float]) -> None:
    low, high = style.limits(points, ends)
    over.set_xlim(low, high)
    style.ratio_ticks(over.xaxis, low, high, most=12)
    over.tick_params(axis="x", top=True, labeltop=True)
    over.grid(axis="x")
    over.set_yticks([])
    over.spines["left"].set_visible(False)
    over.spines["top"].set_visible(True)
    over.set_xlabel("speedup: the baseline's time over the variant's, on a log axis")
    style.no_difference(over)


def _head(over: Axes, line: int, tip: str, answer: str) -> None:
    beside = _beside(over)
    ends = (EDGE, style.WIDTH - EDGE)
    over.plot(ends, (line - 0.5,) * 2, transform=beside, clip_on=False, color=LIGHT["grid"], linewidth=0.5)
    over.text(EDGE, line, style.shown(tip, 36), transform=beside, va="center", weight="bold")
    over.text(style.WIDTH - EDGE, line, answer, transform=beside, va="center", ha="right", color=LIGHT["muted"])


def _words(over: Axes, line: int, row: Row, pair: str) -> None:
    """pair: empty where the line above names it."""
    beside, label = _beside(over), style.shown(pair, 28)
    slant: Literal["normal", "italic"] = "normal" if row.info.scale == "macro" else "italic"
    over.text(EDGE + 0.1, line, label, transform=beside, va="center", style=slant)
    if row.variant != "optimized":
        variant = style.shown(row.variant, max(12, min(26, 40 - len(label))))
        over.text(LABELS - 0.08, line, variant, transform=beside, va="center", ha="right", color=LIGHT["muted"])
    found = speedup(row)
    found = found if len(found) <= 24 else style.times(row.judgement.speedup or 1.0)
    over.text(style.WIDTH - EDGE, line, found, transform=beside, va="center", ha="right",
              color=style.MARKS[row.verdict].color)  # fmt: skip


def _beside(over: Axes) -> Transform:
    """Inches from the figure's left, and lines."""
    return blended_transform_factory(over.figure.dpi_scale_trans, over.transData)


def _alt(page: Sequence[Group], number: int, of: int) -> str:
    rows = [row for _, rows in page for row in rows if row.tip != CONTROL]
    controls = sum(len(rows) for _, rows in page) - len(rows)
    verdicts = Counter(row.verdict for row in rows)
    parts = [f"{verdicts[verdict]} {verdict}" for verdict in style.MARKS if verdicts[verdict]]
    where = f", page {number} of {of}" if of > 1 else ""
    description = f"Forest plot of speedups{where}: {plural(len(rows), 'comparison')}"
    description += f", {', '.join(parts)}" if parts else ""
    for word, verdict, pick in (("largest gain", "faster", max), ("largest loss", "slower", min)):
        having = [row for row in rows if row.verdict == verdict]
        if having:
            row = pick(having, key=lambda row: row.judgement.speedup or 1.0)
            description += f"; the {word} is {name(row)} with {style.times(row.judgement.speedup or 1.0)}"
    description += f"; {plural(controls, 'control')} with identical sides" if controls else ""
    return f"{description}."


def name(row: Row) -> str:
    """A comparison in a few words."""
    variant = "" if row.variant == "optimized" else f" ({row.variant})"
    return style.shown(f"{row.tip} {row.info.pair}{variant}", 60)


def _effect(row: Row) -> float:
    return abs(ln(row)[0])
