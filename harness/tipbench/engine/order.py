"""Which pairs and variants of a run come first, and which need nothing more: pure, from what is stored of them."""

from __future__ import annotations

from collections.abc import Sequence

from tipbench.engine.checks import failed_by_chance, measurable
from tipbench.records.record import PairInfo, Record
from tipbench.tip.guide import FOREMOST, FOREMOST_ON_A_CARD
from tipbench.tip.pair import CONTROL, DEFAULT_NOW, Claim
from tipbench.verdict.rules import Rules
from tipbench.verdict.verdict import judge, launches_to_decide

FIRST = 1
"""Launches that every pair gets before any pair is preferred, so that each has a number (harness/decisions.md, "First
launches of every pair")."""

OF_A_CONTROL = 6
"""Most launches of a control before all else is decided: as a rule two identical sides never are."""

UNKNOWN_BYTES = 3 << 29
"""Memory that a pair's processes are assumed to need before it was measured (bytes); few need more."""


def first_of_tips(pairs: Sequence[PairInfo]) -> list[PairInfo]:
    """One pair of each tip that can run here, a whole job if it has one, because readers want its result first: those
    of FOREMOST, or on a GPU of FOREMOST_ON_A_CARD, before all others."""
    first: dict[str, PairInfo] = {}
    for info in sorted(pairs, key=lambda info: (info.scale != "macro", info.pair != FOREMOST.get(info.tip.id))):
        if not info.why:
            first.setdefault(info.tip.id, info)
    foremost = FOREMOST_ON_A_CARD if any(info.device == "cuda" for info in pairs) else FOREMOST
    place = {tip: number for number, tip in enumerate(foremost)}
    chosen = [info for info in pairs if info is first.get(info.tip.id)]
    return sorted(chosen, key=lambda info: place.get(info.tip.id, len(place)))


def answer_pairs(pairs: Sequence[PairInfo]) -> list[PairInfo]:
    """Those that answers depend on: whole jobs, all pairs of tips without any that can run here, and the controls."""
    with_jobs = {info.tip.id for info in pairs if info.scale == "macro" and not info.why} - {CONTROL}
    return [info for info in pairs if info.scale == "macro" or info.tip.id not in with_jobs]


def headline_variants(record: Record, rules: Rules, cores: int) -> list[str]:
    """The variants of a pair that its tip's answer is about: of a whole job one, if that can be measured, is not the
    best of a sweep and is not found slower, as another may pay; otherwise all. None where no answer waits: of a control
    with OF_A_CONTROL launches, and of what is the default now."""
    is_default = record.info.tip.status.startswith(DEFAULT_NOW)
    if is_default or (record.info.tip.id == CONTROL and len(record.launches) >= OF_A_CONTROL):
        return []
    names = [variant.name for variant in measurable(record) if variant.name != "baseline"]
    worded = record.info.worded or "optimized"
    is_one = record.info.scale == "macro" and worded in names
    judged = judge(record, rules, cores) if is_one and record.info.tip.claim == Claim.FASTER else []
    is_slower = any(each.variant == worded and each.verdict == "slower" for each in judged)
    return [worded] if is_one and not is_slower else names


def is_answered(record: Record, rules: Rules, cores: int) -> bool:
    """Whether a pair needs no further launch."""
    return record.outcome != "measured" or not launches_to_decide(record, rules, cores)


def lacks_memory(record: Record, rules: Rules, cores: int) -> bool:
    """Whether a pair still needs its memory pass: where its tip is about memory or about what it takes once, and where
    it pays, as that has a price. Live tensors are read by the checks."""
    variants = record.variants.values()
    if record.outcome != "measured" or all(each.one_off for each in variants if each.outcome == "measured"):
        return False
    is_about_it = record.info.tip.claim in (Claim.LEANER, Claim.SOONER)
    return is_about_it or any(result.verdict == "faster" for result in judge(record, rules, cores))


def complete(record: Record, rules: Rules, cores: int) -> bool:
    """Whether a pair needs no further launch and no memory pass, and has no failure that may be chance."""
    return is_answered(record, rules, cores) and not lacks_memory(record, rules, cores) and not failed_by_chance(record)


def launch_bytes(record: Record, side_bytes: int) -> float:
    """Most memory that a launch needs, with all variants in memory (bytes). side_bytes: as `Plan` has it."""
    peaks = [max(variant.memory.values()) for variant in record.variants.values() if variant.one_off and variant.memory]
    return sum(peaks) if peaks else max(UNKNOWN_BYTES, side_bytes * len(measurable(record)))
