"""From a record's raw block seconds to verdicts: pure, and done anew at every reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tipbench.records.record import Launch, Record, VariantRecord
from tipbench.tip.reason import Reason
from tipbench.verdict.launches import gpu_medians, launch_effects, shortage
from tipbench.verdict.rules import JOB_BOUND, MARGIN, Rules, decide, first_decision, futile, p_of, standard_error
from tipbench.verdict.statistics import Estimate, Serial, discoveries, provisional, serial

FALSE_DISCOVERY_RATE = 0.05
"""Share of wrong claims that is expected at most among those of a run."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one variant of one pair.

    Attributes:
        record: the pair's.
        variant, variant_record: the variant's name and what is stored of it.
        verdict: faster, slower, no difference, at most 3 %, inconclusive, skipped or failed.
        speedup: t_baseline / t_variant; None if nothing was measured, provisional if p is None.
        low, high: its interval; None if nothing was measured, or too little for a provisional one.
        launches: how many the speedup rests on.
        smallest: for an inconclusive verdict, the smallest speedup that this run could have detected.
        quarantined: rounds that were left out as disturbed.
        reasons: why there is no clear verdict, the main one first.
        p: p-value against "the effect is within +-1 %"; None without a verdict.
        error: standard error of ln speedup; None if p is, or if the effect may be all of a clock.
        effects: ln t_baseline - ln t_variant of the launches the speedup rests on, in the order in which they ran.
    """

    record: Record
    variant: str
    variant_record: VariantRecord
    verdict: str
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    launches: int = 0
    smallest: float | None = None
    quarantined: int = 0
    reasons: tuple[Reason, ...] = ()
    p: float | None = None
    error: float | None = None
    effects: tuple[float, ...] = ()


def judge(record: Record, rules: Rules, cores: int) -> list[Judgement]:
    """One judgement a variant other than the baseline, before what is done to all of a suite together."""
    return [_judge_variant(record, variant, rules, cores) for variant in _variants(record)]


def _variants(record: Record) -> list[str]:
    return [variant.name for variant in record.info.variants if variant.name != "baseline"] or ["optimized"]


def _judge_variant(record: Record, variant: str, rules: Rules, cores: int) -> Judgement:
    variant_record = record.variants.get(variant, VariantRecord(record.outcome, record.why))
    for part in (record, variant_record):
        if part.outcome != "measured":
            why = (part.why,) if part.why else ()
            return Judgement(record, variant, variant_record, part.outcome, reasons=why)
    launches = [launch for launch in record.launches if variant in launch.variant]
    effects, quarantined = launch_effects(launches, variant, cores)
    judgement = Judgement(record, variant, variant_record, "inconclusive", quarantined=quarantined)
    result = first_decision(effects, rules)
    if result is None:
        return _provisional(judgement, effects, launches, rules)
    verdict = decide(result, rules)
    judgement = replace(
        judgement,
        verdict=verdict,
        speedup=math.exp(result.mean),
        low=math.exp(result.low),
        high=math.exp(result.high),
        launches=result.launches,
        p=p_of(result, rules),
        error=standard_error(result),
        effects=tuple(effects[: result.launches]),
    )
    if verdict != "inconclusive":
        return judgement
    is_small = _is_small_job(judgement)
    reasons = (
        _undecided_by(result, rules),
        shortage(launches),
        _disturbed(launches, effects),
        *(() if is_small else _ended(len(launches), effects, rules)),
    )
    smallest = math.exp(MARGIN + (result.high - result.low) / 2)
    return replace(judgement, smallest=smallest, reasons=tuple(filter(None, reasons)))


def _provisional(judgement: Judgement, effects: Sequence[float], launches: Sequence[Launch], rules: Rules) -> Judgement:
    """Below the first interim look: no verdict, but a number, whose interval holds at any count."""
    disturbed, busy = _disturbed(launches, effects), shortage(launches)
    least, count = rules.looks.launches[0], len(effects) or len(launches)
    few = Reason("verdict.too-few", {"least": least, "launches": count}) if count < least else None
    if not effects:
        if few and len(launches) < rules.looks.launches[-1]:
            few = Reason("verdict.none-in-time", {"least": least, "launches": count})
        return replace(judgement, reasons=tuple(filter(None, (few, busy, disturbed))))
    mean, half = provisional(effects)
    return replace(
        judgement,
        speedup=math.exp(mean),
        low=None if half is None else math.exp(mean - half),
        high=None if half is None else math.exp(mean + half),
        launches=len(effects),
        reasons=tuple(filter(None, (few, busy, disturbed))),
        effects=tuple(effects),
    )


def _is_small_job(judgement: Judgement) -> bool:
    """Whether it is of a whole job whose interval at a look lies within JOB_BOUND."""
    if judgement.record.info.scale != "macro" or judgement.p is None or not judgement.low or not judgement.high:
        return False
    return math.log(judgement.low) > -JOB_BOUND and math.log(judgement.high) < JOB_BOUND


def _undecided_by(result: Estimate, rules: Rules) -> Reason:
    """Why an interval decides nothing."""
    if result.low > MARGIN or result.high < -MARGIN:
        p = p_of(result, rules)
        return Reason("verdict.probably", {"effect": result.mean, "p": p, "claim": rules.claim})
    return Reason("verdict.between", {"low": result.low, "high": result.high})


def _disturbed(launches: Sequence[Launch], effects: Sequence[float]) -> Reason | None:
    lost = len(launches) - len(effects)
    return Reason("verdict.disturbed", {"disturbed": lost, "launches": len(launches)}) if lost else None


def _ended(launches: int, effects: Sequence[float], rules: Rules) -> list[Reason]:
    """Why no further launches of a variant were made. launches: that timed it. effects: of those undisturbed."""
    last = rules.looks.launches[-1]
    if futile(effects, rules):
        return [Reason("verdict.futile", {"launches": len(effects)})] if len(effects) < last else []
    return [Reason("verdict.time-up", {"launches": launches, "last": last})] if launches < last else []


def judge_suite(records: Sequence[Record], rules: Rules, cores: int) -> list[Judgement]:
    """All judgements of a run, with wider intervals where `serial_of` finds launches alike. `faster` and `slower`
    that Benjamini-Hochberg does not keep over the whole suite become `inconclusive`, so that among the claims shown
    at most 5 % are expected wrong."""
    judged = [judgement for record in records for judgement in judge(record, rules, cores)]
    alike = serial_of(judged)
    if alike is not None and alike.widening > 1:
        judged = [_widened(judgement, alike, rules) for judgement in judged]
    tested = [judgement for judgement in judged if judgement.p is not None]
    discovered = discoveries([judgement.p for judgement in tested if judgement.p is not None], FALSE_DISCOVERY_RATE)
    lost = {id(judgement) for judgement, is_discovery in zip(tested, discovered, strict=True) if not is_discovery}
    return [
        _maybe_chance(judgement, len(tested))
        if id(judgement) in lost and judgement.verdict in ("faster", "slower")
        else _unless_by_its_clock(judgement)
        for judgement in judged
    ]


def _maybe_chance(judgement: Judgement, comparisons: int) -> Judgement:
    effect = math.log(judgement.speedup or 1.0)
    by_chance = Reason("verdict.by-chance", {"effect": effect, "comparisons": comparisons})
    return replace(judgement, verdict="inconclusive", reasons=(by_chance,))


def serial_of(judged: Sequence[Judgement]) -> Serial | None:
    """What the order of a run's launches says of its intervals; None where no pair can tell."""
    return serial(judgement.effects for judgement in judged if judgement.p is not None)


