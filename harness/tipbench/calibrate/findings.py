"""What is known beside what a run said of it: pure functions from stored records to counts, shares and intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from scipy.stats import binomtest

from tipbench.records.fields import Count, Positive, converted
from tipbench.records.record import PairInfo, Record, Run
from tipbench.report.rows import CONTROL, rules
from tipbench.verdict.rules import AT_MOST, BOUND, MARGIN
from tipbench.verdict.verdict import Judgement, judge

TOLERATED = 0.05
"""Planted memory must be reported within this share of what was planted."""

EDGE = 1e-9
"""Two sums of logarithms count as equal within this: 1 % planted is exactly the margin."""

MEMORY = {"live_mib": "tensor_peak", "resident_mib": "resident_peak"}
"""By the size that plants it, the kind of `VariantRecord.memory` that must show it."""


class Planted(TypedDict, total=False):
    """Of a pair's sizes those that say what is known of it."""

    sines: Positive
    in_baseline: Count
    in_optimized: Count
    live_mib: Positive
    resident_mib: Positive


@dataclass(frozen=True)
class Finding:
    """One thing that is known, and what one run said of it.

    memory: the kind of `VariantRecord.memory` that it is about; empty for time. truth: ln of the planted speedup, or
    the bytes that the optimized side takes beyond its baseline; None for a difference that comes and goes, of which
    nothing can be said but that its mean is small. said: the verdict judged alone, "found" or "missed" of memory,
    "failed" or "skipped" where `why` says so. measured: the speedup, or the bytes. low, high: the speedup's interval.
    """

    pair: str
    loaded: bool
    truth: float | None
    said: str
    memory: str = ""
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""

    @property
    def done(self) -> bool:
        return self.said not in ("failed", "skipped")

    @property
    def wrong(self) -> bool:
        """Whether the engine said what is not so."""
        if self.memory or not self.done:
            return self.said == "missed"
        if self.truth is None:
            return self.said not in ("inconclusive", AT_MOST)
        return contradicts(self.said, self.truth)

    @property
    def covered(self) -> bool | None:
        """Whether the interval holds the truth; None where either is missing."""
        if self.truth is None or self.low is None or self.high is None:
            return None
        return math.log(self.low) - EDGE <= self.truth <= math.log(self.high) + EDGE


def contradicts(verdict: str, truth: float) -> bool:
    """Whether a verdict is untrue where ln of the speedup is `truth`. An effect of exactly 1 % is no difference."""
    if verdict == "faster":
        return truth <= MARGIN + EDGE
    if verdict == "slower":
        return truth >= -MARGIN - EDGE
    most = {"no difference": MARGIN, AT_MOST: BOUND}.get(verdict)
    return most is not None and abs(truth) > most + EDGE


def findings(run: Run) -> list[Finding]:
    """All of a run, in the order of its plan. Raises MalformedRecord where sizes are none that plant anything."""
    place = {name: index for index, name in enumerate(run.planned)}
    records = sorted(run.records, key=lambda record: place.get(record.name, len(place)))
    judged_by, cores = rules(run)
    loaded = run.options.get("calibration") == "loaded"
    judgements = [(record, judged) for record in records for judged in judge(record, judged_by, cores)]
    return [found for record, judged in judgements for found in _of(record, judged, loaded)]


def _of(record: Record, judged: Judgement, loaded: bool) -> Iterator[Finding]:
    """Of a pair that plants memory its kinds of memory: what its sides take in time is not known."""
    sizes = _planted(record.info)
    kinds = {kind: mib << 20 for name, kind in MEMORY.items() if isinstance(mib := sizes.get(name), int)}
    missing = judged.verdict in ("failed", "skipped")
    for kind, planted in kinds.items():
        sides = [found.memory for name in ("baseline", "optimized") if (found := record.variants.get(name))]
        said, measured, why = judged.verdict, None, judged.reason
        if not missing and len(sides) == 2 and all(kind in side for side in sides):
            measured = float(sides[1][kind] - sides[0][kind])
            said, why = "found" if abs(measured / planted - 1) <= TOLERATED else "missed", ""
        elif not missing:
            said, why = "skipped", "this platform does not report it"
        yield Finding(record.name, loaded, float(planted), said, kind, measured, why=why)
    if not kinds:
        interval = judged.speedup, judged.low, judged.high
        yield Finding(record.name, loaded, truth(record.info), judged.verdict, "", *interval, judged.reason * missing)


def truth(info: PairInfo) -> float | None:
    """ln of the speedup that is planted; None where nothing can be said of it. Raises MalformedRecord."""
    if info.tip["id"] == CONTROL:
        return 0.0
    sizes = _planted(info)
    if not {"sines", "in_baseline", "in_optimized"} <= sizes.keys():
        return None
    return math.log((sizes["sines"] + sizes["in_baseline"]) / (sizes["sines"] + sizes["in_optimized"]))


def _planted(info: PairInfo) -> Planted:
    return converted(info.sizes, Planted, f"{info.name}: sizes")


@dataclass(frozen=True)
class Share:
    """count of total, with its exact (Clopper-Pearson) 95 % interval."""

    count: int
    total: int
    low: float
    high: float


def share(found: Sequence[bool]) -> Share | None:
    """How many hold; None of nothing."""
    if not found:
        return None
    between = binomtest(sum(found), len(found)).proportion_ci(0.95, method="exact")
    return Share(sum(found), len(found), float(between.low), float(between.high))
