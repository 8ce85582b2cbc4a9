"""What an estimate decides."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tipbench.verdict.statistics import Mean

MARGIN = math.log(1.01)
"""Effects within +-1 % are of no practical size."""

BOUND = math.log(1.03)
"""An interval within +-3 % is an answer too: the effect is small, either way."""

AT_MOST = "at most 3 %"
"""That answer as a verdict."""

JOB_BOUND = math.log(1.05)
"""A whole job whose interval lies within +-5 % is not launched further: most of them truly lie at 1 to 4 %, where a
sharper answer takes 25 to 240 launches. Operations go on, as planted differences of 3 % must be found there."""

MOST_DOUBT = 0.0025
"""Most probability that the truth does not lie beyond the margin, of a claim that it does. A comparison is judged after
each launch: see "One estimate" in harness/decisions.md for how often something is claimed of identical code."""


@dataclass(frozen=True)
class Rules:
    """When a comparison gets no further launch, decided or not.

    Attributes:
        most: launches of a variant.
    """

    most: int = 18


RULES = Rules()


def decide(mean: Mean) -> str:
    """The verdict by practical size that an estimate supports."""
    if 1 - mean.above(MARGIN) <= MOST_DOUBT:
        return "faster"
    if mean.above(-MARGIN) <= MOST_DOUBT:
        return "slower"
    low, high = mean.interval()
    if low > -MARGIN and high < MARGIN:
        return "no difference"
    beyond = low > MARGIN or high < -MARGIN
    return AT_MOST if not beyond and low > -BOUND and high < BOUND else "inconclusive"


def launches_left(mean: Mean, count: int, rules: Rules) -> float:
    """Launches until the estimate is expected to decide, if the mean stays; infinite where it is not after the last.

    mean: of `count` launches.
    """
    for more in range(1, rules.most - count + 1):
        error = mean.error * math.sqrt(count / (count + more))
        if decide(Mean(mean.mean, error, mean.freedom + more)) != "inconclusive":
            return more
    return math.inf
