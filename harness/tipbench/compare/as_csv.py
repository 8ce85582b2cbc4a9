"""The matrix as CSV: one line a comparison, and of every run six columns."""

from __future__ import annotations

import csv
import io

from tipbench.compare.comparison import Cell, Comparison
from tipbench.compare.consistency import consistencies
from tipbench.report.result import memory_change
from tipbench.tip.wording import plain

OF_A_RUN = ("verdict", "speedup", "low", "high", "memory", "reason")
"""memory: the variant's peak over the baseline's."""

Value = str | float | None


def render(comparison: Comparison) -> str:
    """Notes have no place in a table of pairs; whoever renders it prints them."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    head = ("tip", "pair", "variant", "device", "across", "p", "i2", "differs")
    table.writerow([*head, *(f"{label} {column}" for label in comparison.labels for column in OF_A_RUN)])
    for key, across in consistencies(comparison).items():
        spread: list[Value] = [None, None, None]
        if across.spread is not None:
            spread = [across.spread.p, across.spread.i2, "yes" if across.differs else "no"]
        values = [value for cell in comparison.cells[key] for value in _values(cell)]
        table.writerow(map(_safe, [*key, across.word, *spread, *values]))
    return text.getvalue()


def _values(cell: Cell) -> list[Value]:
    result = cell.result
    if cell.mean is None or result is None:
        return [cell.word, None, None, None, None, cell.why]
    return [cell.word, result.speedup, result.low, result.high, memory_change(result), result.reason]


def _safe(value: Value) -> Value:
    """Text that a spreadsheet would run as a formula gets an apostrophe, which makes it text."""
    if not isinstance(value, str):
        return value
    shown = plain(value)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
