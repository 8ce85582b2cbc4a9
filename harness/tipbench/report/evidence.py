"""The facts of one tip in words: what its pairs' records say beside their tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tipbench.report.answer_kinds import DO_NOT, SMALL, UNCLEAR
from tipbench.report.result import Result, meets_claim
from tipbench.report.trained import describe_trainings
from tipbench.tip.pair import Claim, TipText
from tipbench.tip.wording import equal_work, size, value

_GPU_READINGS = {
    "sm_mhz": ("SM clock", 1, "MHz"),
    "memory_mhz": ("memory clock", 1, "MHz"),
    "celsius": ("temperature", 1, "C"),
    "milliwatts": ("power", 1000, "W"),
}
"""By reading of the results table: name, how many of it make one unit, unit."""


def evidence_lines(rows: Sequence[Result], kinds: Collection[str] = ()) -> list[str]:
    """rows: all of one tip, in the order of the results table. kinds: of its answers."""
    return [
        *_promise(rows[0].about),
        *_broken_promise(rows, kinds),
        *_each(rows, "Equal work", lambda row: {"": equal_work(row.equal)}),
        *_each(rows, "Mechanism", _mechanism),
        *_each(rows, "Trainings", lambda row: {"": describe_trainings(row)}),
        *_each(rows, "GPU", lambda row: {"": _gpu(row)}),
        *_each(rows, "Reason", lambda row: {row.verdict: reason(row)}),
        *_sizes(rows),
    ]


def reason(row: Result) -> str:
    return f"{row.reason} (remedy: {row.remedy})" if row.reason and row.remedy else row.reason


def _promise(tip: TipText) -> Iterator[str]:
    guide = f" ({', '.join(map(str, tip.guide))})" if tip.guide else ""
    if tip.claim:
        published = f"its figure: {tip.published}" if tip.published else "it gives no figure"
        yield f"The guide's claim{guide}: {tip.claim}; {published}."
    if tip.status not in ("", "current"):
        yield f"Status: {tip.status}."
    if tip.note:
        yield f"Note: {tip.note}"


def _broken_promise(rows: Sequence[Result], kinds: Collection[str]) -> list[str]:
    """The pairs in which no variant brings what the guide promises; and why we think so, if an answer does not advise
    the tip. A time without a verdict is not held against a promise."""
    broken: dict[str, bool] = {}
    for row in rows:
        of_scores = row.trainings and row.about.claim == Claim.FASTER  # the time of so small a network says nothing
        outcome = None if of_scores else meets_claim(row)
        if outcome or (outcome is False and (row.verdict != "inconclusive" or row.about.claim == Claim.LEANER)):
            broken[row.pair] = broken.get(row.pair, True) and not outcome
    pairs = [pair for pair, is_broken in broken.items() if is_broken]
    explained = rows[0].about.why_not and not {DO_NOT, SMALL, UNCLEAR}.isdisjoint(kinds)
    why = f" Why, we think: {rows[0].about.why_not}" if explained else ""
    return [f"Not as the guide promises: {', '.join(pairs)}.{why}"] if pairs else []


def _each(rows: Sequence[Result], label: str, tell: Callable[[Result], Mapping[str, str]]) -> list[str]:
    """`label, pair: subject: words`. What all variants of a pair share is said once, and pairs with equal words share a
    line. tell: by subject, the words of a row, or nothing."""
    variants_by_words: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        for subject, words in tell(row).items():
            if words:
                variants_by_words.setdefault((row.pair, subject), {}).setdefault(words, []).append(row.variant)
    lines: dict[str, list[str]] = {}
    for (pair, subject), by_words in variants_by_words.items():
        variants = sum(row.pair == pair for row in rows)
        is_shared = any(len(names) == variants for names in by_words.values())
        parts = [words if is_shared else f"{words} ({', '.join(names)})" for words, names in by_words.items()]
        lines.setdefault(f"{f'{subject}: ' if subject else ''}{'; '.join(parts)}.", []).append(pair)
    return [f"{', '.join(filter(None, (label, *pairs)))}: {words}" for words, pairs in lines.items()]


def _mechanism(row: Result) -> dict[str, str]:
    if not row.mechanism:
        return {}
    what, sides = row.counted or "count", (row.mechanism.get("baseline"), row.mechanism.get("optimized"))
    for side in sides:
        if isinstance(side, Mapping) and "unseen" in side:
            return {what: f"not seen, as {side['unseen']}"}
    is_size = what.lower().startswith("bytes")
    return {what: " -> ".join(size(side) if is_size and isinstance(side, int) else value(side) for side in sides)}


def _gpu(row: Result) -> str:
    """What the card's driver reported: clocks, temperature and power at the blocks' ends."""
    if not row.gpu:
        return ""
    readings = []
    for reading, (name, scale, unit) in _GPU_READINGS.items():
        sides = row.gpu.get(reading)
        shown = " -> ".join(f"{side / scale:.4g}" for side in sides) if sides else ""
        readings.append(f"{name} {shown} {unit}" if shown else f"{name} unavailable")
    return ", ".join(readings)


def _sizes(rows: Sequence[Result]) -> list[str]:
    by_pair = {row.pair: f"{row.pair}: {value(sizes)}" for row in rows if (sizes := json.loads(row.sizes))}
    return [f"Sizes: {'; '.join(by_pair.values())}."] if by_pair else []
