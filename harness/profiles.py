"""How much a run may spend: the same pairs and sizes, fewer launches and blocks."""

from __future__ import annotations

from dataclasses import dataclass

from harness.statistics import Looks
from harness.verdict import FULL, QUICK


@dataclass(frozen=True)
class Profile:
    """looks: when to stop. rounds: least and most rounds a launch. seconds: timed seconds a launch
    aims at, by scale. block_s: least seconds of the faster variant's block."""

    looks: Looks
    rounds: tuple[int, int]
    seconds: dict[str, float]
    block_s: float = 0.010

    def rounds_for(self, scale: str, round_s: float) -> int:
        """Rounds in each launch, given what one round takes."""
        least, most = self.rounds
        return max(least, min(most, int(self.seconds[scale] / round_s)))


PROFILES = {
    "full": Profile(FULL, (4, 20), {"micro": 1.5, "macro": 6.0}),
    "quick": Profile(QUICK, (3, 10), {"micro": 0.7, "macro": 3.0}),
}
