"""What counted trainings of two sides say: how many steps the target takes, failures included."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TypeVar

from tipbench.records.record import Trainings
from tipbench.verdict.pooling import Mean

T = TypeVar("T")

NEXT_TO_NONE = 0.5
"""Successes, where there is none: of so many trainings at least one would be expected soon."""


def expected_steps(found: Trainings) -> float:
    """Optimizer steps until the target is reached by somebody who starts anew after each failure: those of all
    trainings, over how many of them reach it. The expected running time of Hansen et al. (COCO, 2009)."""
    return _expected(found.steps, found.reached)


def fewer_steps(baseline: Trainings, variant: Trainings) -> Mean:
    """ln of the timed steps to the target that the baseline is expected to take, over those of the variant.

    Its error is the jackknife's, which leaves out one seed of both sides at a time. Both are of the same seeds. In
    simulations of 16 seeds the interval of 95 % held the truth in 94 %, where every tenth training failed in 82 %: so
    few seeds may see no failure, or two.
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
    variance = (count - 1) / count * math.fsum((one - middle) ** 2 for one in without)
    # By chance alone all of a few trainings may take equally many steps.
    return Mean(ratio(None), max(math.sqrt(variance), 1 / (100 * math.sqrt(count))), count - 1.0)


def score_change(baseline: Trainings, variant: Trainings) -> Mean | None:
    """Of the score in the end, from the baseline to the variant; None where a training ended in no number. Both are of
    the same seeds, so it is Student's t over the differences of each."""
    changes = [
        after - before
        for before, after in zip(baseline.scores, variant.scores, strict=True)
        if before is not None and after is not None
    ]
    if len(changes) < max(2, len(baseline.scores)):
        return None
    return Mean(statistics.fmean(changes), statistics.stdev(changes) / math.sqrt(len(changes)), len(changes) - 1.0)


def both(first: Mean, second: Mean) -> Mean:
    """Of the product of two ratios that were measured apart; freedom after Welch and Satterthwaite."""
    variances = first.error**2, second.error**2
    unsure = math.fsum(one**2 / of.freedom for one, of in zip(variances, (first, second), strict=True))
    total = math.fsum(variances)
    return Mean(first.mean + second.mean, math.sqrt(total), total**2 / unsure if unsure else math.inf)


def _expected(steps: Sequence[int], reached: Sequence[bool]) -> float:
    return sum(steps) / max(sum(reached), NEXT_TO_NONE)


def _without(values: Sequence[T], left_out: int | None) -> list[T]:
    return [value for number, value in enumerate(values) if number != left_out]
