"""The report as CSV: one line a pair and variant, with what tells runs apart in front."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tipbench.records.record import Run
from tipbench.records.store import Notice, folder_name
from tipbench.report.rows import JOULES, SHOWN_READINGS, Row, rows
from tipbench.report.wording import equal_work, plain, value

MEMORY = ("tensor_peak", "steady_peak", "resident_peak", "tree", "allocated_peak", "reserved_peak", "device_used")

COLUMNS = (
    "run", "started", "machine", "tip", "pair", "scale", "variant", "device", "verdict", "speedup", "low", "high",
    "launches", "baseline_step_s", *(f"{side}_{kind}_bytes" for kind in MEMORY for side in ("baseline", "variant")),
    "equal", "mechanism", "mechanism_baseline", "mechanism_variant", "one_off_s", "break_even_steps",
    "reason", "remedy", *(f"{side}_{name}" for name in (*SHOWN_READINGS, JOULES) for side in ("baseline", "variant")),
)  # fmt: skip

Cell = str | int | float | None


def render(run: Run, notices: Sequence[Notice]) -> str:
    """Notices have no place in a table of pairs; whoever renders it prints them."""
    del notices
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows([_safe(cell) for cell in _cells(run, row)] for row in rows(run))
    return text.getvalue()


def _cells(run: Run, row: Row) -> list[Cell]:
    judgement, memory = row.judgement, row.memory
    mechanism = judgement.found.mechanism
    return [
        run.id, run.started, folder_name(run.machine), row.tip, row.info.pair, row.info.scale, row.variant,
        row.info.device, row.verdict, judgement.speedup, judgement.low, judgement.high, judgement.launches, row.step_s,
        *(memory[side].get(kind) for kind in MEMORY for side in ("baseline", "variant")),
        equal_work(judgement.found.equal), mechanism.get("what"),
        *(value(mechanism[side]) if side in mechanism else None for side in ("baseline", "optimized")),
        row.one_off_s, row.break_even_steps, judgement.reason, judgement.remedy,
        *(side for sides in row.gpu_sides.values() for side in sides or (None, None)),
    ]  # fmt: skip


def _safe(cell: Cell) -> Cell:
    """Text that a spreadsheet would run as a formula gets an apostrophe, which makes it text."""
    if not isinstance(cell, str):
        return cell
    shown = plain(cell)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
