"""What the tips bring in whole jobs, each by what it promises: the figure of a run's first page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tipbench.report.answer import Answer
from tipbench.report.figures.drawing import LIGHT, Drawing, ratio_axis, ratio_limits, shown
from tipbench.report.measure import Effect
from tipbench.report.result import Key
from tipbench.tip.pair import Claim
from tipbench.verdict.statistics import Mean

QUANTITIES = {
    Claim.FASTER: "Time of a step",
    Claim.LEANER: "Peak memory",
    Claim.SOONER: "What is paid once",
    Claim.FEWER_STEPS: "Steps to the target",
    Claim.SOONER_AT_TARGET: "Time to the target",
    Claim.BETTER: "Score after training",
    Claim.STEADIER: "Trainings that miss the target, or events counted",
}
"""By claim, what a tip is judged by."""

STATES = {
    "gain": ("gains", "good", ">"),
    "loss": ("costs", "bad", "<"),
    "within": ("next to nothing", "same", "s"),
    "open": ("undecided", "open", "o"),
}
"""By state, its name, its colour and its mark."""

MOST = 400
"""Bars of a figure; the suite has some 60. An image of 3,000 would be larger than matplotlib makes one."""

LINE, AROUND = 0.19, 0.6
"""Inches from line to line, and around each group."""


@dataclass(frozen=True)
class Bar:
    """A whole job and what its tip brings in it.

    Attributes:
        name: of the tip and the job.
        claim: what the tip promises, one of `Claim`.
        state: one of STATES.
        ratio: what the baseline takes over what the tip takes, of what is promised.
        low, high: ends of its 95 % interval, equal to the ratio where single readings have none.
    """

    name: str
    claim: str
    state: str
    ratio: float
    low: float
    high: float


def bars(answers: Sequence[Answer], effects: Mapping[Key, Effect]) -> list[Bar]:
    """Of the whole jobs that the answers are made of. effects: of the same runs, as `measure.effects` has them."""
    jobs = [(answer.claim, effects[key]) for answer in answers for key in answer.keys if key in effects]
    return [
        Bar(f"{effect.row.tip}: {effect.row.job_and_way}", claim, effect.state.word, *_ratios(effect.mean))
        for claim, effect in jobs
        if effect.row.scale == "macro" and effect.mean is not None
    ]


def _ratios(mean: Mean) -> tuple[float, float, float]:
    low, high = mean.interval()
    return math.exp(mean.mean), math.exp(low), math.exp(high)


def drawing(bars: Sequence[Bar]) -> list[Drawing]:
    """One figure; none without bars, or with more than can be read."""
    if len(bars) > MOST:
        return []
    groups = {
        quantity: sorted((bar for bar in bars if bar.claim == claim), key=lambda bar: bar.ratio)
        for claim, quantity in QUANTITIES.items()
    }
    groups = {quantity: group for quantity, group in groups.items() if group}
    return [Drawing("jobs", _alt(groups), lambda: _paint(groups))] if groups else []


def _paint(groups: dict[str, list[Bar]]) -> Figure:
    lines = [len(group) + 0.4 for group in groups.values()]
    figure = Figure(figsize=(8, sum(lines) * LINE + len(groups) * AROUND + 0.4), layout="constrained")
    panels = figure.subplots(len(groups), squeeze=False, height_ratios=lines)[:, 0]
    for panel, (quantity, group) in zip(panels, groups.items(), strict=True):
        panel.set_title(f"{quantity}: baseline / tip")
        panel.set_xscale("log")
        ends = ratio_limits([bar.ratio for bar in group], [end for bar in group for end in (bar.low, bar.high)])
        panel.set_xlim(ends)
        ratio_axis(panel.xaxis, ends)
        panel.axvline(1, color=LIGHT["muted"], linewidth=1)
        for place, bar in enumerate(group):
            _, color, mark = STATES[bar.state]
            panel.errorbar(
                bar.ratio, place, xerr=[[bar.ratio - bar.low], [bar.high - bar.ratio]], fmt=mark, color=LIGHT[color],
                markersize=4, linewidth=1.2, markerfacecolor=LIGHT["paper" if bar.state == "open" else color],
            )  # fmt: skip
        panel.set_yticks(range(len(group)), [shown(bar.name) for bar in group])
        panel.set_ylim(-0.7, len(group) - 0.3)
        panel.tick_params(axis="y", length=0)
        panel.grid(axis="y", visible=False)
    panels[-1].set_xlabel("right of 1x: the tip takes less; bars are 95 % intervals")
    present = {bar.state for group in groups.values() for bar in group}
    marks = [
        Line2D([], [], linestyle="none", marker=mark, color=LIGHT[color], label=name,
               markerfacecolor=LIGHT["paper" if state == "open" else color])
        for state, (name, color, mark) in STATES.items()
        if state in present
    ]  # fmt: skip
    figure.legend(handles=marks, loc="outside upper right", ncols=len(marks))
    return figure


def _alt(groups: dict[str, list[Bar]]) -> str:
    parts = []
    for quantity, group in groups.items():
        counts = [(name, sum(bar.state == state for bar in group)) for state, (name, _, _) in STATES.items()]
        counted = ", ".join(f"{name} {count}" for name, count in counts if count)
        most, least = group[-1], group[0]
        ends = f"from {shown(least.name)} {least.ratio:.3g}x to {shown(most.name)} {most.ratio:.3g}x"
        parts.append(f"{quantity}: {counted}; {ends if len(group) > 1 else f'{shown(most.name)} {most.ratio:.3g}x'}")
    return f"Whole jobs by what their tips promise, baseline over tip. {'. '.join(parts)}."
