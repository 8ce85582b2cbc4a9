"""Means with standard errors, and what is done with several of them: pure functions.

All means are of ln t_baseline - ln t_variant, as in `tipbench.verdict.statistics`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import fdtrc

from tipbench.verdict.statistics import Mean


def p_of_equal(means: Sequence[Mean]) -> float:
    """The p-value of two means or more that differ by no more than their errors explain.

    Welch (1951): Cochran's Q / (k - 1), corrected for errors that are themselves estimated from few launches, against
    F. Q alone against chi-squared takes the errors as known; with 4 to 18 launches each that rejects too often. For
    two means this is Welch's t test.
    """
    count = len(means)
    weights = [mean.error**-2 for mean in means]
    total = math.fsum(weights)
    centre = math.fsum(weight * mean.mean for weight, mean in zip(weights, means, strict=True)) / total
    q = math.fsum(weight * (mean.mean - centre) ** 2 for weight, mean in zip(weights, means, strict=True))
    unsure = math.fsum((1 - weight / total) ** 2 / mean.freedom for weight, mean in zip(weights, means, strict=True))
    f = q / (count - 1) / (1 + 2 * (count - 2) / (count**2 - 1) * unsure)
    return float(fdtrc(count - 1, (count**2 - 1) / (3 * unsure), f))


def difference(old: Mean, new: Mean) -> Mean:
    """new - old, of independent means (Welch), with the degrees of freedom of Welch and Satterthwaite."""
    variances = old.error**2, new.error**2
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / old.freedom + variances[1] ** 2 / new.freedom)
    return Mean(new.mean - old.mean, math.sqrt(sum(variances)), freedom)
