"""Which advice pays on all machines, and where it reverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tipbench.compare.comparison import Comparison, Place
from tipbench.compare.means import Heterogeneity, heterogeneity
from tipbench.report.effect import Key, memory_change
from tipbench.report.rows import CONTROL, MEMORY_KINDS, MEMORY_MARGIN
from tipbench.report.wording import change, plural
from tipbench.tip.pair import Claim
from tipbench.verdict.rules import AT_MOST
from tipbench.verdict.statistics import discoveries
from tipbench.verdict.verdict import FALSE_DISCOVERY_RATE

REVERSES, SOME, COSTS_SOME, PAYS, COSTS, NOTHING, UNCLEAR, ONE, NEVER = WORDS = (
    "reverses",
    "pays on some",
    "costs on some",
    "pays on all",
    "costs on all",
    "no difference",
    "can't tell",
    "only seen on one",
    "not measured",
)
"""What is said of a tip: the first of these that holds for one of the pairs that speak for it."""

EFFECTS = {"faster": "pays", "slower": "costs", "no difference": "nothing", AT_MOST: "nothing"}
"""By verdict on time; every other is unclear."""

MOST_NAMED = 4
"""Machines that are named one by one in a sentence."""


@dataclass(frozen=True)
class Consistency:
    """One comparison across machines.

    spread: None where fewer than two measured it. differs: whether the machines' means differ, with false
    discoveries held to 5 % over all comparisons tested. word: one of WORDS.
    """

    key: Key
    places: tuple[Place, ...]
    spread: Heterogeneity | None
    differs: bool
    word: str

    @property
    def measured(self) -> list[Place]:
        return [place for place in self.places if place.mean is not None]


@dataclass(frozen=True)
class TipConsistency:
    """The sentence on a tip. why: plain text, still to be escaped."""

    tip: str
    title: str
    word: str
    why: str


def consistencies(comparison: Comparison) -> dict[Key, Consistency]:
    """One a comparison, the controls' included, in the order of `Comparison.references`."""
    found = []
    for key in comparison.references:
        places = tuple(comparison.places(key))
        means = [place.mean for place in places if place.mean is not None]
        found.append(Consistency(key, places, heterogeneity(means) if len(means) > 1 else None, False, ""))
    tested = [one.spread for one in found if one.spread is not None]
    discovered = iter(discoveries([spread.p for spread in tested], FALSE_DISCOVERY_RATE))
    judged = [replace(one, differs=next(discovered)) if one.spread is not None else one for one in found]
    return {one.key: replace(one, word=_word(one)) for one in judged}


def tips(found: Mapping[Key, Consistency], what: str = "machine") -> list[TipConsistency]:
    """One sentence a tip, controls left out, those first on which machines disagree.

    what: "machine" or "run", whichever is set against its like. A whole job counts more than the operation alone:
    where jobs were measured twice or more, they speak; of a pair's variants `optimized`, else the best.
    """
    by_tip: dict[str, list[Consistency]] = {}
    for one in found.values():
        if one.key[0] != CONTROL:
            by_tip.setdefault(one.key[0], []).append(one)
    return sorted((_tip(listed, what) for listed in by_tip.values()), key=lambda tip: WORDS.index(tip.word))


def effect(place: Place) -> str:
    """pays, costs, nothing or unclear: by time, or by memory where the guide promises that."""
    if _leaner(place) and place.effect is not None:
        ratio = memory_change(place.effect)
        if ratio is None:
            return "unclear"
        return "pays" if ratio <= 1 - MEMORY_MARGIN else "costs" if ratio >= 1 + MEMORY_MARGIN else "nothing"
    return EFFECTS.get(place.word, "unclear")


def _word(one: Consistency) -> str:
    measured = one.measured
    if len(measured) < 2:
        return ONE if measured else NEVER
    effects = [effect(place) for place in measured]
    decided = set(effects) - {"unclear"}
    counted = any(map(_leaner, measured))
    if len(effects) - effects.count("unclear") < 2:
        return UNCLEAR
    if len(decided) == 1:
        # one that is unclear may still contradict the others
        if "unclear" in effects and one.differs and not counted:
            return UNCLEAR
        return {"pays": PAYS, "costs": COSTS, "nothing": NOTHING}[decided.pop()]
    if not (one.differs or counted):  # bytes are counted, not sampled
        return UNCLEAR
    return REVERSES if {"pays", "costs"} <= decided else SOME if "pays" in decided else COSTS_SOME


