"""Swept pairs as curves: variants named like `num_workers=4`, and what each value brings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tipbench.report.figures.drawing import LIGHT, Drawing, ratio_axis, ratio_limits, shown

LEAST = 4
"""Points that make a curve: fewer are read faster in a table."""

SETTING = re.compile(r"(.+?)=(\d{1,15}(?:\.\d{1,15})?)")
"""How a point of a sweep is named."""


@dataclass(frozen=True)
class Point:
    """One value of a sweep.

    Attributes:
        tip, pair, device: what is swept.
        variant: the setting and its value, as in `num_workers=4`.
        verdict: in a word.
        speedup: the baseline's time over the variant's.
        low, high: ends of its 95 % interval, equal to the speedup where there is none.
    """

    tip: str
    pair: str
    device: str
    variant: str
    verdict: str
    speedup: float
    low: float
    high: float


def drawings(points: Sequence[Point]) -> dict[str, list[Drawing]]:
    """By tip, one curve a pair, device and setting."""
    curves: dict[tuple[str, str, str, str], dict[float, Point]] = {}
    for point in points:
        match = SETTING.fullmatch(point.variant)
        if match:
            key = (point.tip, point.pair, point.device, match[1])
            curves.setdefault(key, {}).setdefault(float(match[2]), point)
    drawn: dict[str, list[Drawing]] = {}
    for number, ((tip, pair, device, setting), curve) in enumerate(curves.items(), 1):
        if len(curve) >= LEAST:
            title = f"{tip} {pair} on {device} by {setting}"
            # the number keeps apart what foreign names make alike
            name = "sweep-" + re.sub(r"[^A-Za-z0-9]+", "-", f"{number}-{tip}-{pair}").strip("-")[:80]
            made = Drawing(name, _alt(title, curve), partial(_paint, title, curve))
            drawn.setdefault(tip, []).append(made)
    return drawn


def _paint(title: str, curve: dict[float, Point]) -> Figure:
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.set_title(shown(title, 80))
    values = sorted(curve)
    points = [curve[value] for value in values]
    if values[0] > 0 and values[-1] >= 4 * values[0]:  # settings such as 1, 2, 4, 8 are chosen by ratio
        axes.set_xscale("log")
    axes.set_yscale("log")
    ends = ratio_limits(
        [point.speedup for point in points], [end for point in points for end in (point.low, point.high)]
    )
    axes.set_ylim(ends)
    ratio_axis(axes.yaxis, ends)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axhline(1, color=LIGHT["muted"], linewidth=1)
    below = [point.speedup - point.low for point in points]
    above = [point.high - point.speedup for point in points]
    axes.errorbar(values, [point.speedup for point in points], yerr=[below, above], fmt="o-", color=LIGHT["good"],
                  ecolor=LIGHT["ink"], markersize=4, linewidth=0.8, elinewidth=1.2)  # fmt: skip
    axes.set_xlabel("value; bars are 95 % intervals")
    axes.set_ylabel("speedup: baseline / tip")
    return figure


def _alt(title: str, curve: dict[float, Point]) -> str:
    points = [f"{curve[value].speedup:.3g}x with {value:g} ({curve[value].verdict})" for value in sorted(curve)]
    return f"Speedup of {shown(title, 120)}: {', '.join(points)}."
