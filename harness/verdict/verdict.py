"""From a record's raw block seconds to verdicts: pure, and done anew at every reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tipbench.records.record import Launch, Record, VariantRecord
from tipbench.verdict.statistics import (
    Estimate,
    Looks,
    discoveries,
    estimate,
    half_width,
    p_beyond,
    round_effect,
    trimmed_mean,
)

MARGIN = math.log(1.01)
"""Effects within +-1 % are of no practical size."""

FALSE_DISCOVERY_RATE = 0.05

ERROR = 0.05
"""The error that all looks share."""

CLAIM = 0.005
"""Most p-value of a claim. Where launches differ by far more than the margin, as on a busy machine, the
interval alone would call one pair in twenty of identical code faster or slower; so it is one in 200."""

FULL = Looks((4, 6, 9, 13, 18), (0.002, 0.005, 0.01, 0.014, 0.019))
QUICK = Looks((4, 6), (0.005, 0.045))

EARLY = 6
"""A look before so many launches is early: it may only decide what is far above the noise. Launches fall
into modes, and one in eight groups of four lies in one mode of two: their own spread then says nothing."""

EARLY_HALF = 0.03
"""Least half width of an early interval, so that it holds the mean of two modes up to 6 % apart."""

EARLY_HALF_MOST = 0.05
"""Most half width at which an early interval decides: its size is reported too, and must mean something."""

FAR = 0.10
"""An early interval decides when it lies wholly beyond this."""

CALMER = 0.6
"""Of the spread seen so far: what the launches to come are granted before a variant is stopped early. Replayed on
the 716 comparisons of four calibrations and a complete run it stops 99, of which none was decided in the end, and
saves 953 launches; 0.7 would lose 2 that were, 1.0 would lose 18."""

STEAL_SHARE = 0.05
"""A round is quarantined when the hypervisor stole more than this share of its core time."""

HELD_BACK = 0x8 | 0x20 | 0x40 | 0x80
"""NVML's clock events that quarantine a round on a GPU: hardware slowdown, thermal slowdown by software and by
hardware, power brake. Not the software's power cap (0x4): a large matrix product runs into it by itself."""