def _tip(listed: Sequence[Consistency], what: str) -> TipConsistency:
    speaking = _speaking(listed)
    word = min((one.word for one in speaking), key=WORDS.index)
    effects = [place.effect for one in speaking for place in one.places if place.effect is not None]
    title = effects[0].title if effects else ""
    ordered = sorted(speaking, key=lambda one: WORDS.index(one.word))
    if word == NEVER:
        reasons = dict.fromkeys(found.reason for found in effects if found.reason)
        return TipConsistency(listed[0].key[0], title, word, "; ".join(reasons) or "in none of the runs")
    return TipConsistency(listed[0].key[0], title, word, "; ".join(_sentence(one, what) for one in ordered))


def _speaking(listed: Sequence[Consistency]) -> list[Consistency]:
    pairs: dict[tuple[str, str], list[Consistency]] = {}
    for one in listed:
        pairs.setdefault((one.key[1], one.key[3]), []).append(one)
    spoken = [max(variants, key=_says_most) for variants in pairs.values()]
    for enough in (2, 1):
        seen = [one for one in spoken if len(one.measured) >= enough]
        for macro in (True, False):
            found = [one for one in seen if (_scale(one) == "macro") == macro]
            if found:
                return found
    return spoken


def _says_most(one: Consistency) -> tuple[bool, bool, float]:
    means = [place.mean.mean for place in one.measured if place.mean is not None]
    return len(means) > 1, one.key[2] == "optimized", math.fsum(means) / len(means) if means else -math.inf


def _scale(one: Consistency) -> str:
    return next((place.effect.scale for place in one.places if place.effect is not None), "")


def _sentence(one: Consistency, what: str) -> str:
    _, pair, variant, _ = one.key
    name = pair if variant == "optimized" else f"{pair} ({variant})"
    groups: dict[str, list[Place]] = {}
    for place in one.measured:
        groups.setdefault(place.word, []).append(place)
    parts = [f"{word} {_where(what)} {_named(places, what, _time)}" for word, places in groups.items()]
    if one.spread is not None and one.differs and len(groups) == 1:
        parts.append("by differing amounts")
    return " ".join([name, ", ".join([*_memory(one, what), *parts])])


def _where(what: str) -> str:
    return "in" if what == "run" else "on"


def _named(places: Sequence[Place], what: str, shown: Callable[[Place], str]) -> str:
    """Each with its figure; of many how many they are, with the lowest and highest figure."""
    figures = [shown(place) for place in places]
    if len(places) <= MOST_NAMED:
        return ", ".join(f"{place.label} ({figure})" for place, figure in zip(places, figures, strict=True))
    ordered = sorted(places, key=_size)
    ends = dict.fromkeys(shown(place) for place in (ordered[0], ordered[-1]))
    return f"{plural(len(places), what)} ({' to '.join(ends)})"


def _size(place: Place) -> tuple[float, float]:
    memory = memory_change(place.effect) if _leaner(place) and place.effect is not None else None
    return memory or 0.0, place.mean.mean if place.mean is not None else 0.0


def _time(place: Place) -> str:
    ratio = math.exp(place.mean.mean) if place.mean is not None else math.nan
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.3g}x"


def _leaner(place: Place) -> bool:
    return place.effect is not None and place.effect.claim == Claim.LEANER


def _memory(one: Consistency, what: str) -> list[str]:
    """Where the guide promises less of it."""
    places = [
        place
        for place in one.measured
        if _leaner(place) and place.effect is not None and memory_change(place.effect) is not None
    ]
    kinds: dict[str, list[Place]] = {}
    for place in places:
        if place.effect is not None:
            kinds.setdefault(MEMORY_KINDS[place.effect.memory_kind], []).append(place)
    return [f"{kind} {_where(what)} {_named(found, what, _bytes)}" for kind, found in kinds.items()]


def _bytes(place: Place) -> str:
    found = place.effect
    return "" if found is None else change(found.memory_before or 0, found.memory_after or 0)
