"""What tips cost once, such as compilation, and after how many steps that is earned back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from tipbench.report.figures import style
from tipbench.report.figures.listing import MARKS, Entry, beside, grid, job, name, sheet
from tipbench.report.figures.style import LIGHT, Drawing
from tipbench.report.rows import CONTROL, ONE_OFF_NOISE_SHARE, Row
from tipbench.report.wording import plural, seconds

LEAST_S = 1.0
"""Seconds once from which on somebody minds."""


def drawings(rows: Sequence[Row]) -> list[Drawing]:
    shown = [row for row in rows if row.info.scale == "macro" and row.tip != CONTROL and _costs(row)]
    shown.sort(key=lambda row: (row.break_even_steps or math.inf, row.one_off_s))
    return [Drawing("one-off", _alt(shown), lambda: _paint(shown))] if shown else []


def _costs(row: Row) -> bool:
    before, after = row.one_off_sides or (0.0, 0.0)
    return after - before >= max(LEAST_S, ONE_OFF_NOISE_SHARE * before)


def _paint(rows: Sequence[Row]) -> Figure:
    devices = len({row.info.device for row in rows})
    figure, over = sheet(
        [_entry(row, devices) for row in rows],
        "What is paid once, and when it is earned back",
        "at the right: what it takes once, beyond the baseline",
        legend=False,
    )
    earned = [(index + MARKS, row, row.break_even_steps) for index, row in enumerate(rows) if row.break_even_steps]
    end = math.ceil(math.log10(max([1000, *(steps for _, _, steps in earned)])))
    over.set_xlim(0, end)
    powers = range(0, end + 1, math.ceil(end / 7))
    over.set_xticks(powers, [f"{10**power:,}" if power < 7 else f"1e{power}" for power in powers])
    grid(over, powers, [index + MARKS for index in range(len(rows))])
    over.set_xlabel("steps until it is earned back, on a log axis")
    for y, row, steps in earned:
        at = math.log10(steps)
        over.plot([at], [y], **style.marker(style.MARKS["faster"]))
        left = at > end / 2
        over.annotate(
            _earned(row, steps), (at, y), (-6 if left else 6, 0), textcoords="offset points",
            va="center_baseline", ha="right" if left else "left",
        )  # fmt: skip
    for index, row in enumerate(rows):
        if not row.break_even_steps:
            beside(over, index + MARKS, _never(row), False, LIGHT["muted"])
    return figure


def _entry(row: Row, devices: int) -> Entry:
    return Entry(
        title=str(row.info.tip["title"]),
        job=job(row, devices),
        number=f"+{seconds(row.one_off_s or 0.0)}",
        faint=not row.break_even_steps,
    )


def _earned(row: Row, steps: int) -> str:
    return plural(steps, "step") + (f" or {seconds(steps * row.variant_step_s)}" if row.variant_step_s else "")


def _never(row: Row) -> str:
    """Why there is no number of steps."""
    return "undecided whether it is earned back" if row.verdict == "inconclusive" else f"not earned back: {row.verdict}"


def _alt(rows: Sequence[Row]) -> str:
    parts = [
        f"{name(row)} {seconds(row.one_off_s or 0.0)}, "
        + (f"earned back after {plural(row.break_even_steps, 'step')}" if row.break_even_steps else _never(row))
        for row in rows
    ]
    return f"What {plural(len(rows), 'comparison')} cost once: {'; '.join(parts)}."
