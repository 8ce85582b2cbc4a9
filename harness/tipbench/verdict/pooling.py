"""What the runs of one machine say together: each run is one draw of its day, so runs are the highest replicates.

Between two complete runs of one machine, hours apart, effects of equal code differed by more than their launches
explain: small ones by 0.4 to 1 %, large ones by 2 to 5 % of themselves. One run cannot show that, so it is assumed
until there are several.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

SURE = 0.95
"""Probability from which on a state is taken."""

STAYS = 0.80
"""Probability down to which a state that an earlier run gave is kept, so that one at the edge does not change with
every run."""

PRIOR_FREEDOM = 4.0
"""Degrees of freedom that the assumed spread between runs is worth."""

LEAST_DEVIATION = 5e-4
"""Of a launch: nothing here is known better."""


@dataclass(frozen=True)
class Mean:
    """freedom: degrees of freedom that its standard error was estimated with, not always whole; infinite where it is
    known."""

    mean: float
    error: float
    freedom: float

    @classmethod
    def of_interval(cls, low: float, high: float, freedom: float) -> Mean:
        """With the error that gives this interval at 95 %, whatever level it was made at: an interval that had to be
        wider, as the measurement stopped as soon as it could decide, stays so."""
        return cls((low + high) / 2, (high - low) / 2 / float(stdtrit(freedom, 0.975)), freedom)

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


@dataclass(frozen=True)
class Spread:
    """What is assumed of the spread between runs: variance = small^2 + (share * effect)^2."""

    small: float
    share: float = 0.0


TIMES = Spread(0.007, 0.05)
"""Of ln speedup: runs of equal code differ by 0.4 to 1 %, and by 2 to 5 % of the effect."""


@dataclass(frozen=True)
class State:
    """What is known of one effect. word: "gain", "loss", "within" or "open". bound: of within, the least that holds,
    as a share."""

    word: str
    bound: float = 0.0


OPEN = State("open")


def pooled(runs: Sequence[Mean], spread: Spread) -> Mean:
    """One mean of the same effect in several runs of one machine. Raises ValueError where there is none.

    The variance between runs is `spread`, worth PRIOR_FREEDOM, and what the runs show themselves; each run then
    counts by its own variance and this one (DerSimonian and Laird 1986), and Welch and Satterthwaite give the degrees
    of freedom, but never more than the runs have together: so no run's interval becomes narrower by what is assumed.
    Simulated: `tests/test_pooling.py`.
    """
    if not runs:
        raise ValueError("no runs to pool")
    count = len(runs)
    launches = [run.freedom + 1 if math.isfinite(run.freedom) else 1.0 for run in runs]
    typical = math.fsum(run.mean * n for run, n in zip(runs, launches, strict=True)) / math.fsum(launches)
    centre = math.fsum(run.mean for run in runs) / count
    own = [max(run.error, LEAST_DEVIATION / math.sqrt(n)) ** 2 for run, n in zip(runs, launches, strict=True)]
    apart = math.fsum((run.mean - centre) ** 2 for run in runs) - (1 - 1 / count) * math.fsum(own)
    assumed = spread.small**2 + (spread.share * typical) ** 2
    freedom = PRIOR_FREEDOM + count - 1
    between = (PRIOR_FREEDOM * assumed + max(0.0, apart)) / freedom
    total = math.fsum(1 / (one + between) for one in own)
    weights = [1 / (one + between) / total for one in own]
    mean = math.fsum(weight * run.mean for weight, run in zip(weights, runs, strict=True))
    unsure = math.fsum((w**2 * one) ** 2 / run.freedom for w, one, run in zip(weights, own, runs, strict=True))
    unsure += (between * math.fsum(w**2 for w in weights)) ** 2 / freedom
    return Mean(mean, math.sqrt(1 / total), min(total**-2 / unsure, math.fsum(run.freedom for run in runs)))


def state(runs: Sequence[Mean], spread: Spread, margin: float, bounds: Sequence[float]) -> State:
    """What runs, in the order they were made, say of an effect by now; OPEN of none.

    margin: effects within +-margin are of no practical size. bounds: rising shares, either way, that are tried for an
    effect which is neither gain nor loss.
    """
    found = OPEN
    for count in range(1, len(runs) + 1):
        found = _next(found, pooled(runs[:count], spread), margin, bounds)
    return found


def _next(before: State, mean: Mean, margin: float, bounds: Sequence[float]) -> State:
    if before.word in ("gain", "loss") and _probability(before, mean, margin) >= STAYS:
        return before
    states = (State("gain"), State("loss"), *(State("within", bound) for bound in bounds))
    sure = next((one for one in states if _probability(one, mean, margin) >= SURE), None)
    if before.word == "within" and _probability(before, mean, margin) >= STAYS:
        return sure if sure is not None and sure.word == "within" and sure.bound < before.bound else before
    return sure or OPEN


def _probability(wanted: State, mean: Mean, margin: float) -> float:
    if wanted.word == "gain":
        return mean.above(margin)
    if wanted.word == "loss":
        return 1 - mean.above(-margin)
    bound = math.log1p(wanted.bound)
    return mean.above(-bound) - mean.above(bound)
