"""From a tip's rows to one of five answers, and the sentence that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tipbench.report.rows import CONTROL, Row
from tipbench.report.wording import change, in_prose, plural, ratio, size
from tipbench.tip.pair import Claim
from tipbench.verdict.rules import AT_MOST

USE, NO_BOTHER, DO_NOT, UNCLEAR, IMPOSSIBLE = ANSWERS = (
    "use it",
    "don't bother",
    "don't",
    "can't tell",
    "not possible here",
)

ANSWER_TO = {"pays": USE, "costs": DO_NOT, "unclear": UNCLEAR, "nothing": NO_BOTHER}
"""What the effects of a tip's pairs come to: the first that any of them has."""

EFFECTS = {"faster": "pays", "slower": "costs", "no difference": "nothing", AT_MOST: "nothing"}
"""By verdict on time; every other is unclear."""

MEMORY_MARGIN = 0.05
"""Peaks within +-5 % are of no practical size; unlike times they are counted, not sampled."""

MEMORY_KINDS = {
    "allocated_peak": "GPU memory",
    "tensor_peak": "live tensors",
    "resident_peak": "resident memory",
}
"""What a memory claim is judged by, best first, where both sides have it."""


@dataclass(frozen=True)
class Advice:
    """The answer on one tip. why: plain text that is still to be escaped."""

    tip: str
    title: str
    answer: str
    why: str


@dataclass(frozen=True)
class Outcome:
    """What one pair says about its tip, through the row that speaks for it.

    effect: pays, costs, nothing or unclear. against: the pair's other variants, if they cost.
    """

    row: Row
    effect: str
    against: tuple[Row, ...] = ()


def advise(rows: Sequence[Row]) -> list[Advice]:
    """One advice a tip, controls left out, grouped by answer in the order of ANSWERS."""
    tips: dict[str, list[Row]] = {}
    for row in rows:
        if row.tip != CONTROL:
            tips.setdefault(row.tip, []).append(row)
    return sorted(map(_advise, tips.values()), key=lambda advice: ANSWERS.index(advice.answer))


def promise_kept(row: Row) -> bool | None:
    """Whether a row shows what the guide promises; None where that is not a gain in a step's time or memory."""
    claim = row.info.tip["claim"]
    if claim not in (Claim.FASTER, Claim.LEANER) or not row.measured:
        return None
    return _effect(row, claim == Claim.LEANER) == "pays"


def judged_memory(row: Row) -> tuple[str, int, int] | None:
    """(kind, baseline's bytes, variant's bytes) of the best kind that both sides have."""
    before, after = row.memory["baseline"], row.memory["variant"]
    for kind in MEMORY_KINDS:
        if before.get(kind) and kind in after:
            return kind, before[kind], after[kind]
    return None


def _advise(rows: list[Row]) -> Advice:
    tip = rows[0].info.tip
    leaner = tip["claim"] == Claim.LEANER
    pairs: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        pairs.setdefault((row.info.pair, row.info.device), []).append(row)
    outcomes = [outcome for found in pairs.values() if (outcome := _outcome(found, leaner)) is not None]
    stopped = [found[0] for found in pairs.values() if not any(row.measured for row in found)]
    answer, why = _weighted(outcomes, leaner) if outcomes else _nothing(rows)
    if outcomes:
        failed = [row for row in stopped if row.verdict == "failed"]
        skipped = len(stopped) - len(failed)
        parts = [why, *(f"{row.info.pair or 'its file'} failed" for row in failed)]
        parts += [f"{plural(skipped, 'pair')} not possible here"] if skipped else []
        parts += [str(tip["status"])] if tip.get("status", "current") not in ("", "current") else []
        why = "; ".join(parts)
    return Advice(str(tip["id"]), str(tip["title"]), answer, why)


def _outcome(rows: list[Row], leaner: bool) -> Outcome | None:
    """The variant that speaks for a pair: one that pays, `optimized` before the other ways and these
    by their gain; else `optimized`; else, as in a sweep, the best of the measured."""
    measured = [Outcome(row, _effect(row, leaner)) for row in rows if row.measured]
    paying = [outcome for outcome in measured if outcome.effect == "pays"]
    speaking = max(
        paying or measured,
        key=lambda outcome: (outcome.row.variant == "optimized", _gain(outcome.row, leaner)),
        default=None,
    )
    if speaking is None or speaking.effect == "costs":
        return speaking
    return replace(speaking, against=tuple(outcome.row for outcome in measured if outcome.effect == "costs"))


def _effect(row: Row, leaner: bool) -> str:
    if not leaner:
        return EFFECTS.get(row.verdict, "unclear")
    memory = judged_memory(row)
    if memory is None:
        return "unclear"
    _, before, after = memory
    if after <= (1 - MEMORY_MARGIN) * before:
        return "pays"
    return "costs" if after >= (1 + MEMORY_MARGIN) * before else "nothing"


