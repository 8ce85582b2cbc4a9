"""The guides sentence by sentence: which pair tries it, and what a run showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from tipbench.records.record import Run
from tipbench.report import markdown
from tipbench.report.answer import answers
from tipbench.report.price import more_memory
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.guide import ITEMS, GuideSentence, Item
from tipbench.tip.pair import Claim


def sentences(run: Run | None = None, items: Sequence[Item] = ITEMS) -> str:
    """A heading and a table a chapter, as Markdown. run: whose results are shown; without one the tables have no such
    column."""
    by_name = _by_name(results(run)) if run else {}
    chapters = {
        chapter: [(item.id, sentence, _results(sentence, by_name)) for item in group for sentence in item.sentence]
        for chapter, group in groupby(items, key=lambda item: item.source)
    }
    return markdown.render("guides.md.j2", chapters=chapters, has_results=bool(run))


def _by_name(rows: Sequence[Result]) -> dict[str, list[Result]]:
    """By the names that sentences have. A pair without a headline variant has all of its variants."""
    pairs: dict[str, list[Result]] = {}
    for result in rows:
        pairs.setdefault(result.pair_name, []).append(result)
    names = {pair: [way for way in ways if way.is_headline] or ways for pair, ways in pairs.items()}
    for result in rows:
        for variant in {result.variant, result.variant.partition("=")[0]}:
            names.setdefault(f"{result.pair_name}[{variant}]", []).append(result)
    return names


def _results(sentence: GuideSentence, by_name: Mapping[str, Sequence[Result]]) -> list[str]:
    tried = [result for name in sentence.tried for result in by_name.get(name, [None])]
    return list(dict.fromkeys(_words(sentence.claim, result) for result in tried))


def _words(claim: Claim, result: Result | None) -> str:
    """What a result shows of a claim, which may be another than its tip's."""
    if result is None:
        return "not in this run"
    if not result.is_measured:
        return result.reason or result.verdict
    (answer,) = answers([replace(result, about=replace(result.about, claim=claim))])
    words = [answer.gains[0].words]
    if result.about.claim != claim == Claim.LEANER and result.tree_sides:
        # Live tensors are those of one process, and what is for less time may take others: a DataLoader's workers.
        words += more_memory([], [result.tree_sides])
    return "; ".join(words)
