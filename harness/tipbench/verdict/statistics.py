"""Pure functions from block seconds to a mean with its error: no torch, no files, no clock.

All effects are differences of natural logarithms, ln t_baseline - ln t_optimized: positive means the
optimized side is faster, and +0.01 is about +1 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

SHARE = 0.2
"""Of the values, how many a trimmed mean leaves out at either end: it keeps 96 % of the mean's efficiency on clean data
and ignores a fifth of spikes (Tukey)."""


@dataclass(frozen=True)
class Mean:
    """A mean with its standard error.

    Attributes:
        mean: as the caller has it; of speedups the natural logarithm.
        error: its standard error.
        freedom: degrees of freedom of the error, not always whole; infinite if the error is exact.
    """

    mean: float
    error: float
    freedom: float

    def interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """Student's, at two-sided error `alpha`."""
        half = float(stdtrit(self.freedom, 1 - alpha / 2)) * self.error
        return self.mean - half, self.mean + half

    def p_beyond(self, margin: float) -> float:
        """p-value against "the truth lies within +-margin": twice the t tail beyond the nearer edge."""
        distance = abs(self.mean) - margin
        return 1.0 if distance <= 0 else min(1.0, 2 * float(stdtr(self.freedom, -distance / self.error)))

    def above(self, bound: float) -> float:
        """Probability that the truth lies above `bound`, by Student's t around the mean."""
        return float(stdtr(self.freedom, (self.mean - bound) / self.error))


def trimmed_mean(values: Sequence[float]) -> float:
    """Mean without the lowest and highest SHARE (rounded down) of the values. Raises ValueError if there are none."""
    if not values:
        raise ValueError("no values to average")
    inner = sorted(values)[_trimmed(values) : len(values) - _trimmed(values)]
    return math.fsum(inner) / len(inner)


def error_of_trimmed(values: Sequence[float]) -> float:
    """Standard error of the trimmed mean, after Yuen (1974): from the values with the trimmed ones set to the nearest
    that is left. 0 for a single value, which does not show its spread."""
    count, trimmed = len(values), _trimmed(values)
    if count < 2:
        return 0.0
    ordered = sorted(values)
    ordered[:trimmed] = [ordered[trimmed]] * trimmed
    ordered[count - trimmed :] = [ordered[count - trimmed - 1]] * trimmed
    left = count - 2 * trimmed
    return math.sqrt(squares(ordered) / (left * max(1, left - 1)))


def _trimmed(values: Sequence[float]) -> int:
    return int(len(values) * SHARE)


def squares(values: Sequence[float]) -> float:
    """The sum of the squared distances from the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def student(values: Sequence[float]) -> Mean:
    """The mean of independent values, by what they show of their spread alone. Raises ValueError under 2."""
    count = len(values)
    if count < 2:
        raise ValueError("a mean's error needs at least 2 values")
    return Mean(math.fsum(values) / count, math.sqrt(squares(values) / (count - 1) / count), count - 1.0)


def round_effect(baseline: Sequence[float], optimized: Sequence[float]) -> float:
    """The effect in one round: mean ln baseline - mean ln optimized, of its blocks' seconds."""
    return math.fsum(map(math.log, baseline)) / len(baseline) - math.fsum(map(math.log, optimized)) / len(optimized)


def difference(old: Mean, new: Mean) -> Mean:
    """new - old, of independent means (Welch), with the degrees of freedom of Welch and Satterthwaite."""
    variances = old.error**2, new.error**2
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / old.freedom + variances[1] ** 2 / new.freedom)
    return Mean(new.mean - old.mean, math.sqrt(sum(variances)), freedom)


FALSE_DISCOVERY_RATE = 0.05
"""Share of wrong ones that is expected at most among the differences that are claimed of two runs or machines."""


def discoveries(p_values: Sequence[float], rate: float) -> list[bool]:
    """Which hypotheses Benjamini and Hochberg (1995) reject at false discovery rate `rate`."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    passed = [rank for rank, index in enumerate(order, 1) if p_values[index] <= rate * rank / len(p_values)]
    rejected = set(order[: max(passed, default=0)])
    return [index in rejected for index in range(len(p_values))]
