"""From a record's raw block seconds to verdicts: pure, and done anew at every reading."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tipbench.records.record import Record, VariantRecord
from tipbench.tip.reason import Reason
from tipbench.verdict.estimate import BESIDE, enough, kind_of, priors
from tipbench.verdict.launches import gpu_medians, launch_effects, shortage
from tipbench.verdict.rules import JOB_BOUND, MARGIN, Rules, decide, launches_left
from tipbench.verdict.statistics import Mean


@dataclass(frozen=True)
class Judgement:
    """The verdict on one variant of one pair.

    Attributes:
        record: the pair's.
        variant, variant_record: the variant's name and what is stored of it.
        verdict: faster, slower, no difference, at most 3 %, inconclusive, skipped or failed.
        mean: ln t_baseline - ln t_variant; None if nothing was measured, or too little beside other programs.
        quarantined: rounds that were left out as disturbed.
        reasons: why there is no clear verdict, the main one first.
        is_of_clock: whether the effect may be all of a GPU's clock.
        effects: of the launches that the mean rests on, in the order in which they ran.
    """

    record: Record
    variant: str
    variant_record: VariantRecord
    verdict: str
    mean: Mean | None = None
    quarantined: int = 0
    reasons: tuple[Reason, ...] = ()
    is_of_clock: bool = False
    effects: tuple[float, ...] = ()

    @property
    def speedup(self) -> float | None:
        """t_baseline / t_variant."""
        return math.exp(self.mean.mean) if self.mean else None

    @property
    def low(self) -> float | None:
        """Of its 95 % interval."""
        return math.exp(self.mean.interval()[0]) if self.mean else None

    @property
    def high(self) -> float | None:
        """Of its 95 % interval."""
        return math.exp(self.mean.interval()[1]) if self.mean else None


def judge(record: Record, rules: Rules, cores: int) -> list[Judgement]:
    """One judgement a variant other than the baseline."""
    names = [variant.name for variant in record.info.variants if variant.name != "baseline"] or ["optimized"]
    return [_judge_variant(record, name, rules, cores) for name in names]


def _judge_variant(record: Record, variant: str, rules: Rules, cores: int) -> Judgement:
    variant_record = record.variants.get(variant, VariantRecord(record.outcome, record.why))
    for part in (record, variant_record):
        if part.outcome != "measured":
            why = (part.why,) if part.why else ()
            return Judgement(record, variant, variant_record, part.outcome, reasons=why)
    launches = [launch for launch in record.launches if variant in launch.variant]
    effects, quarantined = launch_effects(launches, variant, cores)
    judgement = Judgement(record, variant, variant_record, "inconclusive", quarantined=quarantined)
    lost, busy = len(launches) - len(effects), shortage(launches)
    disturbed = Reason("verdict.disturbed", {"disturbed": lost, "launches": len(launches)}) if lost else None
    if not effects or (busy and len(launches) < BESIDE):
        return replace(judgement, reasons=tuple(filter(None, (busy, disturbed))))
    kind = kind_of(record.info, variant, launches[0].by_stretch)
    mean = priors()[kind].mean(effects)
    judgement = replace(judgement, mean=mean, effects=tuple(effect.value for effect in effects))
    verdict = decide(mean)
    if verdict != "inconclusive" and enough(kind, launches, mean.mean):
        return _unless_by_its_clock(replace(judgement, verdict=verdict))
    few = Reason("verdict.another-launch") if verdict != "inconclusive" else None
    low, high = mean.interval()
    between = Reason("verdict.between", {"low": low, "high": high})
    ended = Reason("verdict.all-launches", {"launches": len(launches)}) if len(launches) >= rules.most else None
    return replace(judgement, reasons=tuple(filter(None, (few or between, busy, disturbed, ended))))


def _unless_by_its_clock(judgement: Judgement) -> Judgement:
    """Inconclusive where the effect may be that of a clock that differed between the sides.

    A card that comes to the limit of its power lowers its clock, and the next block, which may be the other side's,
    starts with it. So a claim must hold when all that the clock can have brought is taken off.
    """
    clocks = gpu_medians(judgement.record, judgement.variant, "sm_mhz")
    if not clocks or not all(clocks) or judgement.mean is None:
        return judgement
    ahead = math.log(clocks[1] / clocks[0])
    low, high = judgement.mean.interval()
    faster = judgement.verdict == "faster" and low - max(ahead, 0.0) <= MARGIN
    slower = judgement.verdict == "slower" and high - min(ahead, 0.0) >= -MARGIN
    if not (faster or slower):
        return judgement
    clock = Reason("verdict.clock", {"baseline_mhz": clocks[0], "variant_mhz": clocks[1], "lowest_mhz": min(clocks)})
    return replace(judgement, verdict="inconclusive", is_of_clock=True, reasons=(clock,))


def expected_launches(judgement: Judgement, rules: Rules) -> float:
    """Further launches until a verdict is expected: 0 where there is one, or no further launch is made; infinite where
    all that may be made are not expected to bring one.

    A whole job within JOB_BOUND gets none, so that only what an answer needs is launched.
    """
    made = sum(judgement.variant in launch.variant for launch in judgement.record.launches)
    is_over = judgement.is_of_clock or made >= rules.most or _is_small_job(judgement)
    if judgement.verdict != "inconclusive" or is_over:
        return 0.0
    if judgement.mean is None or decide(judgement.mean) != "inconclusive":  # of too few launches
        return 1.0
    return launches_left(judgement.mean, len(judgement.effects), rules)


def _is_small_job(judgement: Judgement) -> bool:
    if judgement.record.info.scale != "macro" or judgement.mean is None:
        return False
    low, high = judgement.mean.interval()
    return low > -JOB_BOUND and high < JOB_BOUND


def launches_to_decide(record: Record, rules: Rules, cores: int) -> dict[str, float]:
    """By variant whose verdict further launches may still change, the launches that this is expected to take.

    Only these go on: a sweep's clear points need not be timed again for the sake of its close ones.
    """
    judged = judge(record, rules, cores)
    return {each.variant: launches for each in judged if (launches := expected_launches(each, rules))}
