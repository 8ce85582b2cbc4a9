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
    """

    steps: float | None
    reached: int
    trainings: int
    score: float | None


@dataclass(frozen=True)
class TrainingEffect:
    """What the trainings of both sides came to.

    Attributes:
        fewer: ln of the timed steps to the target that the baseline takes, over the variant's.
        change: of the final score, from the baseline to the variant, by training; None where one ended in no number.
        baseline, variant: both sides.
        lower_is_better: of the score.
    """

    fewer: Mean
    change: Mean | None
    baseline: Side
    variant: Side
    lower_is_better: bool

    @property
    def both_reach(self) -> bool:
        """Whether the ratio is known: of a side that never reaches the target, only that it needs many more steps."""
        return self.baseline.reached > 0 and self.variant.reached > 0


def training_effect(result: Result) -> TrainingEffect | None:
    """None if no trainings were counted."""
    return None if result.trainings is None else _compared(*result.trainings)


@lru_cache(maxsize=1024)
def _compared(before: Trainings, after: Trainings) -> TrainingEffect:
    """Once for all columns of a table: the interval of a ratio takes over a millisecond."""
    return TrainingEffect(
        fewer=fewer_steps(before, after),
        change=score_change(before, after),
        baseline=_side(before),
        variant=_side(after),
        lower_is_better=before.lower_is_better,
    )


def _side(trainings: Trainings) -> Side:
    reached = sum(trainings.reached)
    scores = [score for score in trainings.scores if score is not None]
    return Side(
        steps=expected_steps(trainings) if reached else None,
        reached=reached,
        trainings=len(trainings.reached),
        score=statistics.fmean(scores) if scores else None,
    )


def steps_text(trainings: TrainingEffect) -> str:
    """`812 -> 420 steps`, or how many reach the target where some do not."""
    sides = trainings.baseline, trainings.variant
    reached = " -> ".join(f"{side.reached} of {side.trainings}" for side in sides)
    if not trainings.both_reach:
        return f"{reached} trainings reach the target"
    steps = f"{' -> '.join(f'{side.steps:,.0f}' for side in sides)} steps"
    failures = any(side.reached < side.trainings for side in sides)
    return f"{steps}, failures counted; {reached} trainings reach it" if failures else steps


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
    if row.trainings is None:
        return ""
    before, after = row.trainings
    trainings = _compared(before, after)
    words = [
        f"a score of {value(before.target)} is the target: {steps_text(trainings)}",
        f"{trainings.baseline.trainings} trainings of each side, counted on {before.counted}, not on this machine "
        f"({before.table})",
    ]
    if trainings.both_reach:
        words.append(f"timed steps to the target, baseline over variant: {_factor(trainings.fewer)}")
    words.append(score_text(trainings))
    if row.step_s and row.variant_step_s:
        sides = (before, row.step_s), (after, row.variant_step_s)
        rates = [f"{side.batch * side.steps_timed / step_s:,.0f}" for side, step_s in sides]
        words.append(f"samples a second {' -> '.join(rates)}")
        if trainings.both_reach:
            times = [seconds(expected_steps(side) / side.steps_timed * step_s) for side, step_s in sides]
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


def _score(side: Side) -> str:
    return "none" if side.score is None else f"{side.score:.4g}"
