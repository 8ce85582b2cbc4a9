"""The figures of a run's report and of a comparison, by matplotlib, which is imported only when one is drawn.

The same rows give the same bytes, with the same matplotlib. All names in figures may be foreign text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tipbench.report.figures.palette import PALETTE
from tipbench.report.jobs import shares
from tipbench.report.rows import Row

if TYPE_CHECKING:
    from tipbench.report.figures.style import Drawing

__all__ = ["PALETTE", "Effect", "Format", "alts", "alts_across", "draw", "draw_across", "sweep_name"]

Format = Literal["svg", "png"]

Effect = tuple[str, float, float, float, str]
"""Machine, speedup, low, high, verdict: one comparison as one machine found it."""


def draw(rows: Sequence[Row], format: Format) -> dict[str, bytes]:
    """The figures of one run by name, without ending, in a fixed order; none where nothing was measured.

    "jobs": what the tips bring in whole jobs, as the guide words them; "memory": their peaks where those change;
    "one-off": what is paid once, and when it is earned back; "job-time": where a job's time goes;
    "operations": what the tips bring in operations alone, and the controls; "sweep-<tip>-<pair>": a curve a pair that
    was swept over four values or more. What one page cannot hold goes on in "jobs-2", ...

    An SVG is text in UTF-8 that may be put into an HTML page as it is, beside others: its colours are custom
    properties, `var(--ink, #1b1b1b)`, by the names of PALETTE. A PNG has a white ground.
    """
    from tipbench.report.figures.style import save

    return {drawing.name: save(drawing, format) for drawing in _of_run(rows)}


def alts(rows: Sequence[Row]) -> dict[str, str]:
    """For each figure that `draw` makes, what it shows, for who cannot see it: raw text, a sentence."""
    return {drawing.name: drawing.alt for drawing in _of_run(rows)}


def draw_across(
    effects: Sequence[tuple[str, Sequence[Effect]]], format: Format, machines: Sequence[str] = ()
) -> dict[str, bytes]:
    """The figure of a comparison, by its name, "across": of the effects, of which each is (tip and pair, what machines
    found), the twelve that differ most, or as many as a page holds; none where no effect was found by two machines.

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
    from tipbench.report.figures import forest, job_time, memory, one_off, sweep

    return [
        *forest.drawings(rows, "jobs"),
        *memory.drawings(rows),
        *one_off.drawings(rows),
        *job_time.drawings(shares(rows)),
        *forest.drawings(rows, "operations"),
        *sweep.drawings(rows),
    ]
