"""How much a launch may spend: the same pairs and sizes, fewer or more blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

BETWEEN = 0.003
"""The spread between launches beside what their rounds explain, before a pair has any: what the controls have on a calm
machine. With 0.01, what whole jobs have, launches had 5 rounds where they had 11 to 30 before, and those of identical
code spread by 0.6 to 1.3 % (Copy by 4.7) where they had spread by 0.2 to 0.7 % on another day."""


@dataclass(frozen=True)
class Profile:
    """rounds: least and most rounds of a pair's first launch; later ones have no more, up to `launch.CAP_RAISED`.
    longest_s: seconds that they may take; where `launch.TRIED` rounds take longer, there are so many. block_s: least
    seconds of the faster variant's block. memory: the most of a budget that is kept for the memory passes of pairs
    whose claim is another.

    A disturbance hits few blocks and is trimmed with them, so more and shorter ones are better: at equal
    timed seconds, 30 rounds of 5 ms blocks gave launches of identical code a spread of 0.27 % (pointwise)
    and 0.15 % (small operations) where 15 rounds of 10 ms gave 0.65 % and 0.26 %. On a noisy day a round of
    one ResNet-18 forward pass against itself spread by 4 to 7 %, however long its blocks were (14 to 220 ms):
    what counts is how many rounds there are. Three are too few to trim: launches spread by 2.6 % where five gave
    0.2 % (small operations).
    """

    rounds: tuple[int, int]
    longest_s: float
    block_s: float = 0.005
    memory: float = 0.0

    def least_rounds(self, round_s: float) -> int:
        """Rounds in each launch where they agree, of so many seconds each."""
        return min(self.rounds[0], self.most_rounds(round_s))

    def rounds_for(self, spread: float, prepare_s: float, round_s: float) -> int:
        """Rounds in each launch, as Kalibera and Jones (2013) choose them: where a launch costs much to prepare and
        its rounds differ by much, more rounds; where launches differ by more than their rounds explain, fewer.

        spread: standard deviation of one round's effect. prepare_s, round_s: seconds to prepare a launch, and of a
        round with the untimed step before each of its blocks.
        """
        best = round(spread / BETWEEN * math.sqrt(prepare_s / round_s))
        return max(self.least_rounds(round_s), min(best, self.most_rounds(round_s)))

    def most_rounds(self, round_s: float) -> int:
        """Rounds in a launch at most, of so many seconds each."""
        return min(self.rounds[1], max(1, int(self.longest_s / round_s)))


PROFILES = {
    "full": Profile((10, 40), 3.0, memory=0.05),
    "quick": Profile((10, 20), 1.0, memory=0.0),
}
