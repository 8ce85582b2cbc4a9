"""From the counted trainings of both sides: how many steps the target takes, failures included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from tipbench.records.trainings import Trainings
from tipbench.verdict.statistics import Mean, squares, student

NEXT_TO_NONE = 0.5
"""What counts as the number of successes if there are none: the next training might be the first."""


def expected_steps(trainings: Trainings) -> float:
    """Optimizer steps to the target for somebody who starts anew after each failure: the steps of all trainings over
    the number that reach it. The expected running time of Hansen et al. (COCO, 2009)."""
    return sum(trainings.steps) / max(sum(trainings.reached), NEXT_TO_NONE)


def fewer_steps(baseline: Trainings, variant: Trainings) -> Mean:
    """ln of the timed steps to the target that the baseline is expected to take, over those of the variant.

    Both sides have the same seeds. The error is the jackknife's, which leaves out one seed of both sides at a time: see
    "Intervals of counted trainings" in harness/decisions.md.
    """
    count = len(baseline.seeds)

    def ratio(numbers: Sequence[int]) -> float:
        before, after = (expected_steps(_of_seeds(side, numbers)) / side.steps_timed for side in (baseline, variant))
        return math.log(before / after)

    without = [ratio(numbers) for numbers in combinations(range(count), count - 1)]
    variance = (count - 1) / count * squares(without)
    # By chance alone all of a few trainings may take equally many steps.
    return Mean(ratio(range(count)), max(math.sqrt(variance), 1 / (100 * math.sqrt(count))), count - 1.0)


def _of_seeds(side: Trainings, numbers: Sequence[int]) -> Trainings:
    """The trainings from the seeds of these numbers alone."""
    reached = tuple(side.reached[number] for number in numbers)
    return replace(side, steps=tuple(side.steps[number] for number in numbers), reached=reached)


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
    return student(changes)


def better_score(baseline: Trainings, variant: Trainings) -> Mean | None:
    """ln of how many times better the variant's score is, by training as in `score_change`; None where one has no
    logarithm."""
    sign = 1 if baseline.lower_is_better else -1
    scores = [(before, after) for before, after in zip(baseline.scores, variant.scores, strict=True)]
    if any(score is None or score <= 0 for pair in scores for score in pair):
        return None
    return student([sign * math.log(before / after) for before, after in scores if before and after])


def product(first: Mean, second: Mean) -> Mean:
    """ln of the product of two ratios that were measured apart; freedom after Welch and Satterthwaite."""
    variances = first.error**2, second.error**2
    unsure = math.fsum(v**2 / mean.freedom for v, mean in zip(variances, (first, second), strict=True))
    total = math.fsum(variances)
    return Mean(first.mean + second.mean, math.sqrt(total), total**2 / unsure if unsure else math.inf)
