"""The figures of a run, from its results and answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tipbench.report.answer import Answer
from tipbench.report.figures import sweeps, whole_jobs
from tipbench.report.figures.drawing import Drawing
from tipbench.report.figures.sweeps import Point
from tipbench.report.figures.whole_jobs import Bar
from tipbench.report.measure import Effect
from tipbench.report.result import CONTROL, Key, Result


def run_figures(
    results: Sequence[Result], answers: Sequence[Answer], effects: Mapping[Key, Effect]
) -> tuple[list[Drawing], dict[str, list[Drawing]]]:
    """(what the tips bring in whole jobs; by tip, the curves of its sweeps).

    results: of the run. answers, effects: what it and the earlier runs say, as `tipbench.report.answer` has them.
    """
    jobs = [(answer, effects[answer.key]) for answer in answers if answer.role == "job" and answer.key is not None]
    bars = [bar for answer, effect in jobs if effect.newest.scale == "macro" for bar in _bars(answer, effect)]
    points = [
        Point(
            result.tip, result.pair, result.device, result.variant, result.verdict, *_interval(result, result.speedup)
        )
        for result in results
        if result.speedup is not None and result.tip != CONTROL
    ]
    return whole_jobs.drawing(bars), sweeps.drawings(points)


def _bars(answer: Answer, effect: Effect) -> list[Bar]:
    result, mean = effect.newest, effect.mean
    if mean is None:
        return []
    job = result.pair if result.variant == "optimized" else f"{result.pair} ({result.variant})"
    low, high = mean.interval()
    ratios = (math.exp(end) for end in (mean.mean, low, high))
    return [Bar(f"{result.tip}: {job}", answer.claim, effect.state.word, *ratios)]


def _interval(result: Result, speedup: float) -> tuple[float, float, float]:
    """The speedup and the ends of its interval, equal to it if there is none."""
    return speedup, result.low or speedup, result.high or speedup
