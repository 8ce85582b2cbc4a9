"""From a record's raw block seconds to verdicts: pure, and done anew at every reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tipbench.records.record import Record, VariantRecord
from tipbench.verdict.launches import gpu_medians, launch_effects, shortage
from tipbench.verdict.rules import MARGIN, Rules, decide, first_decision, futile, p_of, standard_error
from tipbench.verdict.statistics import Estimate, Serial, discoveries, provisional, serial

FALSE_DISCOVERY_RATE = 0.05

OPEN = "time was up"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one variant of one pair.

    verdict: faster, slower, no difference, at most 3 %, inconclusive, skipped or failed. speedup, low, high:
    ratios t_baseline / t_variant, None where nothing was measured; a provisional speedup, from fewer launches than a
    verdict needs, has no p, and may have no interval. launches: behind these, and effects: theirs, as logarithms, in
    the order they ran. smallest: for an inconclusive verdict, the smallest speedup this run could have distinguished
    from none. quarantined: rounds left out. error: the standard error of ln speedup; None where p is, and where all of
    the effect may be that of a clock.
    """

    record: Record
    variant: str
    found: VariantRecord
    verdict: str
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    launches: int = 0
    smallest: float | None = None
    quarantined: int = 0
    reason: str = ""
    remedy: str = ""
    p: float | None = None
    error: float | None = None
    effects: tuple[float, ...] = ()


def judge(record: Record, rules: Rules, cores: int) -> list[Judgement]:
    """One judgement a variant other than the baseline, before what is done to all of a suite together."""
    return [_judge_variant(record, variant, rules, cores) for variant in _listed(record)]


def _listed(record: Record) -> list[str]:
    return [variant.name for variant in record.info.variants if variant.name != "baseline"] or ["optimized"]


def _judge_variant(record: Record, variant: str, rules: Rules, cores: int) -> Judgement:
    found = record.variants.get(variant, VariantRecord(record.outcome, record.why))
    for stopped in (record, found):
        if stopped.outcome != "measured":
            reason = f"{stopped.kind}: {stopped.reason}" if stopped.kind else stopped.reason
            return Judgement(record, variant, found, stopped.outcome, reason=reason, remedy=stopped.remedy)
    launches = [launch for launch in record.launches if variant in launch.variant]
    effects, quarantined = launch_effects(launches, variant, cores)
    judged = Judgement(record, variant, found, "inconclusive", quarantined=quarantined)
    lost = len(launches) - len(effects)
    disturbed = f"{lost} of {len(launches)} launches were too disturbed (throttling or stolen time)" if lost else ""
    last = rules.looks.launches[-1]
    left_open = len(record.launches) < last and not futile(effects, rules)
    result = first_decision(effects, rules)
    if result is None:
        return _below_the_first_look(judged, effects, rules, len(launches), disturbed, left_open)
    verdict = decide(result, rules)
    smallest, reason = None, ""
    if verdict == "inconclusive":
        smallest = math.exp(MARGIN + (result.high - result.low) / 2)
        reason = _why(result, rules) + shortage(launches)
        reason += f"; {disturbed}" if disturbed else ""
        if result.launches < last and futile(effects, rules):
            reason += f"; stopped after {len(effects)} launches: more would hardly settle it"
        reason += f"; {OPEN} after {len(record.launches)} of {last} launches" if left_open else ""
    return replace(
        judged,
        verdict=verdict,
        speedup=math.exp(result.mean),
        low=math.exp(result.low),
        high=math.exp(result.high),
        launches=result.launches,
        smallest=smallest,
        reason=reason,
        p=p_of(result, rules),
        error=standard_error(result),
        effects=tuple(effects[: result.launches]),
    )


def _below_the_first_look(
    judged: Judgement, effects: Sequence[float], rules: Rules, launches: int, disturbed: str, left_open: bool
) -> Judgement:
    """Without a verdict, with a provisional number, whose interval holds at any count."""
    least = rules.looks.launches[0]
    if not effects:
        few = _too_few(launches, least)
        parts = (f"{OPEN}: {few}" if few and left_open else few, disturbed)
        return replace(judged, reason="; ".join(filter(None, parts)))
    mean, half = provisional(effects)
    return replace(
        judged,
        speedup=math.exp(mean),
        low=None if half is None else math.exp(mean - half),
        high=None if half is None else math.exp(mean + half),
        launches=len(effects),
        reason="; ".join(filter(None, (_too_few(len(effects), least), disturbed))),
        effects=tuple(effects),
    )


def _too_few(launches: int, least: int) -> str:
    """Why there is no verdict; empty where there are launches enough for one."""
    return f"needs {least} launches, has {launches}" if launches < least else ""


