"""What stored comparisons come to: pure functions from numbers to counts, shares and intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import binomtest, ttest_ind

from tipbench.calibrate.stored import Comparison
from tipbench.verdict.statistics import estimate
from tipbench.verdict.verdict import MARGIN

TOLERATED = 0.05
"""Planted memory must be reported within this share of what was planted."""

JUDGED: Mapping[str, Sequence[str]] = {
    "memory/held": ("tensor_peak", "resident_peak"),
    "memory/transient": ("tensor_peak",),
}
"""By case, the kinds of memory that must show what was planted; others are shown."""

WIDEST = math.log(1.05)
"""Two timers whose interval reaches farther to each side than this have not been compared, only tried."""

EDGE = 1e-9
"""Two sums of logarithms count as equal within this: 1 % planted is exactly the margin."""


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


def contradicts(verdict: str, truth: float) -> bool:
    """Whether a verdict is untrue where ln of the speedup is `truth`. An effect of exactly 1 % is no difference."""
    if verdict == "faster":
        return truth <= MARGIN + EDGE
    if verdict == "slower":
        return truth >= -MARGIN - EDGE
    return verdict == "no difference" and abs(truth) > MARGIN + EDGE


def wrong(comparison: Comparison) -> bool:
    """Whether the engine said what is not so.

    random: anything but `inconclusive`. memory: a judged peak that misses what was planted by more than
    TOLERATED. timer: seconds that differ by more than the margin, wholly.
    """
    if comparison.failed:
        return False
    if comparison.part == "random":
        return comparison.verdict != "inconclusive"
    if comparison.part == "memory":
        return any(abs(off) > TOLERATED for off in judged_errors(comparison).values())
    if comparison.part == "timer":
        return any(agreement.word == "differ" for agreement in agreements(comparison))
    return comparison.truth is not None and contradicts(comparison.verdict, comparison.truth)


def covered(comparison: Comparison) -> bool | None:
    """Whether the interval holds the truth; None where there is no interval."""
    if comparison.truth is None or comparison.low is None or comparison.high is None:
        return None
    return math.log(comparison.low) - EDGE <= comparison.truth <= math.log(comparison.high) + EDGE


def error(comparison: Comparison) -> float | None:
    """ln of the speedup found minus ln of the planted one."""
    if comparison.truth is None or comparison.speedup is None:
        return None
    return math.log(comparison.speedup) - comparison.truth


def spread(comparison: Comparison) -> float | None:
    """Standard deviation of the launch effects; None of fewer than two."""
    effects = [effect for effect in comparison.effects if effect is not None]
    return statistics.stdev(effects) if len(effects) > 1 else None


def bias(errors: Sequence[float]) -> tuple[float, float, float] | None:
    """(mean, low, high) of the errors, with Student's 95 % interval over comparisons; None of fewer than two."""
    if len(errors) < 2:
        return None
    found = estimate(errors, 0.05)
    return found.mean, found.low, found.high


def memory_errors(comparison: Comparison) -> dict[str, float]:
    """By kind of memory: how far the reported difference is from what was planted, as a share of it."""
    memory = comparison.memory or {}
    before, after = memory.get("baseline", {}), memory.get("optimized", {})
    return {
        kind: (after[kind] - before[kind]) / comparison.planted_bytes - 1
        for kind in before
        if kind in after and comparison.planted_bytes
    }


def judged_errors(comparison: Comparison) -> dict[str, float]:
    """Those of `memory_errors` that must be small."""
    return {kind: off for kind, off in memory_errors(comparison).items() if kind in JUDGED.get(comparison.case, ())}


@dataclass(frozen=True)
class Agreement:
    """The harness's seconds a step over another timer's: the ratio, its 95 % interval, and what that says.

    word: "agree" where the interval holds 1; "agree within 1 %" where it does not, but reaches into
    +-1 %; "differ" where it lies wholly beyond; "cannot be distinguished" where it is wider than WIDEST.
    """

    timer: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    word: str


def agreements(comparison: Comparison) -> list[Agreement]:
    """One a timer beside the harness. The interval is Welch's, of the difference of the mean logarithms.

    Each process of either timer gives one number, the median seconds of a step. The squared standard
    errors of both sides add up, with the degrees of freedom after Welch and Satterthwaite.
    """
    timed = dict(comparison.seconds or {})
    ours = [math.log(seconds) for seconds in timed.pop("harness", ())]
    found = []
    for timer, seconds in timed.items():
        theirs = [math.log(one) for one in seconds]
        between = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
        mean = statistics.fmean(ours) - statistics.fmean(theirs)
        low, high = float(between.low), float(between.high)
        if low > MARGIN or high < -MARGIN:
            word = "differ"
        elif (high - low) / 2 > WIDEST:
            word = "cannot be distinguished"
        else:
            word = "agree" if low <= 0 <= high else "agree within 1 %"
        means = math.exp(statistics.fmean(ours)), math.exp(statistics.fmean(theirs))
        found.append(Agreement(timer, *means, math.exp(mean), math.exp(low), math.exp(high), word))
    return found
