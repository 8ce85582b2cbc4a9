"""How a run is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tipbench.engine.limits import Limits
from tipbench.verdict.rules import Rules


@dataclass(frozen=True)
class Plan:
    """What a run may use, and what it begins with.

    Attributes:
        limits: of a launch.
        rules: rules for verdicts.
        seed: of all random draws.
        cores: number of cores, which the rule for quarantined rounds needs.
        at_once: pairs that are checked, and launches that are prepared, in parallel; with 1 nothing is prepared while
            a launch waits.
        room: memory that prepared launches may need (bytes).
        card_room: the same of the GPU; None where pairs run on a CPU. A pair that finds the GPU full beside others is
            checked or launched again by itself.
        side_bytes: memory of one variant, where it is known before it is measured (bytes).
        budget_s: seconds after which nothing more is started, and checks and preparations that still run are dropped.
        first: names of pairs that are checked, and launched once, before all but these, in this order.
        alike: whether all variants of a whole job are timed from the start, as of a person's own job.
    """

    limits: Limits
    rules: Rules
    seed: int
    cores: int
    at_once: int = 1
    room: float = math.inf
    card_room: float | None = None
    side_bytes: int = 0
    budget_s: float = math.inf
    first: Sequence[str] = ()
    alike: bool = False