def _widened(judgement: Judgement, alike: Serial, rules: Rules) -> Judgement:
    """The judgement with the wider interval that launches which are alike call for, decided anew."""
    if judgement.speedup is None or judgement.low is None or judgement.high is None:
        return judgement
    mean = math.log(judgement.speedup)
    half = alike.widening * (math.log(judgement.high) - math.log(judgement.low)) / 2
    wider = replace(judgement, low=math.exp(mean - half), high=math.exp(mean + half))
    result = first_decision(judgement.effects, rules) if judgement.p is not None else None
    if result is None:
        return wider
    result = replace(result, low=mean - half, high=mean + half, deviation=alike.widening * result.deviation)
    verdict = decide(result, rules)
    is_open = verdict == "inconclusive"
    further = judgement.reasons[1:]
    if verdict != judgement.verdict:
        further = (Reason("verdict.widened", {"verdict": judgement.verdict}),)
    return replace(
        wider,
        verdict=verdict,
        smallest=math.exp(MARGIN + half) if is_open else None,
        reasons=(_undecided_by(result, rules), *further) if is_open else further,
        p=p_of(result, rules),
        error=standard_error(result),
    )


def _unless_by_its_clock(judgement: Judgement) -> Judgement:
    """Inconclusive where the effect may be that of a clock that differed between the sides.

    A card that comes to the limit of its power lowers its clock, and the next block, which may be the other side's,
    starts with it. So a claim must hold when all that the clock can have brought is taken off.
    """
    clocks = gpu_medians(judgement.record, judgement.variant, "sm_mhz")
    if not clocks or not all(clocks) or judgement.low is None or judgement.high is None:
        return judgement
    ahead = math.log(clocks[1] / clocks[0])
    faster = judgement.verdict == "faster" and math.log(judgement.low) - max(ahead, 0.0) <= MARGIN
    slower = judgement.verdict == "slower" and math.log(judgement.high) - min(ahead, 0.0) >= -MARGIN
    if not (faster or slower):
        return judgement
    clock = Reason("verdict.clock", {"baseline_mhz": clocks[0], "variant_mhz": clocks[1], "lowest_mhz": min(clocks)})
    return replace(judgement, verdict="inconclusive", error=None, reasons=(clock,))


def undecided(record: Record, rules: Rules, cores: int) -> list[str]:
    """The variants whose verdict further launches may still change: none that has used up the looks.

    Only these go on: a sweep's clear points need not be timed again for the sake of its close ones, nor
    one whose launches differ so much that all of them would hardly decide it, nor a whole job within JOB_BOUND.
    """
    inconclusive = [judged for judged in judge(record, rules, cores) if judged.verdict == "inconclusive"]
    open_ones = [judged.variant for judged in inconclusive if not _is_small_job(judged)]
    timed = {name: [launch for launch in record.launches if name in launch.variant] for name in open_ones}
    last = rules.looks.launches[-1]
    return [
        name
        for name, launches in timed.items()
        if len(launches) < last and not futile(launch_effects(launches, name, cores)[0], rules)
    ]
