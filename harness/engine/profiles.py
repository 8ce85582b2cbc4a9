"""How much a launch may spend: the same pairs and sizes, fewer or more blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

BETWEEN = 0.01
"""The spread between launches that is expected before a pair has any: on a stored complete run (0e1f8a67) macro pairs
had 0 to 1.3 % beside what their rounds explain."""


@dataclass(frozen=True)
class Profile:
    """rounds: least and most rounds a launch. longest_s: seconds after which a launch has its least rounds only, and
    where those take longer, `launch.TRIED`. block_s: least seconds of the faster variant's block.

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

    def rounds_for(self, spread: float, prepare_s: float, round_s: float) -> int:
        """Rounds in each launch, as Kalibera and Jones (2013) choose them: where a launch costs much to prepare and
        its rounds differ by much, more rounds; where launches differ by more than their rounds explain, fewer.

        spread: standard deviation of one round's effect. prepare_s, round_s: seconds to prepare a launch, and of a
        round with the untimed step before each of its blocks.
        """
        least, most = self.rounds
        best = max(least, round(spread / BETWEEN * math.sqrt(prepare_s / round_s)))
        return min(most, best, max(1, int(self.longest_s / round_s)))


PROFILES = {
    "full": Profile((5, 40), 3.0),
    "quick": Profile((5, 20), 1.0),
}
