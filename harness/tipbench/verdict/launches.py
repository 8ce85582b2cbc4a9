"""From a launch's raw block seconds to its effect, and which of its rounds are left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from tipbench.machine.activity import OCCUPIED
from tipbench.records.record import Launch, Record
from tipbench.tip.reason import Reason
from tipbench.verdict.statistics import error_of_trimmed, round_effect, trimmed_mean

STEAL_SHARE = 0.05
"""A round is quarantined if the hypervisor stole more than this share of its core time."""

HELD_BACK = 0x8 | 0x20 | 0x40 | 0x80
"""NVML's clock events that quarantine a round on a GPU: hardware slowdown, thermal slowdown by software and by
hardware, power brake. Not the software's power cap (0x4): a large matrix product runs into it by itself."""

_BUSY = 0.2
"""If tasks waited for a core for at least this share of the time, an inconclusive verdict says so: see "Tasks that wait
for a core" in harness/decisions.md."""


def is_disturbed(launch: Launch, blocks: slice, cores: int) -> bool:
    """The quarantine rule, fixed beforehand: throttled at all, or more than STEAL_SHARE stolen.

    A single stolen tick (10 ms) is the counter's resolution and says nothing about a 40 ms round,
    so there must be at least two. Durations never quarantine.
    """
    stolen = sum(ticks for ticks in launch.steal_ticks[blocks] if ticks > 0)
    throttled = any(microseconds > 0 for microseconds in launch.throttled_us[blocks])
    throttled |= any(events > 0 and events & HELD_BACK for events in launch.gpu.get("clock_events", ())[blocks])
    return throttled or (stolen >= 2 and stolen / 100 > STEAL_SHARE * cores * sum(launch.seconds[blocks]))


def round_effects(launch: Launch, variant: str) -> list[float]:
    """The variant's effect in each round of a launch."""
    effects = []
    for blocks in launch.round_slices():
        timed = list(zip(launch.variant[blocks], launch.seconds[blocks], strict=True))
        effects.append(
            round_effect([s for name, s in timed if name == "baseline"], [s for name, s in timed if name == variant])
        )
    return effects


@dataclass(frozen=True)
class LaunchEffect:
    """A variant's effect in one launch.

    Attributes:
        value: ln t_baseline - ln t_variant.
        error: its standard error, as far as the launch's own rounds show it.
    """

    value: float
    error: float


def launch_effect(launch: Launch, variant: str, cores: int) -> tuple[LaunchEffect | None, int]:
    """(the effect, rounds quarantined): the trimmed mean of the other rounds.

    The effect is None if half of the rounds or more are quarantined: the disturbance would have chosen the rest. In a
    launch that is judged by stretches it is that of their second halves, when queues hold what they hold later on.
    """
    if launch.by_stretch:
        sides = [settled_blocks(launch.stretches[name]) for name in ("baseline", variant)]
        error = math.hypot(*(error_of_trimmed([math.log(seconds) for seconds in side]) for side in sides))
        return LaunchEffect(math.log(trimmed_mean(sides[0]) / trimmed_mean(sides[1])), error), 0
    rounds = zip(round_effects(launch, variant), launch.round_slices(), strict=True)
    undisturbed = [effect for effect, blocks in rounds if not is_disturbed(launch, blocks, cores)]
    quarantined = launch.rounds - len(undisturbed)
    if len(undisturbed) <= quarantined:
        return None, quarantined
    return LaunchEffect(trimmed_mean(undisturbed), error_of_trimmed(undisturbed)), quarantined


def settled_blocks(stretch: Sequence[float]) -> Sequence[float]:
    """The blocks of the second half of a stretch (s); as blocks of loaders come in lumps, their trimmed mean counts."""
    return stretch[len(stretch) // 2 :]


def launch_effects(launches: Sequence[Launch], variant: str, cores: int) -> tuple[list[LaunchEffect], int]:
    """(the effect of each launch that was not too disturbed, rounds quarantined)."""
    effects = [launch_effect(launch, variant, cores) for launch in launches]
    return [effect for effect, _ in effects if effect is not None], sum(dropped for _, dropped in effects)


def gpu_medians(record: Record, variant: str, reading: str) -> tuple[float, float] | None:
    """Medians of a reading of `Launch.gpu` over the baseline's blocks and a variant's; None if a side has none."""
    sides = tuple(
        [
            value
            for launch in record.launches
            for name, value in zip(launch.variant, launch.gpu.get(reading, ()), strict=False)
            if name == side and value >= 0
        ]
        for side in ("baseline", variant)
    )
    return (median(sides[0]), median(sides[1])) if all(sides) else None


SHORTAGE = "verdict.shortage"
"""The code of the reason that cores were short. From few launches there is then no number either: beside a busy
program, identical sides looked "about 18.4x"."""


def shortage(launches: Sequence[Launch]) -> Reason | None:
    """That cores were short; None if they were not, or the platform does not tell, or where the pair's own processes
    waited: more of them than cores wait for each other on an idle machine too."""
    others = [launch.others for launch in launches if launch.others >= 0]
    if others and fmean(others) <= OCCUPIED:
        return None
    timed_us = 1e6 * sum(sum(launch.seconds) for launch in launches)
    waited = sum(us for launch in launches for us in launch.pressure_us if us > 0) / timed_us if launches else 0.0
    return Reason(SHORTAGE, {"percent": 100 * min(waited, 1)}) if waited >= _BUSY else None
