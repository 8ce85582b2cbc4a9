"""Speedups across machines: a panel a comparison, a line a machine, so that a reversal is seen at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tipbench.report.figures import Effect, style
from tipbench.report.figures.style import Drawing
from tipbench.report.wording import plural

MOST = 12
"""Comparisons that are drawn: those that differ most."""

COLUMNS = 3
PITCH = 0.14
ABOVE, BELOW, LEFT, RIGHT = 0.66, 0.05, 1.72, 0.12
HEAD, FOOT, GAP = 0.36, 0.26, 0.2
"""Inches: around all panels; over, under and beside each."""

LETTERS = 26
"""Of a line over a panel, and of a machine's name."""

PAGE = 9.8
"""Inches: the most that a page is high, if one row of panels is not higher."""

Panel = tuple[str, dict[str, Effect]]


def drawings(effects: Sequence[tuple[str, Sequence[Effect]]], order: Sequence[str]) -> list[Drawing]:
    machines = list(dict.fromkeys([*order, *(effect[0] for _, found in effects for effect in found)]))
    panels = [(label, {effect[0]: effect for effect in found}) for label, found in effects]
    shown = sorted((panel for panel in panels if len(panel[1]) > 1), key=_apart, reverse=True)[:MOST]
    machines = [machine for machine in machines if any(machine in panel[1] for panel in shown)]
    high = max(1, int((PAGE - ABOVE - BELOW) / (len(machines) * PITCH + HEAD + FOOT)))
    pages = [shown[start : start + high * COLUMNS] for start in range(0, len(shown), high * COLUMNS)]
    return [
        Drawing("across" if number == 1 else f"across-{number}", _alt(page, machines), partial(_paint, page, machines))
        for number, page in enumerate(pages, 1)
    ]


def _apart(panel: Panel) -> float:
    """How far apart the two intervals lie that lie farthest apart; negative where all meet."""
    lows, highs = zip(*((effect[2], effect[3]) for effect in panel[1].values()), strict=True)
    return math.log(max(lows)) - math.log(min(highs))


def _paint(panels: Sequence[Panel], machines: Sequence[str]) -> Figure:
    down = math.ceil(len(panels) / COLUMNS)
    each = len(machines) * PITCH
    figure = style.sheet(ABOVE + BELOW + down * (HEAD + each + FOOT))
    width = (style.WIDTH - LEFT - RIGHT - (COLUMNS - 1) * GAP) / COLUMNS
    for index, panel in enumerate(panels):
        row, column = divmod(index, COLUMNS)
        left, top = LEFT + column * (width + GAP), ABOVE + row * (HEAD + each + FOOT) + HEAD
        bottom = figure.get_size_inches()[1] - top - each
        over = style.axes(figure, left, bottom, style.WIDTH - left - width, top)
        _panel(over, panel, machines)
        if column == 0:
            over.set_yticks(range(len(machines)), [style.shown(machine, LETTERS) for machine in machines])
    style.title(
        figure,
        "Speedups across machines",
        "those that differ most; bars are 95 % intervals, axes are logarithmic; an empty line: not measured there",
    )
    verdicts = [effect[4] for _, found in panels for effect in found.values()]
    style.legend(figure, verdicts, top=0.42, dots=False, band="no difference: within ±1 %")
    return figure


def _panel(over: Axes, panel: Panel, machines: Sequence[str]) -> None:
    label, found = panel
    lines = wrap(style.shown(label, 2 * LETTERS), LETTERS + 1)[:2]
    for above, line in enumerate(reversed(lines)):
        over.annotate(
            line, (0, 1), (0, 4 + 9 * above), xycoords="axes fraction", textcoords="offset points", weight="bold"
        )
    over.set_ylim(len(machines) - 0.4, -0.6)
    over.set_yticks([])
    over.tick_params(axis="y", length=0)
    over.spines["left"].set_visible(False)
    logs = {name: (math.log(speedup), math.log(low), math.log(high)) for name, speedup, low, high, _ in found.values()}
    low, high = style.limits(
        [middle for middle, _, _ in logs.values()], [end for ends in logs.values() for end in ends]
    )
    over.set_xlim(low, high)
    edge = 0.07 * (high - low)  # a label there would reach into the next panel
    style.ratio_ticks(over.xaxis, low + edge, high - edge, most=5)
    over.grid(axis="x")
    style.no_difference(over)
    for verdict in style.MARKS:
        here = [machine for machine in machines if machine in found and found[machine][4] == verdict]
        if here:
            style.estimates(over, verdict, [machines.index(name) for name in here], [logs[name] for name in here])


def _alt(panels: Sequence[Panel], machines: Sequence[str]) -> str:
    label, found = panels[0]
    most, least = (pick(found.values(), key=lambda effect: effect[1]) for pick in (max, min))
    verdicts = [{effect[4] for effect in found.values()} for _, found in panels]
    turned = sum({"faster", "slower"} <= found for found in verdicts)
    return (
        f"Speedups of {plural(len(panels), 'comparison')} across {plural(len(machines), 'machine')}: {turned} faster "
        f"on one and slower on another; {style.shown(label, 60)} differs most, from {style.times(least[1])} on "
        f"{style.shown(least[0], 40)} to {style.times(most[1])} on {style.shown(most[0], 40)}."
    )
