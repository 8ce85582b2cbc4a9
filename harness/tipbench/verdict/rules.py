"""The interim looks at launch effects, and what an interval decides at one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tipbench.verdict.statistics import Estimate, Looks, estimate, half_width, p_beyond

MARGIN = math.log(1.01)
"""Effects within +-1 % are of no practical size."""

BOUND = math.log(1.03)
"""An interval within +-3 % is an answer too: the effect is small, either way."""

AT_MOST = "at most 3 %"
"""That answer as a verdict."""

JOB_BOUND = math.log(1.05)
"""A whole job whose interval lies within +-5 % is not launched further: most of them truly lie at 1 to 4 %, where a
sharper answer takes 25 to 240 launches. Operations go on, as planted differences of 3 % must be found there."""

ERROR = 0.05
"""Two-sided error that all interim looks share."""


@dataclass(frozen=True)
class Rules:
    """How a comparison is judged.

    Attributes:
        looks: the interim looks, with the error of each.
        claim: most p-value of `faster` and `slower`.
        power: exponent that makes the p-value at a look one over all looks: see `p_beyond`.
    """

    looks: Looks
    claim: float
    power: float = 1.0


RULES = Rules(
    Looks(
        tuple(range(6, 19)),
        (0.0084, 0.0074, 0.0080, 0.0093, 0.0097, 0.0104, 0.0115, 0.0127, 0.0137, 0.0150, 0.0159, 0.0174, 0.0187),
    ),
    claim=0.01,
    power=0.89,
)
"""A look at every count of launches from 6 to 18, so that time never ends between two of them; the alphas and the power
were calibrated together by simulation: see "The rules of verdicts" in harness/decisions.md."""

CALMER = 0.6
"""Share of the spread observed so far that the launches to come are assumed to have before a variant is stopped early:
see "The rules of verdicts" in harness/decisions.md."""


def p_of(result: Estimate, rules: Rules) -> float:
    """p-value over all looks against "the effect is within +-MARGIN"."""
    return p_beyond(result, MARGIN, ERROR, rules.power)


LEAST_ERROR = 1e-4
"""Floor of a standard error, in ln: nothing is measured to better than 0.01 %."""


def standard_error(result: Estimate) -> float:
    """Of its mean, over launches."""
    return max(result.deviation / math.sqrt(result.launches), LEAST_ERROR)


def decide(result: Estimate, rules: Rules) -> str:
    """The verdict by practical size that an interval supports, at its look."""
    sure = p_of(result, rules) <= rules.claim
    if result.low > MARGIN and sure:
        return "faster"
    if result.high < -MARGIN and sure:
        return "slower"
    if result.low > -MARGIN and result.high < MARGIN:
        return "no difference"
    beyond = result.low > MARGIN or result.high < -MARGIN
    if not beyond and result.low > -BOUND and result.high < BOUND:
        return AT_MOST
    return "inconclusive"


def first_decision(launch_effects: Sequence[float], rules: Rules) -> Estimate | None:
    """The estimate at the first look that decides, else at the last look reached; None before any."""
    result = None
    for count, alpha in zip(rules.looks.launches, rules.looks.alphas, strict=True):
        if count > len(launch_effects):
            break
        result = estimate(launch_effects[:count], alpha)
        if decide(result, rules) != "inconclusive":
            break
    return result


def futile(effects: Sequence[float], rules: Rules) -> bool:
    """Whether all launches would hardly decide what these have not, as statisticians call it; False between the looks.

    Computed for the last look, with CALMER launches and a mean up to one standard error from the present one.
    To stop here costs no coverage: nothing is claimed.
    """
    looks = rules.looks
    if len(effects) not in looks.launches:
        return False
    last, alpha = looks.launches[-1], looks.alphas[-1]
    now = estimate(effects, alpha)
    deviation, error = CALMER * now.deviation, now.deviation / math.sqrt(now.launches)
    half = half_width(deviation, last, alpha)
    means = [now.mean + shift * error for shift in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    then = [Estimate(mean, mean - half, mean + half, last, alpha, deviation) for mean in means]
    return all(decide(result, rules) == "inconclusive" for result in then)
