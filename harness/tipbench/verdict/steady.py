"""Whether a side's steps take longer when it is timed alone: then it works ahead while other sides are timed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from tipbench.records.record import Launch
from tipbench.tip.reason import Reason
from tipbench.verdict.statistics import estimate

LIMIT = math.log(1.1)
"""Growth that no side may have, in ln: a tenth."""

SUSPECT = LIMIT / 2
"""Mean growth so far from which further launches look again; honest sides were within 3 %, see "Sides that work ahead"
in harness/decisions.md."""

LEAST_STRETCHES = 3
"""Fewest launches that decide, and the two-sided error of their interval: honest growths are near 0, and no suspicion
is worth failing a pair for."""
ALPHA = 0.01


def growth(launch: Launch, variant: str) -> float | None:
    """ln of the time of a step in the variant's stretch alone over that in its blocks beside others; None without a
    stretch. Its second half by time counts, when what lay ready is used up."""
    stretch = launch.stretches.get(variant)
    if stretch is None:
        return None
    usual = median(seconds for name, seconds in zip(launch.variant, launch.seconds, strict=True) if name == variant)
    return math.log(median(_second_half(stretch)) / usual)


def _second_half(seconds: Sequence[float]) -> Sequence[float]:
    """The fewest last blocks that last at least half of all."""
    half, last = math.fsum(seconds) / 2, len(seconds) - 1
    while math.fsum(seconds[last:]) < half:
        last -= 1
    return seconds[last:]


def growths(launches: Sequence[Launch], variant: str) -> list[float]:
    """Of the launches that have a stretch of the variant."""
    return [value for launch in launches if (value := growth(launch, variant)) is not None]


def suspicious(launches: Sequence[Launch]) -> bool:
    """Whether a further launch must look again: a side seems to grow, or no launch has looked yet."""
    variants = {variant for launch in launches for variant in launch.stretches}
    return not variants or any(fmean(growths(launches, variant)) > SUSPECT for variant in variants)


def works_ahead(launches: Sequence[Launch], variant: str) -> Reason | None:
    """Why the blocks of a variant do not say what its steps take: its growth's interval over launches lies wholly above
    LIMIT. None where it does not, or where too few launches tell."""
    values = growths(launches, variant)
    if len(values) < LEAST_STRETCHES or (result := estimate(values, ALPHA)).low <= LIMIT:
        return None
    return Reason("works-ahead", {"where": variant, "ratio": math.exp(result.mean), "least": math.exp(result.low)})
