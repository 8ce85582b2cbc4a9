"""Which pairs get the next launches of a run: pure, without processes, a clock or files.

After one launch of every pair a launch goes where the fewest seconds are expected to bring a verdict. In simulated
runs of 30 minutes (`tests/test_simulated_rounds.py`) that decided 55 of 80 pairs rightly, where rounds over all pairs
decided 42, batches of ten 43 and the widest interval first 18; in 15 minutes 38, 0, 21 and 2; in an hour 59 or 60
each. Of its intervals 0.7 to 3.4 % missed the truth, by how much drifted, and at most 0.6 % of its verdicts were wrong.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median

from tipbench.verdict.rules import BOUND, MARGIN
from tipbench.verdict.statistics import Looks, half_width

FIRST = 1
"""Launches that every pair gets before any is preferred: it has a number then. With two, dear pairs take time for a
second that brings none an interval: where 80 pairs of median 3.2 and at most 28 s a launch had 18 minutes of launches,
27 were decided rightly, and 34 with one; with 25 minutes 39 and 41, with 50 as many."""

PRIOR = 1.0
"""Degrees of freedom that the suite's median variance counts, beside the n - 1 of a variant's own. Spreads of pairs
differ a lot: the standard deviation of their logarithms is 0.6 to 1.2 in stored runs, which is worth about one."""

EVERY = 4
"""Each so many-th launch goes to the pair with the most to gain from one, so that no pair starves."""

WHOLE_JOB = 3.0
"""Worth of a whole job's verdict, where that of an operation alone is worth one: a tip's answer rests on its whole
jobs, and they cost several times as much. Counted alike, a run of 30 minutes decided most operations and left half of
the jobs with one launch. Simulated with what the pairs of that run cost and 25 minutes of launches: 39 jobs and 39
operations, of which 15 and 27 were decided at a worth of 1, 18 and 24 at 2, 19 and 22 at 3, 18 and 21 at 5."""

UNANSWERED = 2.0
"""Times that, as long as no whole job of its tip is decided: a first one answers a tip, a second one says of how many
jobs that holds. Simulated with what the pairs of run 5917d0d7 cost and how their launches spread, and 18 minutes of
launches: 15 of 31 tips have a decided job in place of 13, with as many jobs decided (20 of 52) and fewer operations
alone, 5 in place of 14. With 3 or 5 as many tips have one, and fewer jobs, 18 and 17."""

LEAST_S = 1e-9
"""A launch is taken to cost no less, so that nothing is divided by zero."""


@dataclass(frozen=True)
class OpenPair:
    """A pair that further launches may decide.

    launches: how many it has. effects: by variant that is open, its effect in each launch that counts, in order.
    cost_s: expected seconds of its next launch, its share of preparing included. worth: of its verdict: what is worth
    twice as much may take twice as long.
    """

    name: str
    launches: int
    effects: Mapping[str, Sequence[float]]
    cost_s: float
    worth: float = 1.0


def next_group(
    open_pairs: Sequence[OpenPair], looks: Looks, size: int, left_s: float, last: str, draw: random.Random
) -> list[str]:
    """The pairs to be launched next, each once, in order; empty where nothing is open or nothing fits into left_s.

    last: the pair measured last, which does not begin the group unless no other can be launched.
    """
    place = sum(pair.launches for pair in open_pairs)
    seconds = _seconds_to_verdict(open_pairs, looks)
    group = _chosen(open_pairs, seconds, size, left_s, place)
    if group == [last]:
        others = [pair for pair in open_pairs if pair.name != last]
        group = _chosen(others, seconds, size, left_s, place) or group
    draw.shuffle(group)
    if group[1:] and group[0] == last:
        other = draw.randrange(1, len(group))
        group[0], group[other] = group[other], group[0]
    return group


def _chosen(pairs: Sequence[OpenPair], seconds: Mapping[str, float], size: int, left_s: float, place: int) -> list[str]:
    """Up to `size` pairs, the most urgent first, that fit into left_s together. place: launches of the run so far."""
    group: list[str] = []
    spent_s = 0.0
    while len(group) < size:
        fitting = [pair for pair in pairs if pair.name not in group and spent_s + pair.cost_s <= left_s]
        if not fitting:
            break
        best = _most_urgent(fitting, seconds, place + len(group))
        group.append(best.name)
        spent_s += best.cost_s
    return group


def _most_urgent(pairs: Sequence[OpenPair], seconds: Mapping[str, float], place: int) -> OpenPair:
    if early := [pair for pair in pairs if pair.launches < FIRST]:
        return min(early, key=lambda pair: (pair.launches, pair.cost_s))
    if place % EVERY == EVERY - 1:
        return max(pairs, key=_gain)
    return min(pairs, key=lambda pair: (seconds[pair.name], -_gain(pair)))


def _gain(pair: OpenPair) -> float:
    """The share of its intervals' half width that the next launch is expected to take off, per second.

    A share, as most is taken off the widest intervals, which are hardly ever decided: 1 or 2 verdicts of 55 fewer.
    """
    return (1 - math.sqrt(pair.launches / (pair.launches + 1))) * pair.worth / max(pair.cost_s, LEAST_S)


def _seconds_to_verdict(pairs: Sequence[OpenPair], looks: Looks) -> dict[str, float]:
    """Expected for the nearest of each pair's variants; infinite where no look is expected to decide any."""
    known = [_variance(effects) for pair in pairs for effects in pair.effects.values() if len(effects) > 1]
    usual = median(known) if known else 0.0
    found = {}
    for pair in pairs:
        nearest = min((_launches_left(effects, usual, looks) for effects in pair.effects.values()), default=math.inf)
        found[pair.name] = nearest * max(pair.cost_s, LEAST_S) / pair.worth
    return found


def _launches_left(effects: Sequence[float], usual: float, looks: Looks) -> float:
    """Until the first look whose interval would decide, were the mean to stay. usual: the median of the variances."""
    if not effects:
        return math.inf
    size, spread = abs(fmean(effects)), _spread(effects, usual)
    most = max(size - MARGIN, BOUND - size)  # what lies within the margin lies within the bound too
    decisive = (look for look, half in _halves(looks) if look > len(effects) and half * spread < most)
    return next(decisive, math.inf) - len(effects)


def _spread(effects: Sequence[float], usual: float) -> float:
    """Standard deviation of a launch's effect. Its variance is shrunk towards the usual one: two launches that agree by
    chance promise no early verdict."""
    freedom = len(effects) - 1
    own = _variance(effects) if freedom else 0.0
    return math.sqrt((PRIOR * usual + freedom * own) / (PRIOR + freedom))


def _variance(effects: Sequence[float]) -> float:
    mean = fmean(effects)
    return math.fsum((effect - mean) ** 2 for effect in effects) / (len(effects) - 1)


@lru_cache
def _halves(looks: Looks) -> tuple[tuple[int, float], ...]:
    """Each look with the half width of its interval at a spread of 1."""
    return tuple((n, half_width(1.0, n, alpha)) for n, alpha in zip(looks.launches, looks.alphas, strict=True))
