"""What the runs of one machine say together: each run is one draw of its day, so runs are the highest replicates.

One run cannot show the spread between runs, so it is assumed until there are several: see "The spread between runs" in
harness/decisions.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tipbench.verdict.statistics import Mean

LEAST_PROBABILITY = 0.95
"""Least probability at which a state is taken."""

STAYS = 0.80
"""Least probability at which the state of earlier runs stays, so that a close one does not change with every run."""

PRIOR_FREEDOM = 4.0
"""Degrees of freedom of the assumed spread between runs."""

LEAST_DEVIATION = 5e-4
"""Floor for the standard deviation of a launch, in ln."""


@dataclass(frozen=True)
class Spread:
    """The assumed spread between runs: variance = small^2 + (share * effect)^2.

    Attributes:
        small: standard deviation of small effects.
        share: standard deviation of large effects, as a share of them.
    """

    small: float
    share: float = 0.0


TIMES = Spread(0.007, 0.05)
"""Of ln speedup."""


@dataclass(frozen=True)
class State:
    """What runs say of an effect.

    Attributes:
        word: "gain", "loss", "within" or "open".
        bound: of "within", the smallest bound that holds, as a share.
    """

    word: str
    bound: float = 0.0


OPEN = State("open")


def pool_runs(runs: Sequence[Mean], spread: Spread) -> Mean:
    """One mean of the same effect in several runs of one machine. Raises ValueError if there are none.

    The variance between runs is `spread`, worth PRIOR_FREEDOM, and what the runs show themselves; each run then
    counts by its own variance and this one (DerSimonian and Laird 1986), and Welch and Satterthwaite give the degrees
    of freedom, but never more than the runs have together: so the assumption makes no run's interval narrower.
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
    total = math.fsum(1 / (variance + between) for variance in own)
    weights = [1 / (variance + between) / total for variance in own]
    mean = math.fsum(weight * run.mean for weight, run in zip(weights, runs, strict=True))
    unsure = math.fsum(
        (w**2 * variance) ** 2 / run.freedom for w, variance, run in zip(weights, own, runs, strict=True)
    )
    unsure += (between * math.fsum(w**2 for w in weights)) ** 2 / freedom
    freedom = min(total**-2 / unsure, math.fsum(run.freedom for run in runs))
    return Mean(mean, math.sqrt(1 / total), freedom)


def state(
    runs: Sequence[Mean], spread: Spread, margin: float, bounds: Sequence[float], wide: Sequence[float] = ()
) -> State:
    """What runs, in the order they were made, say of an effect; OPEN if there are none.

    margin: effects within +-margin are of no practical size. bounds: rising shares that are tried, either way, for an
    effect that is neither gain nor loss. wide: further ones, tried where all runs leave the effect open, so that a
    later run replaces what they say.
    """
    current = OPEN
    for count in range(1, len(runs) + 1):
        current = _next(current, pool_runs(runs[:count], spread), margin, bounds)
    if current != OPEN or not runs:
        return current
    mean = pool_runs(runs, spread)
    likely = (State("within", bound) for bound in wide)
    return next((bounded for bounded in likely if _probability(bounded, mean, margin) >= LEAST_PROBABILITY), OPEN)


def _next(before: State, mean: Mean, margin: float, bounds: Sequence[float]) -> State:
    if before.word in ("gain", "loss") and _probability(before, mean, margin) >= STAYS:
        return before
    # A gain or a loss must be seen in the interval beside it, too: "use it" at 1.54x [0.95, 2.51] convinces nobody.
    low, high = mean.interval()
    beyond = [State("gain")] * (low > 0) + [State("loss")] * (high < 0)
    states = (*beyond, *(State("within", bound) for bound in bounds))
    sure = next((state for state in states if _probability(state, mean, margin) >= LEAST_PROBABILITY), None)
    if before.word == "within" and _probability(before, mean, margin) >= STAYS:
        return sure if sure is not None and sure.word == "within" and sure.bound < before.bound else before
    return sure or OPEN


def _probability(state: State, mean: Mean, margin: float) -> float:
    if state.word == "gain":
        return mean.above(margin)
    if state.word == "loss":
        return 1 - mean.above(-margin)
    bound = math.log1p(state.bound)
    return mean.above(-bound) - mean.above(bound)
