"""What the changes that speed up a step bring, each in the job in which it brings or costs most: the figure of a run's
first page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from tipbench.report.answer import Answer
from tipbench.report.answer_kinds import DEPENDS, DO_NOT, OPERATIONS, USE, USE_IF
from tipbench.report.figures.drawing import LIGHT, Drawing, ratio_axis, shorten
from tipbench.tip.pair import Claim
from tipbench.tip.wording import job_words

_BARS = 15
"""Bars of the figure."""

LINE = 0.25
"""Inches from line to line."""


@dataclass(frozen=True)
class Bar:
    """What a tip brings in one job.

    Attributes:
        name: of the tip and the job.
        ratio: the time of the job as it is over that with the tip.
        low, high: ends of its 95 % interval.
    """

    name: str
    ratio: float
    low: float
    high: float


def bars(answers: Sequence[Answer]) -> list[Bar]:
    """The _BARS that bring or cost most, the largest gain last."""
    made = []
    for answer in answers:
        if answer.kind not in (USE, USE_IF, DEPENDS, DO_NOT) or answer.workload == OPERATIONS:
            continue
        jobs = [(gain.row.pair, gain.mean) for gain in answer.gains if gain.state.word in ("gain", "loss")]
        timed = [(pair, mean) for pair, mean in jobs if mean and answer.claim == Claim.FASTER]
        if timed:
            pair, mean = max(timed, key=lambda job: abs(job[1].mean))
            ends = (math.exp(end) for end in mean.interval())
            made.append(Bar(f"{answer.tip}: {job_words(pair)}", math.exp(mean.mean), *ends))
    most = sorted(made, key=lambda bar: -abs(math.log(bar.ratio)))[:_BARS]
    return sorted(most, key=lambda bar: bar.ratio)


def drawing(bars: Sequence[Bar]) -> list[Drawing]:
    """One figure; none without bars."""
    if not bars:
        return []
    ends = " to ".join(f"{shorten(bar.name)} {bar.ratio:.3g}x" for bar in dict.fromkeys((bars[0], bars[-1])))
    return [Drawing("jobs", f"What changes bring, time before over time after: {ends}.", lambda: _paint(bars))]


def _paint(bars: Sequence[Bar]) -> Figure:
    figure = Figure(figsize=(8, len(bars) * LINE + 0.8), layout="constrained")
    panel = figure.subplots()
    ratio_axis(panel, "x", [bar.ratio for bar in bars], [end for bar in bars for end in (bar.low, bar.high)])
    panel.axvline(1, color=LIGHT["muted"], linewidth=1)
    for place, bar in enumerate(bars):
        color, mark = ("good", ">") if bar.ratio > 1 else ("bad", "<")
        panel.errorbar(
            bar.ratio, place, xerr=[[bar.ratio - bar.low], [bar.high - bar.ratio]], fmt=mark, color=LIGHT[color],
            markersize=5, linewidth=1.4,
        )  # fmt: skip
    panel.set_yticks(range(len(bars)), [shorten(bar.name) for bar in bars])
    panel.set_ylim(-0.7, len(bars) - 0.3)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", visible=False)
    # Of the figure: the panel is narrower, and cut it off.
    figure.supxlabel(
        "time before / time after: right of 1x the change pays; bars are 95 % intervals", fontsize="medium"
    )
    return figure
