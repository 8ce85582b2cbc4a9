"""Swept pairs as curves: variants named like `num_workers=4`, and what each value brings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tipbench.report.figures.drawing import LIGHT, Drawing, ratio_axis, shorten
from tipbench.report.result import Result
from tipbench.tip.pair import CONTROL

_LEAST_POINTS = 4
"""Points that make a curve: fewer are read faster in a table."""

SETTING = re.compile(r"(.+?)=(\d{1,15}(?:\.\d{1,15})?)")
"""How a point of a sweep is named."""


Curve = Mapping[float, Result]
"""By value of a setting, what was measured with it."""


def drawings(results: Sequence[Result]) -> dict[str, list[Drawing]]:
    """By tip, one curve a pair, device and setting."""
    curves: dict[tuple[str, str, str, str], dict[float, Result]] = {}
    for result in results:
        match = SETTING.fullmatch(result.variant)
        if match and result.speedup is not None and result.tip != CONTROL:
            key = (result.tip, result.pair, result.device, match[1])
            curves.setdefault(key, {}).setdefault(float(match[2]), result)
    drawn: dict[str, list[Drawing]] = {}
    for number, ((tip, pair, device, setting), curve) in enumerate(curves.items(), 1):
        if len(curve) >= _LEAST_POINTS:
            title = f"{tip} {pair} on {device} by {setting}"
            # the number keeps apart what foreign names make alike
            name = "sweep-" + re.sub(r"[^A-Za-z0-9]+", "-", f"{number}-{tip}-{pair}").strip("-")[:80]
            made = Drawing(name, _alt(title, curve), partial(_paint, title, curve))
            drawn.setdefault(tip, []).append(made)
    return drawn


def _paint(title: str, curve: Curve) -> Figure:
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.set_title(shorten(title, 80))
    values = sorted(curve)
    speedups = [curve[value].speedup or 1.0 for value in values]
    lows = [curve[value].low or speedup for value, speedup in zip(values, speedups, strict=True)]
    highs = [curve[value].high or speedup for value, speedup in zip(values, speedups, strict=True)]
    if values[0] > 0 and values[-1] >= 4 * values[0]:  # settings such as 1, 2, 4, 8 are chosen by ratio
        axes.set_xscale("log")
    ratio_axis(axes, "y", speedups, [*lows, *highs])
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axhline(1, color=LIGHT["muted"], linewidth=1)
    bars = np.subtract(speedups, lows), np.subtract(highs, speedups)
    axes.errorbar(values, speedups, yerr=bars, fmt="o-", color=LIGHT["good"], ecolor=LIGHT["ink"], markersize=4,
                  linewidth=0.8, elinewidth=1.2)  # fmt: skip
    axes.set_xlabel("value; bars are 95 % intervals")
    axes.set_ylabel("speedup: baseline / tip")
    return figure


def _alt(title: str, curve: Curve) -> str:
    points = [f"{result.speedup:.3g}x with {value:g} ({result.verdict})" for value, result in sorted(curve.items())]
    return f"Speedup of {shorten(title, 120)}: {', '.join(points)}."
