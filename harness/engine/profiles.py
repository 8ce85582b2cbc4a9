"""How much a run may spend: the same pairs and sizes, fewer launches and blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """rounds: least and most rounds a launch. seconds: timed seconds a launch
    aims at, by scale. block_s: least seconds of the faster variant's block.

    A disturbance hits few blocks and is trimmed with them, so more and shorter ones are better: at equal
    timed seconds, 30 rounds of 5 ms blocks gave launches of identical code a spread of 0.27 % (pointwise)
    and 0.15 % (small operations) where 15 rounds of 10 ms gave 0.65 % and 0.26 %. On a noisy day a round of
    one ResNet-18 forward pass against itself spread by 4 to 7 %, however long its blocks were (14 to 220 ms):
    what counts is how many rounds there are. So whole jobs are sized for steps of some 20 to 100 ms on two cores.

    Rounds are not chosen from a pilot as Kalibera and Jones (2013) do: reckoned on a stored complete run,
    fewer rounds from the fifth launch on would have saved 2.5 % of its time, at the median micro pair nothing.
    Launches of macro pairs differ by more than their rounds explain. On a stored complete run five rounds of
    55 ms blocks spread launches by 2.9 and 1.2 % (ResNet inference, two runs) where 13 rounds gave 2.7 and 1.3 %;
    of 16 ms blocks by 4.4 % where 30 gave 2.4 % (transformer). Three are too few to trim: 2.6 % where five gave
    0.2 % (small operations).
    """

    rounds: tuple[int, int]
    seconds: dict[str, float]
    block_s: float = 0.005

    def rounds_for(self, scale: str, round_s: float) -> int:
        """Rounds in each launch, given what one round takes."""
        least, most = self.rounds
        return max(least, min(most, int(self.seconds[scale] / round_s)))


PROFILES = {
    "full": Profile((5, 30), {"micro": 1.0, "macro": 1.5}),
    "quick": Profile((3, 20), {"micro": 0.5, "macro": 1.0}),
}
