"""By which rules launch effects become a verdict: when they are looked at, and what an interval then decides.

A run's rules are fixed before it begins and named in its options, so a stored run is judged by those it was made
with, however the rules of new runs change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tipbench.verdict.statistics import Estimate, Looks, estimate, half_width, p_beyond

MARGIN = math.log(1.01)
"""Effects within +-1 % are of no practical size."""

BOUND = math.log(1.03)
"""An interval within +-3 % is an answer too, by rules that have it: whatever the effect is, it is a small one."""

AT_MOST = "at most 3 %"
"""That answer as a verdict; it holds either way."""

ERROR = 0.05
"""The error that all looks share."""


@dataclass(frozen=True)
class Rules:
    """looks: when the effects are looked at, at what error. claim: most p-value of `faster` and `slower`.

    power: how the p-value at a look becomes one of all looks, as `p_beyond` has it. bounded: whether AT_MOST is a
    verdict. timed: the run ends when its time is up, so a pair may be left open: it is then said to be so, with a
    provisional number below the first look. guarded: whether the suite's intervals are widened where launches that
    follow each other are alike.
    """

    looks: Looks
    claim: float
    power: float = 1.0
    bounded: bool = False
    timed: bool = False
    guarded: bool = False


FULL = Rules(Looks((4, 6, 9, 13, 18), (0.002, 0.005, 0.01, 0.014, 0.019)), claim=0.005)
QUICK = Rules(Looks((4, 6), (0.005, 0.045)), claim=0.005)
"""The first rules, one set a profile. Their alphas add up to 5 % (Bonferroni). A claim needs p <= 0.005: where launches
differ by far more than the margin, as on a busy machine, the interval alone would call one pair in twenty of identical
code faster or slower; so it is one in 200."""

RULES_2 = Rules(
    Looks(
        tuple(range(6, 19)),
        (0.0084, 0.0074, 0.0080, 0.0093, 0.0097, 0.0104, 0.0115, 0.0127, 0.0137, 0.0150, 0.0159, 0.0174, 0.0187),
    ),
    claim=0.01,
    power=0.89,
    bounded=True,
    timed=True,
    guarded=True,
)
"""The rules of new runs, one set for both profiles: a look at every count of launches from 6 to 18, so that time never
ends between two of them. The alphas add up to far more than 5 %, as they are not Bonferroni's: looks at the same
growing data miss the truth together. They were calibrated by simulation, so that in 5 % of 200,000 paths of normal
effects any interval misses; so was the power of the p-value over all looks. Simulated anew: 5.06 % miss, and p-values
up to 0.05, 0.01 and 0.001 are met in 5.06, 1.03 and 0.09 %."""

OF_NEW_RUNS = {"rules": 2}
"""What the options of a run say of its rules where it is judged by RULES_2."""

EARLY = 6
"""A look before so many launches is early: it may only decide what is far above the noise. Launches fall
into modes, and one in eight groups of four lies in one mode of two: their own spread then says nothing."""

EARLY_HALF = 0.03
"""Least half width of an early interval, so that it holds the mean of two modes up to 6 % apart."""

EARLY_HALF_MOST = 0.05
"""Most half width at which an early interval decides: its size is reported too, and must mean something."""

FAR = 0.10
"""An early interval decides when it lies wholly beyond this."""

CALMER = 0.6
"""Of the spread seen so far: what the launches to come are granted before a variant is stopped early. Replayed on
the 716 comparisons of four calibrations and a complete run it stops 99, of which none was decided in the end, and
saves 953 launches; 0.7 would lose 2 that were, 1.0 would lose 18."""


def rules_of(options: Mapping[str, Any]) -> Rules:
    """The rules that a run with these options was made with."""
    if options.get("rules") == 2:
        return RULES_2
    return QUICK if options.get("profile") == "quick" else FULL


def p_of(found: Estimate, rules: Rules) -> float:
    """p-value over all looks against "the effect is within the margin"."""
    return p_beyond(found, MARGIN, ERROR, rules.power)


EARLY_ERROR = EARLY_HALF / 2
"""Least standard error of a mean of fewer than EARLY launches, whose own spread says nothing: their interval is widened
to EARLY_HALF on either side, and of a 95 % interval half that is the standard error."""

LEAST_ERROR = 1e-4
"""Least standard error of all: nothing here is known to better than 0.01 %."""


def standard_error(found: Estimate) -> float:
    """Of its mean, over launches."""
    return max(found.deviation / math.sqrt(found.launches), EARLY_ERROR if found.launches < EARLY else LEAST_ERROR)


def decide(found: Estimate, rules: Rules) -> str:
    """The verdict by practical size that an interval supports, at its look."""
    half = (found.high - found.low) / 2
    if found.launches < EARLY and not (half <= EARLY_HALF_MOST and abs(found.mean) - half > FAR):
        return "inconclusive"
    sure = p_of(found, rules) <= rules.claim
    if found.low > MARGIN and sure:
        return "faster"
    if found.high < -MARGIN and sure:
        return "slower"
    if found.low > -MARGIN and found.high < MARGIN:
        return "no difference"
    beyond = found.low > MARGIN or found.high < -MARGIN
    if rules.bounded and not beyond and found.low > -BOUND and found.high < BOUND:
        return AT_MOST
    return "inconclusive"


def first_decision(launch_effects: Sequence[float], rules: Rules) -> Estimate | None:
    """The estimate at the first look that decides, else at the last look reached; None before any."""
    found = None
    for count, alpha in zip(rules.looks.launches, rules.looks.alphas, strict=True):
        if count > len(launch_effects):
            break
        found = estimate(launch_effects[:count], alpha)
        if count < EARLY:
            half = max(found.high - found.mean, EARLY_HALF)
            found = replace(found, low=found.mean - half, high=found.mean + half)
        if decide(found, rules) != "inconclusive":
            break
    return found


def futile(effects: Sequence[float], rules: Rules) -> bool:
    """Whether all launches would hardly decide what these have not, as statisticians call it; False between the looks,
    and before EARLY.

    Computed for the last look, with CALMER launches and a mean up to one standard error from the present one.
    To stop here costs no coverage: nothing is claimed. By RULES_2, replayed on the 247 stored comparisons that have
    all 18 launches, it stops 45 before the last, of which none was decided in the end.
    """
    looks = rules.looks
    if len(effects) < EARLY or len(effects) not in looks.launches:
        return False
    last, alpha = looks.launches[-1], looks.alphas[-1]
    now = estimate(effects, alpha)
    deviation, error = CALMER * now.deviation, now.deviation / math.sqrt(now.launches)
    half = half_width(deviation, last, alpha)
    means = [now.mean + shift * error for shift in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    then = [Estimate(mean, mean - half, mean + half, last, alpha, deviation) for mean in means]
    return all(decide(found, rules) == "inconclusive" for found in then)
