"""Which pairs get the next launches of a run: pure, without processes, a clock or files.

The pair whose verdict is expected to need the fewest seconds gets the next launch. For simulations of this rule and of
others see harness/decisions.md, "Which pair is launched next".
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

WHOLE_JOB = 3.0
"""Worth of a whole job's verdict, relative to that of an operation alone: a tip's answer depends on its whole jobs,
which cost several times as much (harness/decisions.md, "Worth of a whole job")."""

UNANSWERED = 2.0
"""Extra weight until the tip has its first decided whole job, which is what gives it an answer (harness/decisions.md,
"Tips without an answer first")."""

_LEAST_S = 1e-9
"""Least expected cost of a launch (s), so that nothing is divided by zero."""


@dataclass(frozen=True)
class OpenPair:
    """A pair that further launches may decide.

    Attributes:
        name: of the pair.
        launches: how many there are of the variants that its next launch times.
        left: further launches that a verdict on one of these is expected to need; infinite where none is expected.
        cost_s: expected duration of its next launch, with its share of the preparation (s).
        worth: of its verdict, without unit; with twice the worth a verdict may take twice as long.
    """

    name: str
    launches: int
    left: float
    cost_s: float
    worth: float = 1.0

    @property
    def seconds(self) -> float:
        """Expected until its verdict; infinite where none is expected."""
        return self.left * max(self.cost_s, _LEAST_S)

    @property
    def urgency(self) -> tuple[float, float]:
        """The least is launched next: the one decided soonest by its worth; of those that are not expected to be
        decided the one whose interval narrows most. Relative to its width, because the widest, which are hardly ever
        decided, narrow most in absolute terms: so 1 or 2 fewer verdicts of 55 were reached."""
        narrower = 1 - math.sqrt(self.launches / (self.launches + 1))
        return self.seconds / self.worth, -narrower * self.worth / max(self.cost_s, _LEAST_S)


def next_group(open_pairs: Sequence[OpenPair], size: int, left_s: float, last: str, draw: random.Random) -> list[str]:
    """Names of the pairs to be launched next, each once, in order; empty where none is open or none fits into left_s.

    size: most pairs. left_s: seconds left. last: the pair measured last, which is not first in the group unless no
    other pair can be launched. draw: for the order.
    """
    group = _chosen(open_pairs, size, left_s)
    if group == [last]:
        group = _chosen([pair for pair in open_pairs if pair.name != last], size, left_s) or group
    draw.shuffle(group)
    if group[1:] and group[0] == last:
        index = draw.randrange(1, len(group))
        group[0], group[index] = group[index], group[0]
    return group


def _chosen(pairs: Sequence[OpenPair], size: int, left_s: float) -> list[str]:
    """Up to `size` pairs, the most urgent first, that fit into left_s together."""
    group: list[str] = []
    for pair in sorted(pairs, key=lambda pair: pair.urgency):
        if len(group) < size and pair.cost_s <= left_s:
            group.append(pair.name)
            left_s -= pair.cost_s
    return group
