"""What a way to follow a tip brings in one job, in words, by what the tip claims."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tipbench.report.measure import TIME, Effect
from tipbench.report.result import MEMORY_KINDS, Key, Result
from tipbench.report.trained import score_text, step_ratio_text, steps_text, training_effect
from tipbench.tip.pair import Claim
from tipbench.tip.reason import reasons_text
from tipbench.tip.wording import change, ratio, seconds, size, value
from tipbench.verdict.launches import SHORTAGE
from tipbench.verdict.statistics import Mean


@dataclass(frozen=True)
class Gain:
    """What a way brings in one job.

    Attributes:
        effect: what all runs say of it.
        brought: in words, without the job's name.
    """

    effect: Effect
    brought: str

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


UNDECIDED = "undecided, "


def gain_of(effect: Effect) -> Gain:
    return Gain(effect, _brought(effect))


def _brought(effect: Effect) -> str:
    result, mean = effect.row, effect.mean
    counted = training_effect(result) if result.about.claim == Claim.SOONER_AT_TARGET else None
    if effect.measure is not TIME and (counted is None or not counted.both_reach):
        return _readings(result, mean) if effect.means else "not measured yet"
    if mean is None:
        busy = [reason for reason in result.reasons if reason.code == SHORTAGE]
        return f"no number yet: {reasons_text(busy)}" if busy else "not measured yet"
    low, middle, high = (math.exp(end) for end in (mean.interval()[0], mean.mean, mean.interval()[1]))
    more = f" in time to the target ({steps_text(counted)})" if counted else ""
    return f"{UNDECIDED * (effect.state.word == 'open')}{ratio(middle, low, high)}{more}"


def _readings(result: Result, mean: Mean | None) -> str:
    """What is not time, of both sides in the newest run. mean: of all runs, if it has an interval."""
    sides, counted = result.memory_sides, training_effect(result)
    if result.about.claim == Claim.LEANER and sides:
        return f"{change(*sides)} {MEMORY_KINDS[result.memory_kind]} ({size(sides[0])} -> {size(sides[1])})"
    if result.about.claim == Claim.SOONER and result.one_off_sides is not None:
        return "once {} -> {}".format(*map(seconds, result.one_off_sides))
    if counted is not None and result.about.claim == Claim.BETTER:
        return score_text(counted)
    if counted is not None:
        return step_ratio_text(counted, mean if result.about.claim == Claim.FEWER_STEPS else None)
    return f"{' -> '.join(map(value, result.counts or ()))} {result.counted}"
