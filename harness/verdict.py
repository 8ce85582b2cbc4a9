"""From a record's raw block seconds to verdicts: pure, and done anew at every reading."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.record import Launch, Record, VariantRecord
from harness.statistics import Estimate, Looks, discoveries, estimate, half_width, p_beyond, round_effect, trimmed_mean

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
"""Most half width at which an early interval decides: a verdict is told with its size, and that must mean something."""

FAR = 0.10
"""An early interval decides when it lies wholly beyond this."""

CALMER = 0.6
"""Of the spread seen so far: what the launches to come are granted before a variant is given up. Replayed on the
716 comparisons of four calibrations and a complete run it gives up 99, of which none was decided in the end, and
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
    verdict, the smallest speedup this run could have told from none. quarantined: rounds left out.
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


def hopeless(effects: Sequence[float], looks: Looks) -> bool:
    """Whether all launches would hardly decide what these have not; False between the looks, and before EARLY.

    Reckoned for the last look, with CALMER launches and a mean up to one standard error from the present one.
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


def rounds(launch: Launch) -> Iterator[slice]:
    """The blocks of each whole round."""
    length = 2 * len(set(launch.variant))
    for start in range(0, len(launch.variant) - length + 1, length):
        yield slice(start, start + length)


def disturbed(launch: Launch, blocks: slice, cores: int) -> bool:
    """The quarantine rule, fixed beforehand: throttled at all, or robbed of more than STEAL_SHARE.

    A single stolen tick (10 ms) is the counter's resolution and says nothing about a 40 ms round,
    so at least two are asked for. Durations never quarantine.
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
    for blocks in rounds(launch):
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
    found = record.variants.get(variant, VariantRecord(record.outcome, record.kind, record.reason, record.remedy))
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
        return Judgement(record, variant, found, "inconclusive", quarantined=quarantined, reason=too_disturbed)
    verdict = decide(result)
    smallest, reason = None, ""
    if verdict == "inconclusive":
        smallest = math.exp(MARGIN + (result.high - result.low) / 2)
        reason = _why(result, smallest) + _busy(launches)
        if lost:
            reason += f"; {too_disturbed}"
        if result.launches < looks.launches[-1] and hopeless(effects, looks):
            reason += f"; given up after {len(effects)} launches: all {looks.launches[-1]} would hardly have decided"
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


def _why(result: Estimate, smallest: float) -> str:
    """Why an interval decides nothing."""
    if result.low > MARGIN or result.high < -MARGIN:
        p = p_beyond(result, MARGIN, ERROR)
        return f"the interval excludes +-1 %, but not as surely as a claim needs: p = {p:.2g}"
    return f"could have seen effects from {100 * (smallest - 1):.1f} %"


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
    reason = f"the interval excludes +-1 %, but not after false-discovery control over {len(tested)} comparisons"
    return [
        replace(judgement, verdict="inconclusive", reason=reason)
        if id(judgement) in lost and judgement.verdict in ("faster", "slower")
        else judgement
        for judgement in judged
    ]


def undecided(record: Record, looks: Looks, cores: int) -> list[str]:
    """The variants whose verdict further launches may still change; empty when the looks are used up.

    Only these go on: a sweep's clear points need not be timed again for the sake of its close ones, nor
    one whose launches differ so much that all of them would hardly decide it.
    """
    if len(record.launches) >= looks.launches[-1]:
        return []
    open_ones = [judged.variant for judged in judge(record, looks, cores) if judged.verdict == "inconclusive"]
    timed = {name: [launch for launch in record.launches if name in launch.variant] for name in open_ones}
    return [name for name in open_ones if not hopeless(_effects(timed[name], name, cores)[0], looks)]
