"""From the counted trainings of both sides: how many steps the target takes, failures included."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TypeVar

from tipbench.records.trainings import Trainings
from tipbench.verdict.statistics import Mean

T = TypeVar("T")

NEXT_TO_NONE = 0.5
"""What counts as the number of successes if there are none: the next training might be the first."""


def expected_steps(trainings: Trainings) -> float:
    """Optimizer steps to the target for somebody who starts anew after each failure: the steps of all trainings over
    the number that reach it. The expected running time of Hansen et al. (COCO, 2009)."""
    return _expected(trainings.steps, trainings.reached)


def fewer_steps(baseline: Trainings, variant: Trainings) -> Mean:
    """ln of the timed steps to the target that the baseline is expected to take, over those of the variant.

    Both sides have the same seeds. The error is the jackknife's, which leaves out one seed of both sides at a time: see
    "Intervals of counted trainings" in harness/decisions.md.
    """
    count = len(baseline.seeds)

    def ratio(left_out: int | None) -> float:
        before, after = (
            _expected(_without(side.steps, left_out), _without(side.reached, left_out)) / side.steps_timed
            for side in (baseline, variant)
        )
        return math.log(before / after)

    without = [ratio(seed) for seed in range(count)]
    middle = statistics.fmean(without)
    variance = (count - 1) / count * math.fsum((value - middle) ** 2 for value in without)
    # By chance alone all of a few trainings may take equally many steps.
    return Mean(ratio(None), max(math.sqrt(variance), 1 / (100 * math.sqrt(count))), count - 1.0)


def score_change(baseline: Trainings, variant: Trainings) -> Mean | None:
    """Of the score in the end, from the baseline to the variant; None if a training ended in no number. Both sides have
    the same seeds, so it is Student's t over the differences by seed."""
    changes = [
        after - before
        for before, after in zip(baseline.scores, variant.scores, strict=True)
        if before is not None and after is not None
    ]
    if len(changes) < max(2, len(baseline.scores)):
        return None
    return Mean(statistics.fmean(changes), statistics.stdev(changes) / math.sqrt(len(changes)), len(changes) - 1.0)


def better_score(baseline: Trainings, variant: Trainings) -> Mean | None:
    """ln of how many times better the variant's score is, by training as in `score_change`; None where one has no
    logarithm."""
    sign = 1 if baseline.lower_is_better else -1
    scores = [(before, after) for before, after in zip(baseline.scores, variant.scores, strict=True)]
    if any(score is None or score <= 0 for pair in scores for score in pair):
        return None
    ratios = [sign * math.log(before / after) for before, after in scores if before and after]
    return Mean(statistics.fmean(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios)), len(ratios) - 1.0)


def product(first: Mean, second: Mean) -> Mean:
    """ln of the product of two ratios that were measured apart; freedom after Welch and Satterthwaite."""
    variances = first.error**2, second.error**2
    unsure = math.fsum(v**2 / mean.freedom for v, mean in zip(variances, (first, second), strict=True))
    total = math.fsum(variances)
    return Mean(first.mean + second.mean, math.sqrt(total), total**2 / unsure if unsure else math.inf)


def _expected(steps: Sequence[int], reached: Sequence[bool]) -> float:
    return sum(steps) / max(sum(reached), NEXT_TO_NONE)


def _without(values: Sequence[T], left_out: int | None) -> list[T]:
    return [value for number, value in enumerate(values) if number != left_out]