BUSY = 0.2
"""From this share of time in which some task waited for a core on, an inconclusive verdict says so. Idle, pairs
in one process showed 0.3 to 3 % on two cores; one beside test suites 80 %."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one variant of one pair.

    verdict: faster, slower, no difference, inconclusive, skipped or failed. speedup, low, high:
    ratios t_baseline / t_variant, None where nothing was measured. smallest: for an inconclusive
    verdict, the smallest speedup this run could have distinguished from none. quarantined: rounds left out.
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


def decide(found: Estimate) -> str:
    """The verdict by practical size that an interval supports, at its look."""
    half = (found.high - found.low) / 2
    if found.launches < EARLY and not (half <= EARLY_HALF_MOST and abs(found.mean) - half > FAR):
        return "inconclusive"
    sure = p_beyond(found, MARGIN, ERROR) <= CLAIM
    if found.low > MARGIN and sure:
        return "faster"
    if found.high < -MARGIN and sure:
        return "slower"
    if found.low > -MARGIN and found.high < MARGIN:
        return "no difference"
    return "inconclusive"


def first_decision(launch_effects: Sequence[float], looks: Looks) -> Estimate | None:
    """The estimate at the first look that decides, else at the last look reached; None before any."""
    found = None
    for count, alpha in zip(looks.launches, looks.alphas, strict=True):
        if count > len(launch_effects):
            break
        found = estimate(launch_effects[:count], alpha)
        if count < EARLY:
            half = max(found.high - found.mean, EARLY_HALF)
            found = replace(found, low=found.mean - half, high=found.mean + half)
        if decide(found) != "inconclusive":
            break
    return found


def futile(effects: Sequence[float], looks: Looks) -> bool:
    """Whether all launches would hardly decide what these have not, as statisticians call it; False between the looks,
    and before EARLY.

    Computed for the last look, with CALMER launches and a mean up to one standard error from the present one.
    To stop here costs no coverage: nothing is claimed.
    """
    if len(effects) < EARLY or len(effects) not in looks.launches:
        return False
    last, alpha = looks.launches[-1], looks.alphas[-1]
    now = estimate(effects, alpha)
    deviation, error = CALMER * now.deviation, now.deviation / math.sqrt(now.launches)
    half = half_width(deviation, last, alpha)
    means = [now.mean + shift * error for shift in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    then = [Estimate(mean, mean - half, mean + half, last, alpha, deviation) for mean in means]
    return all(decide(found) == "inconclusive" for found in then)


def disturbed(launch: Launch, blocks: slice, cores: int) -> bool:
    """The quarantine rule, fixed beforehand: throttled at all, or robbed of more than STEAL_SHARE.

    A single stolen tick (10 ms) is the counter's resolution and says nothing about a 40 ms round,
    so there must be at least two. Durations never quarantine.
    """
    stolen = sum(ticks for ticks in launch.steal_ticks[blocks] if ticks > 0)
    throttled = any(microseconds > 0 for microseconds in launch.throttled_us[blocks])
    throttled |= any(events > 0 and events & HELD_BACK for events in launch.gpu.get("clock_events", ())[blocks])
    return throttled or (stolen >= 2 and stolen / 100 > STEAL_SHARE * cores * sum(launch.seconds[blocks]))


def launch_effect(launch: Launch, variant: str, cores: int) -> tuple[float | None, int]:
    """(D, rounds quarantined): the trimmed mean effect of the rounds kept.

    None where more than half had to go: what is left would be chosen by the disturbance.
    """
    effects, quarantined = [], 0
    for blocks in launch.round_slices():
        if disturbed(launch, blocks, cores):
            quarantined += 1
            continue
        timed = list(zip(launch.variant[blocks], launch.seconds[blocks], strict=True))
        effects.append(
            round_effect([s for name, s in timed if name == "baseline"], [s for name, s in timed if name == variant])
        )
    return (trimmed_mean(effects) if len(effects) > quarantined else None), quarantined


def judge(record: Record, looks: Looks, cores: int) -> list[Judgement]:
    """One judgement a variant other than the baseline, before the suite's false-discovery control."""
    return [_judge_variant(record, variant, looks, cores) for variant in _listed(record)]


def _listed(record: Record) -> list[str]:
    return [variant.name for variant in record.info.variants if variant.name != "baseline"] or ["optimized"]


def _judge_variant(record: Record, variant: str, looks: Looks, cores: int) -> Judgement:
    found = record.variants.get(variant, VariantRecord(record.outcome, record.why))
    for stopped in (record, found):
        if stopped.outcome != "measured":
            reason = f"{stopped.kind}: {stopped.reason}" if stopped.kind else stopped.reason
            return Judgement(record, variant, found, stopped.outcome, reason=reason, remedy=stopped.remedy)
    launches = [launch for launch in record.launches if variant in launch.variant]
    effects, quarantined = _effects(launches, variant, cores)
    result = first_decision(effects, looks)
    lost = len(launches) - len(effects)
    too_disturbed = f"{lost} of {len(launches)} launches were too disturbed (throttling or stolen time)"
    if result is None:
        few = _too_few(len(launches), looks.launches[0])
        reason = "; ".join(filter(None, (too_disturbed if lost else "", few)))
        return Judgement(record, variant, found, "inconclusive", quarantined=quarantined, reason=reason)
    verdict = decide(result)
    smallest, reason = None, ""
    if verdict == "inconclusive":
        smallest = math.exp(MARGIN + (result.high - result.low) / 2)
        reason = _why(result, smallest) + _busy(launches)
        if lost:
            reason += f"; {too_disturbed}"
        if result.launches < looks.launches[-1] and futile(effects, looks):
            reason += f"; stopped early, after {len(effects)} launches: more would not have settled it"
    return Judgement(
        record,
        variant,
        found,
        verdict,
        speedup=math.exp(result.mean),
        low=math.exp(result.low),
        high=math.exp(result.high),
        launches=result.launches,
        smallest=smallest,
        quarantined=quarantined,
        reason=reason,
        p=p_beyond(result, MARGIN, ERROR),
    )


