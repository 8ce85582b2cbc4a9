"""What the counted trainings of a pair's two sides come to, in numbers and in words."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import lru_cache

from tipbench.records.trainings import Trainings
from tipbench.report.result import Result
from tipbench.tip.wording import ratio, seconds, value
from tipbench.verdict.statistics import Mean
from tipbench.verdict.trainings import expected_steps, fewer_steps, score_change


@dataclass(frozen=True)
class Side:
    """What the trainings of one side came to.

    Attributes:
        steps: optimizer steps that the target is expected to take, failed trainings included; None where all failed.
        reached: how many reached the target.
        trainings: how many there were.
        score: mean final score of those that ended in a number.
        timed: steps that are timed, in place of optimizer steps.
        samples: within one of these.
    """

    steps: float | None
    reached: int
    trainings: int
    score: float | None
    timed: float | None
    samples: int


@dataclass(frozen=True)
class TrainingEffect:
    """What the trainings of both sides came to.

    Attributes:
        fewer: ln of the timed steps to the target that the baseline takes, over the variant's.
        change: of the final score, from the baseline to the variant, by training; None where one ended in no number.
        baseline, variant: both sides.
        target: the score to reach.
        lower_is_better: of the score.
        counted, table: the day on which both were counted, and the file that holds them.
    """

    fewer: Mean
    change: Mean | None
    baseline: Side
    variant: Side
    target: float
    lower_is_better: bool
    counted: str
    table: str

    @property
    def both_reach(self) -> bool:
        """Whether the ratio is known: of a side that never reaches the target, only that it needs many more steps."""
        return self.baseline.reached > 0 and self.variant.reached > 0


def training_effect(result: Result) -> TrainingEffect | None:
    """None if no trainings were counted."""
    if result.trainings is None:
        return None
    return _compared(*result.trainings)


@lru_cache(maxsize=1024)
def _compared(before: Trainings, after: Trainings) -> TrainingEffect:
    """Once for all columns of a table: the interval of a ratio takes over a millisecond."""
    return TrainingEffect(
        fewer=fewer_steps(before, after),
        change=score_change(before, after),
        baseline=_side(before),
        variant=_side(after),
        target=before.target,
        lower_is_better=before.lower_is_better,
        counted=before.counted,
        table=before.table,
    )


def _side(trainings: Trainings) -> Side:
    reached = sum(trainings.reached)
    steps = expected_steps(trainings) if reached else None
    scores = [score for score in trainings.scores if score is not None]
    return Side(
        steps=steps,
        reached=reached,
        trainings=len(trainings.reached),
        score=statistics.fmean(scores) if scores else None,
        timed=None if steps is None else steps / trainings.steps_timed,
        samples=trainings.batch * trainings.steps_timed,
    )


def steps_text(trainings: TrainingEffect) -> str:
    """`812 -> 420 steps`, or how many reach the target where some do not."""
    sides = trainings.baseline, trainings.variant
    reached = " -> ".join(f"{side.reached} of {side.trainings}" for side in sides)
    if not trainings.both_reach:
        return f"{reached} trainings reach the target"
    steps = f"{' -> '.join(map(_steps, sides))} steps"
    failures = any(side.reached < side.trainings for side in sides)
    return f"{steps}, those of failures counted; {reached} trainings reach the target" if failures else steps


def step_ratio_text(trainings: TrainingEffect, fewer: Mean | None = None) -> str:
    """`812 -> 420 steps, 1.93x [1.7, 2.2]`; fewer: of several runs, in place of this one's."""
    if not trainings.both_reach:
        return steps_text(trainings)
    steps, _, failures = steps_text(trainings).partition(", ")
    return f"{steps} to the target, {_factor(fewer or trainings.fewer)}{f', {failures}' if failures else ''}"


def _factor(fewer: Mean) -> str:
    low, high = fewer.interval()
    return ratio(math.exp(fewer.mean), math.exp(low), math.exp(high))


def describe_trainings(row: Result) -> str:
    """All of a row's trainings as a sentence without its full stop; empty where none were counted."""
    trainings = training_effect(row)
    if trainings is None:
        return ""
    sides = trainings.baseline, trainings.variant
    steps = (row.step_s, row.variant_step_s)
    words = [
        f"a score of {value(trainings.target)} is the target: {steps_text(trainings)}",
        f"{trainings.baseline.trainings} trainings of each side, counted on {trainings.counted}, not on this machine "
        f"({trainings.table})",
    ]
    if trainings.both_reach:
        words.append(f"timed steps to the target, baseline over variant: {_factor(trainings.fewer)}")
    words.append(score_text(trainings))
    rates = [f"{side.samples / step_s:,.0f}" for side, step_s in zip(sides, steps, strict=True) if step_s]
    if len(rates) == len(sides):
        words.append(f"samples a second {' -> '.join(rates)}")
    times = [
        seconds(side.timed * step_s)
        for side, step_s in zip(sides, steps, strict=True)
        if side.timed is not None and step_s is not None
    ]
    if len(times) == len(sides):
        words.append(f"time to the target {' -> '.join(times)}")
    return "; ".join(words)


def score_text(trainings: TrainingEffect) -> str:
    """`mean score after training worse: 0.976 -> 0.971 (higher is better), a change between -0.0082 and -0.0013`."""
    scores = f"{_score(trainings.baseline)} -> {_score(trainings.variant)}"
    scores += f" ({'lower' if trainings.lower_is_better else 'higher'} is better)"
    if trainings.change is None:
        return f"mean score after training {scores}"
    low, high = trainings.change.interval()
    word = ""
    if low > 0 or high < 0:
        word = " better:" if (high < 0) == trainings.lower_is_better else " worse:"
    return f"mean score after training{word} {scores}, a change between {low:+.2g} and {high:+.2g}"


def price_in_score(trainings: TrainingEffect) -> str:
    """`score after training unchanged within 0.001`, or how it changed; empty where it is better, which is no price."""
    before, after = trainings.baseline.score, trainings.variant.score
    better = (
        before is not None and after is not None and before != after and (after < before) == trainings.lower_is_better
    )
    if trainings.change is None:
        return "" if better else score_text(trainings)
    low, high = trainings.change.interval()
    if better and (low > 0 or high < 0):
        return ""
    return f"score after training unchanged within {max(-low, high):.2g}" if low <= 0 <= high else score_text(trainings)


def _steps(side: Side) -> str:
    return "never" if side.steps is None else f"{side.steps:,.0f}"


def _score(side: Side) -> str:
    return "none" if side.score is None else f"{side.score:.4g}"
