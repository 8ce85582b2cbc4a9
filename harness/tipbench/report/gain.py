"""What a way to follow a tip brings in one job, in words, by what the tip claims."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tipbench.report.measure import TIME, Effect
from tipbench.report.result import MEMORY_KINDS, Key, Result
from tipbench.report.trained import score_text, step_ratio_text, steps_text, training_effect
from tipbench.tip.pair import Claim
from tipbench.tip.reason import percent_change, reasons_text
from tipbench.tip.wording import change, ratio, seconds, size, value
from tipbench.verdict.launches import SHORTAGE
from tipbench.verdict.statistics import Mean


@dataclass(frozen=True)
class Gain:
    """What a way brings in one job.

    Attributes:
        effect: what all runs say of it.
        brought: in words, without the job's name.
        short: as a signed change such as `+29 %`; empty if nothing was measured.
    """

    effect: Effect
    brought: str
    short: str

    @property
    def key(self) -> Key:
        return self.effect.row.key

    @property
    def pair(self) -> str:
        return self.effect.row.pair

    @property
    def state(self) -> str:
        """ "gain", "loss", "within" or "open"."""
        return self.effect.state.word

    @property
    def words(self) -> str:
        return f"{self.effect.row.job_and_way} {self.brought}"


def gain_of(effect: Effect) -> Gain:
    return Gain(effect, *_brought(effect))


def _brought(effect: Effect) -> tuple[str, str]:
    """(in words, as a signed change; empty if nothing was measured)."""
    result, mean = effect.row, effect.mean
    counted = training_effect(result) if result.claim == Claim.SOONER_AT_TARGET else None
    if effect.measure is not TIME and (counted is None or not counted.both_reach):
        if not effect.means:
            return "not measured yet", ""
        readings, sides = _readings(result, mean), result.memory_sides
        return readings, f"{change(*sides)} memory" if result.claim == Claim.LEANER and sides else readings
    if mean is None:
        busy = [reason for reason in result.reasons if reason.code == SHORTAGE]
        return (f"no number yet: {reasons_text(busy)}" if busy else "not measured yet"), ""
    low, middle, high = (math.exp(end) for end in (mean.interval()[0], mean.mean, mean.interval()[1]))
    more = f" in time to the target ({steps_text(counted)})" if counted else ""
    if effect.state.word == "open":
        undecided = f"undecided, between {percent_change(math.log(low))} and {percent_change(math.log(high))}{more}"
        return undecided, f"{change(1, low)} to {change(1, high)}"
    return f"{ratio(middle, low, high)}{more}", change(1, middle)


def _readings(result: Result, mean: Mean | None) -> str:
    """What is not time, of both sides in the newest run. mean: of all runs, if it has an interval."""
    sides, counted = result.memory_sides, training_effect(result)
    if result.claim == Claim.LEANER and sides:
        return f"{change(*sides)} {MEMORY_KINDS[result.memory_kind]} ({size(sides[0])} -> {size(sides[1])})"
    if result.claim == Claim.SOONER and result.one_off_sides is not None:
        return "once {} -> {}".format(*map(seconds, result.one_off_sides))
    if counted is not None and result.claim == Claim.BETTER:
        return score_text(counted)
    if counted is not None:
        return step_ratio_text(counted, mean if result.claim == Claim.FEWER_STEPS else None)
    return f"{' -> '.join(map(value, result.counts or ()))} {result.counted}"
