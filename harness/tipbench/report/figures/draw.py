"""The figures of a run, from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tipbench.report.figures.drawing import Drawing
from tipbench.report.figures.sweeps import Point
from tipbench.report.figures.sweeps import drawings as curves
from tipbench.report.figures.whole_jobs import Bar, drawing

Row = Mapping[str, Any]


def draw(results: Sequence[Row], answers: Sequence[Row]) -> tuple[list[Drawing], dict[str, list[Drawing]]]:
    """(what the tips bring in whole jobs; by tip, the curves of its sweeps). results, answers: rows of these tables."""
    bars = [
        Bar(f"{row['tip']}: {_job(row)}", row["claim"], row["state"], *_interval(row))
        for row in answers
        if row["role"] == "answers" and row["scale"] == "macro" and row["speedup"] is not None
    ]
    points = [
        Point(row["tip"], row["pair"], row["device"], row["variant"], row["verdict"], *_interval(row))
        for row in results
        if row["speedup"] is not None and row["tip"] != "control"
    ]
    by_tip: dict[str, list[Drawing]] = {}
    for (tip, _), made in curves(points).items():
        by_tip.setdefault(tip, []).extend(made)
    return drawing(bars), by_tip


def _job(row: Row) -> str:
    return str(row["pair"]) if row["variant"] == "optimized" else f"{row['pair']} ({row['variant']})"


def _interval(row: Row) -> tuple[float, float, float]:
    """The middle and both ends; three times the middle where there is no interval."""
    middle = row["speedup"]
    return middle, row["low"] or middle, row["high"] or middle
