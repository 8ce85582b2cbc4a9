"""Pure functions from block seconds to an interval: no torch, no files, no clock.

All effects are differences of natural logarithms, ln t_baseline - ln t_optimized: positive means the
optimized side is faster, and +0.01 is about +1 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scipy.special import stdtr, stdtrit


@dataclass(frozen=True)
class Looks:
    """The interim looks at the data. The chance that any of their intervals misses the truth is at most the sum of the
    alphas (Bonferroni); if that is more than 5 %, they were calibrated together, by simulation.

    Attributes:
        launches: increasing counts of launches.
        alphas: two-sided error of the interval at each.
    """

    launches: tuple[int, ...]
    alphas: tuple[float, ...]


@dataclass(frozen=True)
class Serial:
    """Whether consecutive launches are correlated, over many pairs together: one alone has no power.

    Attributes:
        z: of the pairs' ratios (`serial`): standard normal if launches are independent, below 0 if they are alike.
        correlation: of a launch with the next, on average.
        pairs: how many the two are made of.
    """

    z: float
    correlation: float
    pairs: int

    @property
    def widening(self) -> float:
        """Factor for every half width; 1 if z is not below ALIKE. See "Correlated launches" in harness/decisions.md."""
        return math.sqrt((1 + self.correlation) / (1 - self.correlation)) if self.z < ALIKE else 1.0


ALIKE = -2.0
"""Below this z of `Serial` intervals are widened; by chance alone that happens once in 40 runs."""

LEAST_SERIAL = 6
"""Fewest launches of a pair that `serial` counts."""


@dataclass(frozen=True)
class Estimate:
    """A mean over launches with its interval, as natural logarithms.

    Attributes:
        mean, low, high: of the effect.
        launches: how many.
        alpha: two-sided error of the interval.
        deviation: standard deviation of a launch.
    """

    mean: float
    low: float
    high: float
    launches: int
    alpha: float
    deviation: float


def trimmed_mean(values: Sequence[float], share: float = 0.2) -> float:
    """Mean without the lowest and highest `share` (rounded down) of the values.

    Tukey's 20 % keeps 96 % of the mean's efficiency on clean data and ignores a fifth of spikes.
    Raises ValueError on an empty sequence.
    """
    if not values:
        raise ValueError("no values to average")
    drop = int(len(values) * share)
    inner = sorted(values)[drop : len(values) - drop]
    return math.fsum(inner) / len(inner)


def round_effect(baseline: Sequence[float], optimized: Sequence[float]) -> float:
    """The effect in one round: mean ln baseline - mean ln optimized, of its blocks' seconds."""
    return math.fsum(map(math.log, baseline)) / len(baseline) - math.fsum(map(math.log, optimized)) / len(optimized)


def estimate(launch_effects: Sequence[float], alpha: float) -> Estimate:
    """Student-t interval at two-sided error `alpha` over launch effects. Raises ValueError under 2."""
    count = len(launch_effects)
    if count < 2:
        raise ValueError("an interval needs at least 2 launches")
    mean = math.fsum(launch_effects) / count
    deviation = math.sqrt(math.fsum((effect - mean) ** 2 for effect in launch_effects) / (count - 1))
    half = half_width(deviation, count, alpha)
    return Estimate(mean, mean - half, mean + half, count, alpha, deviation)


def half_width(deviation: float, count: int, alpha: float) -> float:
    """Of the Student-t interval at two-sided error `alpha`, from `count` launches of this deviation."""
    return float(stdtrit(count - 1, 1 - alpha / 2)) * deviation / math.sqrt(count)


PRIOR = 5.0
"""Of `provisional`: the variance over that of a launch with which effects are expected to differ from the truth."""


def provisional(launch_effects: Sequence[float], alpha: float = 0.05) -> tuple[float, float | None]:
    """(mean, half width of an interval that holds at every count of launches at once, or None).

    The t-test's mixture over a normal effect, which is valid at any number of looks (Wang and Ramdas 2025). At 5 % it
    exists from 4 launches on. Raises ValueError if there are none.
    """
    if len(launch_effects) == 1:
        return launch_effects[0], None
    result = estimate(launch_effects, alpha)
    count, spread = result.launches, 1 + result.launches * PRIOR
    ratio = (math.sqrt(spread) / alpha) ** (2 / count)
    if ratio >= spread:
        return result.mean, None
    return result.mean, result.deviation * math.sqrt((count - 1) * (ratio - 1) / (count * (1 - ratio / spread)))


def p_beyond(result: Estimate, margin: float, total_alpha: float, power: float = 1.0) -> float:
    """p-value against "the effect is within +-margin", over all looks.

    Twice the t tail beyond the nearer edge over the look's alpha, to the given power, times total_alpha: below
    total_alpha exactly when the interval excludes the margin. With power 1 that is the weighted Bonferroni;
    alphas that were calibrated together add up to more, and a power below 1 keeps small p-values honest.
    """
    distance = abs(result.mean) - margin
    if distance <= 0:
        return 1.0
    if result.deviation == 0:
        return 0.0
    tail = float(stdtr(result.launches - 1, -distance * math.sqrt(result.launches) / result.deviation))
    return min(1.0, total_alpha * math.pow(2 * tail / result.alpha, power))


def serial(pairs: Iterable[Sequence[float]]) -> Serial | None:
    """From the launch effects of each pair, in the order they ran; None if no pair has enough that differ.

    A pair's ratio is that of von Neumann (1941), sum (next - this)^2 / sum (this - mean)^2: of n independent normal
    effects its mean is 2 and its variance 4 (n - 2) / (n^2 - 1). Student's t over effects of correlation c between
    neighbours gives intervals that are too short by about sqrt((1 + c) / (1 - c)).
    """
    ratios, variances = [], []
    for effects in pairs:
        count = len(effects)
        if count < LEAST_SERIAL or min(effects) == max(effects):
            continue
        mean = math.fsum(effects) / count
        steps = math.fsum((after - before) ** 2 for before, after in pairwise(effects))
        ratios.append(steps / math.fsum((effect - mean) ** 2 for effect in effects))
        variances.append(4 * (count - 2) / (count**2 - 1))
    if not ratios:
        return None
    apart = math.fsum(ratio - 2 for ratio in ratios)
    return Serial(apart / math.sqrt(math.fsum(variances)), -apart / len(ratios) / 2, len(ratios))


def discoveries(p_values: Sequence[float], rate: float) -> list[bool]:
    """Which hypotheses Benjamini and Hochberg (1995) reject at false discovery rate `rate`."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    passed = [rank for rank, index in enumerate(order, 1) if p_values[index] <= rate * rank / len(p_values)]
    rejected = set(order[: max(passed, default=0)])
    return [index in rejected for index in range(len(p_values))]
