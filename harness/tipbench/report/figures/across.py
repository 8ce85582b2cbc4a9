"""Speedups across machines: by comparison, a line a machine, so that a reversal is seen at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from tipbench.report.figures import Effect, style
from tipbench.report.figures.listing import EDGE, JOBS, bounded, short, speedups
from tipbench.report.figures.style import LIGHT, Drawing
from tipbench.report.wording import plural

MOST = 12
"""Comparisons that are drawn: those that differ most."""

PITCH = 0.16
ABOVE, BELOW, LEFT, RIGHT = 0.88, 0.42, 1.6, 0.56
"""Inches: from line to line, and around the axes, beside which machines are named and numbers given."""

LETTERS, MACHINE = 60, 23
"""Of the line over a comparison, and of a machine's name."""

LINES = 58
"""Of a page of A4, if one comparison alone has no more."""

Panel = tuple[str, dict[str, Effect]]


def drawings(effects: Sequence[tuple[str, Sequence[Effect]]], order: Sequence[str]) -> list[Drawing]:
    machines = list(dict.fromkeys([*order, *(effect[0] for _, found in effects for effect in found)]))
    panels = [
        (label, {effect[0]: effect for effect in sorted(found, key=lambda effect: machines.index(effect[0]))})
        for label, found in effects
    ]
    shown = sorted((panel for panel in panels if len(panel[1]) > 1), key=_apart, reverse=True)[:MOST]
    while len(shown) > 1 and len(_lines(shown)) > LINES:
        shown.pop()
    return [Drawing("across", _alt(shown), lambda: _paint(shown))] if shown else []


def _lines(panels: Sequence[Panel]) -> list[str | Effect]:
    """A line over each panel, and one a machine."""
    lines: list[str | Effect] = []
    for label, found in panels:
        lines.append(label)
        lines.extend(found.values())
    return lines


def _apart(panel: Panel) -> float:
    """How far apart the two intervals lie that lie farthest apart; negative where all meet."""
    lows, highs = zip(*((effect[2], effect[3]) for effect in panel[1].values()), strict=True)
    return math.log(max(lows)) - math.log(min(highs))


def _paint(panels: Sequence[Panel]) -> Figure:
    lines = _lines(panels)
    figure = style.sheet(ABOVE + len(lines) * PITCH + BELOW)
    over = style.axes(figure, LEFT, BELOW, RIGHT, ABOVE)
    over.set_ylim(len(lines) - 0.5, -0.5)
    over.set_yticks([])
    over.spines[["left", "bottom"]].set_visible(False)
    over.tick_params(axis="x", top=True, labeltop=True, length=0)
    speedups(over, JOBS, [y for y, line in enumerate(lines) if not isinstance(line, str)], half=0.5)
    inches = blended_transform_factory(figure.dpi_scale_trans, over.transData)
    end = style.WIDTH - EDGE
    for y, line in enumerate(lines):
        if isinstance(line, str):
            over.plot((EDGE, end), (y - 0.5,) * 2, transform=inches, clip_on=False, color=LIGHT["grid"], linewidth=0.5)
            over.text(EDGE, y, style.shown(line, LETTERS), transform=inches, va="center", weight="bold")
            continue
        machine, speedup, low, high, verdict = line
        over.text(LEFT - EDGE, y, style.shown(machine, MACHINE), transform=inches, va="center", ha="right")
        over.text(end, y, short(speedup), transform=inches, va="center", ha="right",
                  color=style.MARKS[verdict].color)  # fmt: skip
        bounded(over, y, verdict, (math.log(speedup), math.log(low), math.log(high)))
    style.title(
        figure, "Speedups across machines", "those that differ most; bars are 95 % intervals; arrows: beyond the axis"
    )
    style.legend(figure, [effect[4] for _, found in panels for effect in found.values()], top=0.46)
    return figure


def _alt(panels: Sequence[Panel]) -> str:
    label, found = panels[0]
    machines = {machine for _, found in panels for machine in found}
    most, least = (pick(found.values(), key=lambda effect: effect[1]) for pick in (max, min))
    verdicts = [{effect[4] for effect in found.values()} for _, found in panels]
    turned = sum({"faster", "slower"} <= found for found in verdicts)
    return (
        f"Speedups of {plural(len(panels), 'comparison')} across {plural(len(machines), 'machine')}: {turned} faster "
        f"on one and slower on another; {style.shown(label, 60)} differs most, from {style.times(least[1])} on "
        f"{style.shown(least[0], 40)} to {style.times(most[1])} on {style.shown(most[0], 40)}."
    )
