"""The figures of a run's report and of a comparison, by matplotlib, which is imported only when one is drawn.

The same rows give the same bytes, with the same matplotlib. All names in figures may be foreign text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tipbench.report.figures.palette import PALETTE
from tipbench.report.rows import Row

if TYPE_CHECKING:
    from tipbench.report.figures.style import Drawing

__all__ = ["PALETTE", "Effect", "Format", "alts", "alts_across", "draw", "draw_across", "sweep_name"]

Format = Literal["svg", "png"]

Effect = tuple[str, float, float, float, str]
"""Machine, speedup, low, high, verdict: one comparison as one machine found it."""


def draw(rows: Sequence[Row], format: Format) -> dict[str, bytes]:
    """The figures of one run by name, without ending, in a fixed order; none where nothing was measured.

    "speedups", "speedups-2", ...: all comparisons, on pages; "memory-time": both at once; "sweep-<tip>-<pair>": a
    curve a swept pair. An SVG is text in UTF-8 that may be put into an HTML page as it is, beside others: its
    colours are custom properties, `var(--ink, #1b1b1b)`, by the names of PALETTE. A PNG has a white ground.
    """
    from tipbench.report.figures.style import save

    return {drawing.name: save(drawing, format) for drawing in _of_run(rows)}


def alts(rows: Sequence[Row]) -> dict[str, str]:
    """For each figure that `draw` makes, what it shows, for who cannot see it: raw text, a sentence."""
    return {drawing.name: drawing.alt for drawing in _of_run(rows)}


def draw_across(
    effects: Sequence[tuple[str, Sequence[Effect]]], format: Format, machines: Sequence[str] = ()
) -> dict[str, bytes]:
    """The figures of a comparison by name, "across", "across-2", ...: the twelve that differ most of the effects, of
    which each is (tip and pair, what machines found); none where no effect was found by two machines.

    machines: their order; those not named follow as they are met. A name stands for one machine.
    """
    from tipbench.report.figures import across
    from tipbench.report.figures.style import save

    return {drawing.name: save(drawing, format) for drawing in across.drawings(effects, machines)}


def alts_across(effects: Sequence[tuple[str, Sequence[Effect]]], machines: Sequence[str] = ()) -> dict[str, str]:
    """For each figure that `draw_across` makes, what it shows, as `alts` says it."""
    from tipbench.report.figures import across

    return {drawing.name: drawing.alt for drawing in across.drawings(effects, machines)}


def sweep_name(tip: str, pair: str) -> str:
    """What `draw` calls the curve of a swept pair; where there are more of it, they end with "-2", "-3"."""
    return "sweep-" + re.sub(r"[^A-Za-z0-9]+", "-", f"{tip}-{pair}").strip("-")[:80]


def _of_run(rows: Sequence[Row]) -> list[Drawing]:
    from tipbench.report.figures import forest, memory_time, sweep

    return [*forest.drawings(rows), *memory_time.drawings(rows), *sweep.drawings(rows)]
