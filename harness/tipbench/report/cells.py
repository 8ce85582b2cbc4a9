"""Pieces of tables that several parts of a report have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tipbench.report.document import Cell, Line, Span, Strong, Table
from tipbench.report.rows import Row
from tipbench.report.wording import ratio
from tipbench.verdict.rules import AT_MOST

VERDICTS = ("faster", "slower", "no difference", AT_MOST, "inconclusive", "skipped", "failed")


def table(
    name: str, head: Sequence[str], body: Iterable[Sequence[Cell | Line | str]], cards: Sequence[int] = ()
) -> Table:
    """A table whose cells may be written as a line, or as a text alone."""
    return Table(name, tuple(head), tuple(tuple(map(_as_cell, row)) for row in body), tuple(cards))


def _as_cell(found: Cell | Line | str) -> Cell:
    if isinstance(found, Cell):
        return found
    return Cell((found,) if isinstance(found, str) else found)


def verdict_cell(row: Row) -> Cell:
    return Cell((Strong(row.verdict),), VERDICTS.index(row.verdict), row.verdict)


def speedup(row: Row) -> str:
    """The speedup with its interval, "-" where nothing was measured."""
    judgement = row.judgement
    if judgement.speedup is None:
        return "-"
    return ratio(judgement.speedup, judgement.low, judgement.high)


def between(listed: Sequence[Span], mark: Span) -> Iterator[Span]:
    """The spans with the mark between any two."""
    for index, span in enumerate(listed):
        if index:
            yield mark
        yield span