def _why(result: Estimate, rules: Rules) -> str:
    """Why an interval decides nothing."""
    if result.low > MARGIN or result.high < -MARGIN:
        return f"probably {in_percent(result.mean)}, but p = {p_of(result, rules):.2g} and {rules.claim:g} is needed"
    return f"between {in_percent(result.low)} and {in_percent(result.high)}"


def in_percent(effect: float) -> str:
    """`5 % faster`, `0.4 % slower`. effect: ln t_baseline - ln t_variant."""
    percent = 100 * math.expm1(abs(effect))
    return f"{percent:.{0 if percent >= 2 else 1}f} % {'faster' if effect > 0 else 'slower'}"


def judge_suite(records: Sequence[Record], rules: Rules, cores: int) -> list[Judgement]:
    """All judgements of a run, with wider intervals where `serial_of` finds launches alike. `faster` and `slower`
    that Benjamini-Hochberg does not keep over the whole suite become `inconclusive`, so that among the claims shown
    at most 5 % are expected wrong."""
    judged = [judgement for record in records for judgement in judge(record, rules, cores)]
    alike = serial_of(judged)
    if alike is not None and alike.widening > 1:
        judged = [_widened(judgement, alike, rules) for judgement in judged]
    tested = [judgement for judgement in judged if judgement.p is not None]
    kept = discoveries([judgement.p for judgement in tested if judgement.p is not None], FALSE_DISCOVERY_RATE)
    lost = {id(judgement) for judgement, stays in zip(tested, kept, strict=True) if not stays}
    by_chance = f"but some of the run's {len(tested)} comparisons look so by chance"
    return [
        replace(
            judgement,
            verdict="inconclusive",
            reason=f"probably {in_percent(math.log(judgement.speedup or 1.0))}, {by_chance}",
        )
        if id(judgement) in lost and judgement.verdict in ("faster", "slower")
        else _unless_by_its_clock(judgement)
        for judgement in judged
    ]


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
    found = first_decision(judgement.effects, rules) if judgement.p is not None else None
    if found is None:
        return wider
    found = replace(found, low=mean - half, high=mean + half, deviation=alike.widening * found.deviation)
    verdict = decide(found, rules)
    smallest = math.exp(MARGIN + half) if verdict == "inconclusive" else None
    rest = [judgement.reason.partition("; ")[2] if judgement.verdict == "inconclusive" else ""]
    if verdict != judgement.verdict:
        rest = [f"{judgement.verdict} before its interval was widened, as launches in a row were alike"]
    reason = "; ".join(filter(None, [_why(found, rules) if smallest else "", *rest]))
    return replace(
        wider, verdict=verdict, smallest=smallest, reason=reason, p=p_of(found, rules), error=standard_error(found)
    )


def _unless_by_its_clock(judgement: Judgement) -> Judgement:
    """Inconclusive where the effect may be that of a clock that differed between the sides.

    A card that comes to the limit of its power lowers its clock, and the next block, which may be the other side's,
    starts with it. So a claim must hold when all that the clock can have brought is taken off.
    """
    found = gpu_medians(judgement.record, judgement.variant, "sm_mhz")
    if not found or not all(found) or judgement.low is None or judgement.high is None:
        return judgement
    ahead = math.log(found[1] / found[0])
    faster = judgement.verdict == "faster" and math.log(judgement.low) - max(ahead, 0.0) <= MARGIN
    slower = judgement.verdict == "slower" and math.log(judgement.high) - min(ahead, 0.0) >= -MARGIN
    if not (faster or slower):
        return judgement
    mhz = f"the GPU ran the baseline at {found[0]:.0f} MHz and this side at {found[1]:.0f} MHz"
    remedy = f"lock its clock (as root: nvidia-smi -lgc {min(found):.0f}), and measure again"
    reason = f"{mhz}: that may be all of the effect"
    return replace(judgement, verdict="inconclusive", error=None, reason=reason, remedy=remedy)


def undecided(record: Record, rules: Rules, cores: int) -> list[str]:
    """The variants whose verdict further launches may still change; empty when the looks are used up.

    Only these go on: a sweep's clear points need not be timed again for the sake of its close ones, nor
    one whose launches differ so much that all of them would hardly decide it.
    """
    if len(record.launches) >= rules.looks.launches[-1]:
        return []
    open_ones = [judged.variant for judged in judge(record, rules, cores) if judged.verdict == "inconclusive"]
    timed = {name: [launch for launch in record.launches if name in launch.variant] for name in open_ones}
    return [name for name in open_ones if not futile(launch_effects(timed[name], name, cores)[0], rules)]
