"""How much time a launch may take."""

from __future__ import annotations

import math
from dataclasses import dataclass

_BETWEEN = 0.003
"""Assumed spread between launches (standard deviation of log ratios) beyond what their rounds explain: that of the
controls on a calm machine (harness/decisions.md, "Rounds in a launch")."""


@dataclass(frozen=True)
class Limits:
    """The limits of a launch. Many short blocks are better than few long ones (harness/decisions.md, "Rounds in a
    launch").

    Attributes:
        rounds: (least, most) rounds of a pair's first launch; later ones have at most as many, see `launch.CAP_RAISED`.
        longest_s: time that a launch's rounds may take (s); `launch.TRIED` rounds may take longer.
        block_s: least duration of the faster variant's block (s).
    """

    rounds: tuple[int, int]
    longest_s: float
    block_s: float = 0.005

    def least_rounds(self, round_s: float) -> int:
        """Rounds in a launch whose rounds agree. round_s: seconds of a round."""
        return min(self.rounds[0], self.most_rounds(round_s))

    def rounds_for(self, spread: float, prepare_s: float, round_s: float) -> int:
        """Rounds in each launch, after Kalibera and Jones (2013): more where a launch takes long to prepare and its
        rounds differ much, fewer where launches differ by more than their rounds explain.

        spread: standard deviation of one round's effect (log ratio). prepare_s: seconds to prepare a launch. round_s:
        seconds of a round, with the untimed step before each of its blocks.
        """
        best = round(spread / _BETWEEN * math.sqrt(prepare_s / round_s))
        return max(self.least_rounds(round_s), min(best, self.most_rounds(round_s)))

    def most_rounds(self, round_s: float) -> int:
        """Most rounds in a launch. round_s: seconds of a round."""
        return min(self.rounds[1], max(1, int(self.longest_s / round_s)))


LIMITS = Limits((10, 40), 2.0)
