"""Whether a side's steps take longer when it is timed alone: then it works ahead while other sides are timed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from tipbench.records.record import Launch
from tipbench.tip.reason import Reason
from tipbench.verdict.launches import settled_blocks
from tipbench.verdict.statistics import student, trimmed_mean

LIMIT = math.log(1.1)
"""Growth that no side may have, in ln: a tenth."""

SUSPECT = LIMIT / 2
"""Mean growth so far above which further launches look again (harness/decisions.md, "Sides that work ahead")."""

LEAST_STRETCHES = 4
"""Fewest launches that decide: beside a busy program honest growths scatter by half, either way."""

ALPHA = 0.01
"""Two-sided error of the interval over launches."""


def growths(launches: Sequence[Launch], variant: str) -> list[float]:
    """ln of the time of a step in the variant's stretch alone over that in its blocks beside others, by launch that has
    a stretch of it and is not judged by it. The second half of a stretch counts, when what was computed before it is
    used up."""
    values = []
    for launch in launches:
        if variant in launch.stretches and not launch.by_stretch:
            blocks = zip(launch.variant, launch.seconds, strict=True)
            usual = median(seconds for name, seconds in blocks if name == variant)
            values.append(math.log(trimmed_mean(settled_blocks(launch.stretches[variant])) / usual))
    return values


def suspicious(launches: Sequence[Launch], variants: Sequence[str]) -> bool:
    """Whether a further launch of these variants must look again: one seems to grow, or no launch has looked at it."""
    values = [growths(launches, variant) for variant in variants]
    return any(not of_variant or fmean(of_variant) > SUSPECT for of_variant in values)


def works_ahead(launches: Sequence[Launch], variant: str) -> Reason | None:
    """Why the blocks of a variant do not say what its steps take: its growth's interval over launches lies wholly above
    LIMIT. None where it does not, or where too few launches tell."""
    values = growths(launches, variant)
    if len(values) < LEAST_STRETCHES or (low := (mean := student(values)).interval(ALPHA)[0]) <= LIMIT:
        return None
    return Reason("works-ahead", {"where": variant, "ratio": math.exp(mean.mean), "least": math.exp(low)})