def _effects(launches: Sequence[Launch], variant: str, cores: int) -> tuple[list[float], int]:
    """(the effect of each launch that was not too disturbed, rounds quarantined)."""
    found = [launch_effect(launch, variant, cores) for launch in launches]
    return [effect for effect, _ in found if effect is not None], sum(dropped for _, dropped in found)


def _too_few(launches: int, least: int) -> str:
    """Why there is no interval; empty where there are launches enough for one."""
    if launches >= least:
        return ""
    count = "1 launch decides" if launches == 1 else f"{launches} launches decide"
    return f"{count} nothing: a verdict needs at least {least}"


def _why(result: Estimate, smallest: float) -> str:
    """Why an interval decides nothing."""
    if result.low > MARGIN or result.high < -MARGIN:
        p = p_beyond(result, MARGIN, ERROR)
        return f"{_probably(math.exp(result.mean))}, but below our bar of evidence: p = {p:.2g}, {CLAIM:g} is needed"
    return f"could have seen effects from {100 * (smallest - 1):.1f} %"


def _probably(speedup: float) -> str:
    return f"probably about {100 * abs(speedup - 1):.0f} % {'faster' if speedup > 1 else 'slower'}"


def _busy(launches: Sequence[Launch]) -> str:
    """What to add to a reason where cores were short; empty where they were not, or the platform does not tell."""
    timed_us = 1e6 * sum(sum(launch.seconds) for launch in launches)
    waited = sum(us for launch in launches for us in launch.pressure_us if us > 0) / timed_us
    if waited < BUSY:
        return ""
    return f"; tasks waited for a core {100 * min(waited, 1):.0f} % of the time: other programs' or the pair's own"


def judge_suite(records: Sequence[Record], looks: Looks, cores: int) -> list[Judgement]:
    """All judgements of a run. `faster` and `slower` that Benjamini-Hochberg does not keep over the
    whole suite become `inconclusive`, so that among the claims shown at most 5 % are expected wrong."""
    judged = [judgement for record in records for judgement in judge(record, looks, cores)]
    tested = [judgement for judgement in judged if judgement.p is not None]
    kept = discoveries([judgement.p for judgement in tested if judgement.p is not None], FALSE_DISCOVERY_RATE)
    lost = {id(judgement) for judgement, stays in zip(tested, kept, strict=True) if not stays}
    among = f"but not certain enough among the {len(tested)} comparisons of the run (false-discovery control)"
    return [
        replace(judgement, verdict="inconclusive", reason=f"{_probably(judgement.speedup or 1.0)}, {among}")
        if id(judgement) in lost and judgement.verdict in ("faster", "slower")
        else _unless_by_its_clock(judgement)
        for judgement in judged
    ]


def gpu_medians(record: Record, variant: str, reading: str) -> tuple[float, float] | None:
    """Medians of a reading of `Launch.gpu` over the baseline's blocks and a variant's; None where there is none."""
    sides = tuple(
        [
            found
            for launch in record.launches
            for name, found in zip(launch.variant, launch.gpu.get(reading, ()), strict=False)
            if name == side and found >= 0
        ]
        for side in ("baseline", variant)
    )
    return (median(sides[0]), median(sides[1])) if all(sides) else None


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
    return replace(judgement, verdict="inconclusive", reason=f"{mhz}: that may be all of the effect", remedy=remedy)


def undecided(record: Record, looks: Looks, cores: int) -> list[str]:
    """The variants whose verdict further launches may still change; empty when the looks are used up.

    Only these go on: a sweep's clear points need not be timed again for the sake of its close ones, nor
    one whose launches differ so much that all of them would hardly decide it.
    """
    if len(record.launches) >= looks.launches[-1]:
        return []
    open_ones = [judged.variant for judged in judge(record, looks, cores) if judged.verdict == "inconclusive"]
    timed = {name: [launch for launch in record.launches if name in launch.variant] for name in open_ones}
    return [name for name in open_ones if not futile(_effects(timed[name], name, cores)[0], looks)]
