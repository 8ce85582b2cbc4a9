"""The guides sentence by sentence: which pair tries it, and what a run found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from tipbench.records.record import Run
from tipbench.report.advice import gain_of, jobs_of
from tipbench.report.cells import between, table
from tipbench.report.document import Block, Break, Heading, Line, Literal, Span
from tipbench.report.effect import Effect, effects
from tipbench.tip.guide import ITEMS, Item, Sentence
from tipbench.tip.pair import Claim


def sentences(run: Run | None, items: Sequence[Item] = ITEMS) -> list[Block]:
    """A heading and a table a chapter. run: whose results are shown; without one the tables have no such column."""
    results = {} if run is None else _by_name(effects(run))
    head = ("item", "the guide says", "tried by", *(["found"] if run else []))
    shown: list[Block] = []
    for chapter, group in groupby(items, key=lambda item: item.source):
        rows: list[list[Line | str]] = [
            [item.id, _spans(sentence.says), _tried(sentence), *([_found(sentence, results)] if run else [])]
            for item in group
            for sentence in item.sentence
        ]
        shown += [Heading(chapter, 3), table(f"sentences-{len(shown) // 2}", head, rows)] if rows else []
    return shown


def _by_name(listed: Sequence[Effect]) -> dict[str, list[Effect]]:
    """By the names that sentences have. A pair of which nothing is as the guide words it has all of its variants."""
    pairs: dict[str, list[Effect]] = {}
    for effect in listed:
        pairs.setdefault(effect.pair_name, []).append(effect)
    names = {pair: [effect for effect in of if effect.worded] or of for pair, of in pairs.items()}
    for effect in listed:
        for variant in {effect.variant, effect.variant.partition("=")[0]}:
            names.setdefault(f"{effect.pair_name}[{variant}]", []).append(effect)
    return names


def _spans(text: str) -> Line:
    """Code is between backticks."""
    return tuple(Literal(part) if odd % 2 else part for odd, part in enumerate(text.split("`")) if part)


def _tried(sentence: Sentence) -> Line:
    lines: list[Span] = [Literal(name) for name in sentence.tried]
    why = f"{'but ' if lines else 'none: '}{sentence.untried}" if sentence.untried else ""
    return (*between(lines, Break()), *([Break()] if lines and why else []), *_spans(why))


def _found(sentence: Sentence, found: Mapping[str, Sequence[Effect]]) -> Line:
    tried = [effect for name in sentence.tried for effect in found.get(name, [None])]
    lines = dict.fromkeys(_finding(sentence.claim, effect) for effect in tried)
    return tuple(between(list(lines), Break())) or ("-",)


def _finding(claim: Claim, effect: Effect | None) -> str:
    if effect is None:
        return "not in this run"
    if not effect.measured:
        return effect.reason or effect.verdict
    judged = replace(effect, claim=claim)
    return gain_of(jobs_of([[judged]])[judged.key]).text