def _gain(row: Row, leaner: bool) -> float:
    if not leaner:
        return row.judgement.speedup or 0.0
    memory = judged_memory(row)
    return 0.0 if memory is None else 1 - memory[2] / memory[1]


def _weighted(outcomes: list[Outcome], leaner: bool) -> tuple[str, str]:
    """A whole job counts more than the operation alone: where both are known, the job answers, and the
    operation is named where it says the contrary."""
    macro = [outcome for outcome in outcomes if outcome.row.info.scale == "macro"]
    micro = [outcome for outcome in outcomes if outcome.row.info.scale != "macro"]
    decisive = macro or micro
    effects = {outcome.effect for outcome in decisive}
    effect = next((effect for effect in ANSWER_TO if effect in effects), "nothing")
    first = sorted(decisive, key=lambda outcome: outcome.effect != effect)
    # what is not decided is only named beside what is
    undecided = "unclear" if effect != "unclear" else None
    findings = [f"{_name(o.row)} inconclusive" if o.effect == undecided else _tell(o, leaner) for o in first]
    if not macro:
        return ANSWER_TO[effect], "; ".join([*findings, "the operation alone: no whole job measured"])
    contrary = "costs" if effect == "pays" else "pays"
    alone = "; ".join(_tell(outcome, leaner) for outcome in micro if outcome.effect == contrary)
    if alone and effect == "nothing":
        return NO_BOTHER, f"pays only in isolation: {alone}; not in the whole job: {'; '.join(findings)}"
    return ANSWER_TO[effect], "; ".join([*findings, *([f"the operation alone: {alone}"] if alone else [])])


def _tell(outcome: Outcome, leaner: bool) -> str:
    row = outcome.row
    parts = [_memory(row), _time(row)] if leaner else [_time(row), _memory(row)]
    if row.break_even_steps and not leaner:
        parts.append(f"pays after {plural(row.break_even_steps, 'step')}")
    # The advice as the guide words it may be the one that costs: the best way alone would mislead.
    costly = [
        f"{'the tip as worded' if other.variant == 'optimized' else other.variant} {other.judgement.speedup:.2f}x"
        for other in outcome.against
    ]
    parts += [f"but slower with {', '.join(costly)}"] if costly and not leaner else []
    return f"{_name(row)} {', '.join(filter(None, parts))}"


def _name(row: Row) -> str:
    return row.info.pair if row.variant == "optimized" else f"{row.info.pair} ({row.variant})"


def _time(row: Row) -> str:
    judgement = row.judgement
    if judgement.speedup is None:
        return f"{row.verdict}: {judgement.reason}"
    shown = ratio(judgement.speedup, judgement.low, judgement.high)
    if judgement.low is None:
        return f"inconclusive, {shown} ({judgement.reason.partition(';')[0]})"
    if row.verdict == "inconclusive" and judgement.reason:
        return f"inconclusive, {shown} the speed ({judgement.reason.partition(';')[0]})"
    # "0.76x slower" would be read as a slowdown by 0.76
    return f"{shown} faster" if row.verdict == "faster" else f"{in_prose(row.verdict)}, {shown} the speed"


def _memory(row: Row) -> str:
    """Changes beyond the margin. The processes' sum counts too where it grows: worker processes hide
    their memory from the exact count of live tensors."""
    parts = []
    judged = judged_memory(row)
    if judged is not None:
        kind, before, after = judged
        leaner = row.info.tip["claim"] == Claim.LEANER
        if leaner or abs(after / before - 1) >= MEMORY_MARGIN:
            parts.append(f"{MEMORY_KINDS[kind]} {size(before)} -> {size(after)} ({change(before, after)})")
    before, after = (row.memory[side].get("tree", 0) for side in ("baseline", "variant"))
    if before and after >= (1 + MEMORY_MARGIN) * before:
        parts.append(f"memory of all processes {change(before, after)}")
    return ", ".join(parts)


def _nothing(rows: list[Row]) -> tuple[str, str]:
    """No row was measured: a failure leaves the question open, a skip answers it for this machine."""
    failed = next((row for row in rows if row.verdict == "failed"), None)
    if failed is not None:
        return UNCLEAR, f"{failed.info.pair or 'its file'} failed: {failed.judgement.reason}"
    reasons = dict.fromkeys(row.judgement.reason for row in rows if row.judgement.reason)
    remedies = dict.fromkeys(row.judgement.remedy for row in rows if row.judgement.remedy)
    why = "; ".join(reasons) or "skipped without a reason"
    return IMPOSSIBLE, f"{why} (remedy: {'; '.join(remedies)})" if remedies else why
