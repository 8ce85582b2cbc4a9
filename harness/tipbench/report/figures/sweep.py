"""Swept pairs as curves: variants named like `num_workers=4`, and what each value brings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from tipbench.report.figures import style, sweep_name
from tipbench.report.figures.style import LIGHT, Drawing, ln
from tipbench.report.rows import CONTROL, Row

SETTING = re.compile(r"(.+?)=(\d{1,15}(?:\.\d{1,15})?)")
"""How a point of a sweep is named."""

LEAST = 4
"""Points that make a curve: fewer are read faster in a table."""

HEIGHT = 3.2
"""Inches."""

Points = list[tuple[float, Row]]


def drawings(rows: Sequence[Row]) -> list[Drawing]:
    found: dict[tuple[str, str, str, str], dict[float, Row]] = {}
    for row in rows:
        setting = SETTING.fullmatch(row.variant)
        if setting and row.tip != CONTROL:
            key = (row.tip, row.info.pair, row.info.device, setting[1])
            found.setdefault(key, {}).setdefault(float(setting[2]), row)
    drawn: dict[str, Drawing] = {}
    for (tip, pair, _, swept), by_value in found.items():
        runs = _unbroken(by_value)
        points = [point for run in runs for point in run]
        if len(points) >= LEAST:
            name = _unused(sweep_name(tip, pair), drawn)
            drawn[name.casefold()] = Drawing(name, _alt(points, swept), partial(_paint, runs, swept))
    return list(drawn.values())


def _unbroken(by_value: dict[float, Row]) -> list[Points]:
    """The points that were measured, apart where one between them was not: no line goes over it."""
    found = groupby(sorted(by_value.items()), key=lambda point: point[1].judgement.speedup is not None)
    return [list(points) for measured, points in found if measured]


def _unused(name: str, drawn: dict[str, Drawing]) -> str:
    """Two devices, two settings of a pair, or foreign names may come to the same; so may two letters' cases in a
    folder."""
    number, found = 1, name
    while found.casefold() in drawn:
        number += 1
        found = f"{name}-{number}"
    return found


def _paint(runs: list[Points], swept: str) -> Figure:
    points = [point for run in runs for point in run]
    figure = style.sheet(HEIGHT)
    over = style.axes(figure, 0.66, 0.44, 0.12, 0.82)
    values = [value for value, _ in points]
    # Settings such as 1, 2, 4, 8 are chosen by ratio; 0 has no place on such an axis.
    if values[0] > 0 and values[-1] >= 4 * values[0]:
        over.set_xscale("log", base=2)
        room = (values[-1] / values[0]) ** 0.08
        over.set_xlim(values[0] / room, values[-1] * room)
    else:
        room = 0.08 * (values[-1] - values[0])
        over.set_xlim(values[0] - room, values[-1] + room)
    over.minorticks_off()
    over.set_xticks(values, _labels(over, values))
    effects = [(value, effect) for value, row in points for effect in row.effects]
    estimates = [ln(row) for _, row in points]
    low, high = style.limits(
        [effect for _, effect in effects] + [middle for middle, _, _ in estimates],
        [end for found in estimates for end in found[1:]],
    )
    over.set_ylim(low, high)
    style.ratio_ticks(over.yaxis, low, high, most=9)
    over.grid(axis="y")
    style.no_difference(over)
    for run in runs:
        middles = [ln(row)[0] for _, row in run]
        over.plot([value for value, _ in run], middles, color=LIGHT["muted"], linewidth=0.8, zorder=2)
    for verdict in style.MARKS:
        here = [(value, ln(row)) for value, row in points if row.verdict == verdict]
        if here:
            style.estimates(over, verdict, [value for value, _ in here], [found for _, found in here], upright=True)
    dots = style.launches(over, [value for value, _ in effects], [effect for _, effect in effects])
    dots.set_transform(over.transData + ScaledTranslation(5 / 72, 0, figure.dpi_scale_trans))
    over.set_xlabel(style.shown(swept, 60))
    over.set_ylabel("speedup, on a log axis")
    over.yaxis.set_label_coords(0.12, 0.5, transform=blended_transform_factory(figure.dpi_scale_trans, over.transAxes))
    row = points[0][1]
    style.title(
        figure,
        style.shown(str(row.info.tip["title"]), 42),
        style.shown(f"{row.info.pair} by {swept}{_on(row)}; bars are 95 % intervals, dots launches", 70),
    )
    style.legend(figure, [row.verdict for _, row in points], top=0.46)
    return figure


def _labels(over: Axes, values: Sequence[float]) -> list[str]:
    """Of the values; none where it would touch the one before."""
    letter, free, shown_labels = 0.02, -1.0, []
    for value in values:
        (at, _) = over.transAxes.inverted().transform(over.transData.transform((value, 1.0)))
        label = f"{value:,.15g}"
        half = letter * (len(label) + 1) / 2
        shown_labels.append(label if at - half >= free else "")
        free = at + half if shown_labels[-1] else free
    return shown_labels


def _on(row: Row) -> str:
    return "" if row.info.device == "cpu" else f" on {style.shown(row.info.device, 20)}"


def _alt(points: Points, swept: str) -> str:
    row = points[0][1]
    name = style.shown(f"{row.tip} {row.info.pair}", 60)
    points_shown = [
        f"{style.times(row.judgement.speedup or 1.0)} with {value:,.15g} ({row.verdict})" for value, row in points
    ]
    return f"Speedup of {name}{_on(row)} by {style.shown(swept, 40)}: {', '.join(points_shown)}."
