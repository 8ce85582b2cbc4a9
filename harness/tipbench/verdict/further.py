"""How many more launches a verdict is expected to need, from the launches so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import fmean, median

from tipbench.verdict.rules import BOUND, MARGIN
from tipbench.verdict.statistics import Looks, half_width

PRIOR = 1.0
"""Degrees of freedom of the suite's median variance, next to the n - 1 of a variant's own (harness/decisions.md, "Prior
for the spread of launches")."""


def usual_variance(suite: Iterable[Sequence[float]]) -> float:
    """The median of the variances of all variants' effects (log ratios); 0 where none has two launches."""
    variances = [_variance(effects) for effects in suite if len(effects) > 1]
    return median(variances) if variances else 0.0


def launches_left(effects: Sequence[float], usual: float, looks: Looks) -> float:
    """Launches until the first interim look whose interval would decide if the mean stays; infinite without one.

    effects: of one variant, in the launches so far (log ratios). usual: as `usual_variance` has it.
    """
    if not effects:
        return math.inf
    size, spread = abs(fmean(effects)), _spread(effects, usual)
    most = max(size - MARGIN, BOUND - size)  # an effect within the margin is within the bound too
    decisive = (look for look, half in _halves(looks) if look > len(effects) and half * spread < most)
    return next(decisive, math.inf) - len(effects)


def _spread(effects: Sequence[float], usual: float) -> float:
    """Standard deviation of a launch's effect. The variance is shrunk towards the usual one, so that two launches that
    agree by chance do not seem to promise an early verdict."""
    freedom = len(effects) - 1
    own = _variance(effects) if freedom else 0.0
    return math.sqrt((PRIOR * usual + freedom * own) / (PRIOR + freedom))


def _variance(effects: Sequence[float]) -> float:
    mean = fmean(effects)
    return math.fsum((effect - mean) ** 2 for effect in effects) / (len(effects) - 1)


@lru_cache
def _halves(looks: Looks) -> tuple[tuple[int, float], ...]:
    """(launches, half width of the interval at a spread of 1) of each interim look."""
    return tuple((n, half_width(1.0, n, alpha)) for n, alpha in zip(looks.launches, looks.alphas, strict=True))
