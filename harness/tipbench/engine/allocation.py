"""Which pairs get the next launches of a run: pure, without processes, a clock or files.

The pair whose verdict is expected to need the fewest seconds gets the next launch. For simulations of this rule and of
others see harness/decisions.md, "Which pair is launched next".
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tipbench.verdict.further import launches_left, usual_variance
from tipbench.verdict.statistics import Looks

EVERY = 4
"""Every EVERY-th launch goes to the pair that gains most from a launch, so that no pair starves."""

WHOLE_JOB = 3.0
"""Worth of a whole job's verdict, relative to that of an operation alone: a tip's answer depends on its whole jobs,
which cost several times as much (harness/decisions.md, "Worth of a whole job")."""

UNANSWERED = 2.0
"""Extra weight until the tip has its first decided whole job, which is what gives it an answer (harness/decisions.md,
"Tips without an answer first")."""

LEAST_S = 1e-9
"""Least expected cost of a launch (s), so that nothing is divided by zero."""


@dataclass(frozen=True)
class OpenPair:
    """A pair that further launches may decide.

    Attributes:
        name: of the pair.
        launches: how many there are of the variants that its next launch times.
        effects: of each of those, its effect (log ratio) in each launch that counts, in order.
        cost_s: expected duration of its next launch, with its share of the preparation (s).
        worth: of its verdict, without unit; with twice the worth a verdict may take twice as long.
    """

    name: str
    launches: int
    effects: Mapping[str, Sequence[float]]
    cost_s: float
    worth: float = 1.0


def next_group(
    open_pairs: Sequence[OpenPair], looks: Looks, size: int, left_s: float, last: str, draw: random.Random
) -> list[str]:
    """Names of the pairs to be launched next, each once, in order; empty where none is open or none fits into left_s.

    looks: the interim looks. size: most pairs. left_s: seconds left. last: the pair measured last, which is not first
    in the group unless no other pair can be launched. draw: for the order.
    """
    place = sum(pair.launches for pair in open_pairs)
    seconds = _seconds_to_verdict(open_pairs, looks)
    group = _chosen(open_pairs, seconds, size, left_s, place)
    if group == [last]:
        without_last = [pair for pair in open_pairs if pair.name != last]
        group = _chosen(without_last, seconds, size, left_s, place) or group
    draw.shuffle(group)
    if group[1:] and group[0] == last:
        index = draw.randrange(1, len(group))
        group[0], group[index] = group[index], group[0]
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
    if place % EVERY == EVERY - 1:
        return max(pairs, key=_gain)
    return min(pairs, key=lambda pair: (seconds[pair.name], -_gain(pair)))


def _gain(pair: OpenPair) -> float:
    """Expected relative reduction of a pair's intervals by its next launch, times its worth (1/s).

    Relative, because the widest intervals, which are hardly ever decided, shrink most in absolute terms: with an
    absolute reduction 1 or 2 fewer verdicts of 55 were reached.
    """
    return (1 - math.sqrt(pair.launches / (pair.launches + 1))) * pair.worth / max(pair.cost_s, LEAST_S)


def _seconds_to_verdict(pairs: Sequence[OpenPair], looks: Looks) -> dict[str, float]:
    """Expected seconds to the first verdict on a variant of each pair, divided by the pair's worth; infinite where no
    interim look is expected to decide any variant."""
    usual = usual_variance(effects for pair in pairs for effects in pair.effects.values())
    seconds = {}
    for pair in pairs:
        nearest = min((launches_left(effects, usual, looks) for effects in pair.effects.values()), default=math.inf)
        seconds[pair.name] = nearest * max(pair.cost_s, LEAST_S) / pair.worth
    return seconds
