"""Which advice travels from machine to machine, and where it reverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.compare.comparison import Comparison, Place
from harness.compare.effect import Key, memory_change
from harness.compare.means import Heterogeneity, heterogeneity
from harness.pair import Claim
from harness.report.advice import MEMORY_KINDS, MEMORY_MARGIN
from harness.report.rows import CONTROL
from harness.report.wording import change, plural
from harness.statistics import discoveries
from harness.verdict import FALSE_DISCOVERY_RATE

REVERSES, SOME, COSTS_SOME, TRAVELS, COSTS, NOTHING, UNCLEAR, ONE, NEVER = WORDS = (
    "reverses",
    "pays on some",
    "costs on some",
    "travels",
    "costs on all",
    "no difference",
    "can't tell",
    "only seen on one",
    "not measured",
)
"""What is said of a tip: the first of these that holds for one of the pairs that speak for it."""

MOST_NAMED = 4
"""Machines that are named one by one in a sentence."""


@dataclass(frozen=True)
class Journey:
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
class TipJourney:
    """The sentence on a tip. why: plain text, still to be escaped."""

    tip: str
    title: str
    word: str
    why: str


def journeys(comparison: Comparison) -> dict[Key, Journey]:
    """One a comparison, the controls' included, in the order of `Comparison.references`."""
    found = []
    for key in comparison.references:
        places = tuple(comparison.places(key))
        means = [place.mean for place in places if place.mean is not None]
        found.append(Journey(key, places, heterogeneity(means) if len(means) > 1 else None, False, ""))
    tested = [journey.spread for journey in found if journey.spread is not None]
    stands = iter(discoveries([spread.p for spread in tested], FALSE_DISCOVERY_RATE))
    told = [replace(journey, differs=next(stands)) if journey.spread is not None else journey for journey in found]
    return {journey.key: replace(journey, word=_word(journey)) for journey in told}


def tips(found: Mapping[Key, Journey], what: str = "machine") -> list[TipJourney]:
    """One sentence a tip, controls left out, those first on which machines disagree.

    what: "machine" or "run", whichever is set against its like. A whole job counts more than the operation alone:
    where jobs were measured twice or more, they speak; of a pair's variants `optimized`, else the best.
    """
    by_tip: dict[str, list[Journey]] = {}
    for journey in found.values():
        if journey.key[0] != CONTROL:
            by_tip.setdefault(journey.key[0], []).append(journey)
    return sorted((_tip(listed, what) for listed in by_tip.values()), key=lambda tip: WORDS.index(tip.word))


def effect(place: Place) -> str:
    """pays, costs, nothing or unclear: by time, or by memory where the guide promises that."""
    if _leaner(place) and place.effect is not None:
        ratio = memory_change(place.effect)
        if ratio is None:
            return "unclear"
        return "pays" if ratio <= 1 - MEMORY_MARGIN else "costs" if ratio >= 1 + MEMORY_MARGIN else "nothing"
    return {"faster": "pays", "slower": "costs", "no difference": "nothing"}.get(place.word, "unclear")


def _word(journey: Journey) -> str:
    measured = journey.measured
    if len(measured) < 2:
        return ONE if measured else NEVER
    effects = [effect(place) for place in measured]
    decided = set(effects) - {"unclear"}
    counted = any(map(_leaner, measured))
    if len(effects) - effects.count("unclear") < 2:
        return UNCLEAR
    if len(decided) == 1:
        # one that is unclear may still contradict the others
        if "unclear" in effects and journey.differs and not counted:
            return UNCLEAR
        return {"pays": TRAVELS, "costs": COSTS, "nothing": NOTHING}[decided.pop()]
    if not (journey.differs or counted):  # bytes are counted, not sampled
        return UNCLEAR
    return REVERSES if {"pays", "costs"} <= decided else SOME if "pays" in decided else COSTS_SOME


def _tip(listed: Sequence[Journey], what: str) -> TipJourney:
    speaking = _speaking(listed)
    word = min((journey.word for journey in speaking), key=WORDS.index)
    effects = [place.effect for journey in speaking for place in journey.places if place.effect is not None]
    title = effects[0].title if effects else ""
    ordered = sorted(speaking, key=lambda journey: WORDS.index(journey.word))
    if word == NEVER:
        reasons = dict.fromkeys(found.reason for found in effects if found.reason)
        return TipJourney(listed[0].key[0], title, word, "; ".join(reasons) or "in none of the runs")
    return TipJourney(listed[0].key[0], title, word, "; ".join(_tell(journey, what) for journey in ordered))


def _speaking(listed: Sequence[Journey]) -> list[Journey]:
    pairs: dict[tuple[str, str], list[Journey]] = {}
    for journey in listed:
        pairs.setdefault((journey.key[1], journey.key[3]), []).append(journey)
    spoken = [max(variants, key=_says_most) for variants in pairs.values()]
    for enough in (2, 1):
        seen = [journey for journey in spoken if len(journey.measured) >= enough]
        for macro in (True, False):
            found = [journey for journey in seen if (_scale(journey) == "macro") == macro]
            if found:
                return found
    return spoken


def _says_most(journey: Journey) -> tuple[bool, bool, float]:
    means = [place.mean.mean for place in journey.measured if place.mean is not None]
    return len(means) > 1, journey.key[2] == "optimized", math.fsum(means) / len(means) if means else -math.inf


def _scale(journey: Journey) -> str:
    return next((place.effect.scale for place in journey.places if place.effect is not None), "")


def _tell(journey: Journey, what: str) -> str:
    _, pair, variant, _ = journey.key
    name = pair if variant == "optimized" else f"{pair} ({variant})"
    groups: dict[str, list[Place]] = {}
    for place in journey.measured:
        groups.setdefault(place.word, []).append(place)
    parts = [f"{word} {_where(what)} {_named(places, what, _time)}" for word, places in groups.items()]
    if journey.spread is not None and journey.differs and len(groups) == 1:
        parts.append("by differing amounts")
    return " ".join([name, ", ".join([*_memory(journey, what), *parts])])


def _where(what: str) -> str:
    return "in" if what == "run" else "on"


def _named(places: Sequence[Place], what: str, tell: Callable[[Place], str]) -> str:
    """Each with its figure; of many how many they are, with the lowest and highest figure."""
    told = [tell(place) for place in places]
    if len(places) <= MOST_NAMED:
        return ", ".join(f"{place.label} ({figure})" for place, figure in zip(places, told, strict=True))
    ordered = sorted(places, key=_size)
    ends = dict.fromkeys(tell(place) for place in (ordered[0], ordered[-1]))
    return f"{plural(len(places), what)} ({' to '.join(ends)})"


def _size(place: Place) -> tuple[float, float]:
    memory = memory_change(place.effect) if _leaner(place) and place.effect is not None else None
    return memory or 0.0, place.mean.mean if place.mean is not None else 0.0


def _time(place: Place) -> str:
    ratio = math.exp(place.mean.mean) if place.mean is not None else math.nan
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.3g}x"


def _leaner(place: Place) -> bool:
    return place.effect is not None and place.effect.claim == Claim.LEANER


def _memory(journey: Journey, what: str) -> list[str]:
    """Where the guide promises less of it."""
    places = [
        place
        for place in journey.measured
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
