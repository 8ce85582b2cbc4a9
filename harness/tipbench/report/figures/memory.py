"""Peak memory of whole jobs before and after, of the tips that promise less of it and of those that change it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tipbench.report.figures import style
from tipbench.report.figures.listing import MARKS, Entry, grid, job, name, sheet, worded
from tipbench.report.figures.style import LIGHT, Drawing
from tipbench.report.rows import CONTROL, MEMORY_KINDS, MEMORY_MARGIN, Row, judged_memory
from tipbench.report.wording import change, plural, size
from tipbench.tip.pair import Claim

MOST = 2.0
"""Times the baseline's memory: what needs more is cut, and its number says how much it is."""

SIZES = 1.42
"""Inches: of "29.8 MiB → 7.67 MiB"."""

COLORS = {"less": LIGHT["faster"], "more": LIGHT["slower"], "about the same": LIGHT["same"]}


@dataclass(frozen=True)
class Peak:
    """kind: of memory, a key of MEMORY_KINDS. before, after: bytes."""

    row: Row
    kind: str
    before: int
    after: int

    @property
    def share(self) -> float:
        return self.after / self.before

    @property
    def word(self) -> str:
        """A key of COLORS."""
        if abs(self.share - 1) <= MEMORY_MARGIN:
            return "about the same"
        return "less" if self.share < 1 else "more"


def drawings(rows: Sequence[Row]) -> list[Drawing]:
    whole = [row for row in worded(rows) if row.info.scale == "macro" and row.tip != CONTROL]
    peaks = [Peak(row, *found) for row in whole if (found := judged_memory(row)) is not None and min(found[1:]) > 0]
    shown = [peak for peak in peaks if peak.row.info.tip["claim"] == Claim.LEANER or peak.word != "about the same"]
    shown.sort(key=lambda peak: peak.share)
    return [Drawing("memory", _alt(shown), lambda: _paint(shown))] if shown else []


def _paint(peaks: Sequence[Peak]) -> Figure:
    devices = len({peak.row.info.device for peak in peaks})
    kinds = " or ".join(MEMORY_KINDS[kind] for kind in MEMORY_KINDS if kind in {peak.kind for peak in peaks})
    figure, over = sheet(
        [_entry(peak, devices) for peak in peaks],
        "Memory in whole jobs",
        f"peak of {kinds}; of tips that promise less, and where it changes",
        right=SIZES,
    )
    end = min(MOST, max(1.1, *(peak.share for peak in peaks)))
    over.set_xlim(0, end)
    ticks = [step / 2 for step in range(math.floor(2 * end) + 1)]
    over.set_xticks(ticks, [f"{100 * tick:.0f} %" for tick in ticks])
    over.set_xlabel("peak after, in percent of the peak before")
    places = [index + MARKS for index in range(len(peaks))]
    grid(over, ticks, places)
    over.barh(places, [1.0] * len(peaks), height=0.44, color=LIGHT["band"], edgecolor=LIGHT["muted"], linewidth=0.4)
    colors = [COLORS[peak.word] for peak in peaks]
    over.barh(places, [min(peak.share, end) for peak in peaks], height=0.22, color=colors, zorder=2)
    for y, peak in zip(places, peaks, strict=True):
        if peak.share > end:
            over.annotate(
                "→", (end, y), (1, 0), textcoords="offset points", va="center_baseline", color=LIGHT["slower"]
            )
    words = {peak.word for peak in peaks}
    style.key(
        figure,
        [
            Patch(facecolor=LIGHT["band"], edgecolor=LIGHT["muted"], linewidth=0.4, label="before"),
            *(Patch(facecolor=color, label=f"after: {word}") for word, color in COLORS.items() if word in words),
        ],
        top=0.46,
    )
    return figure


def _entry(peak: Peak, devices: int) -> Entry:
    sides = f"{size(peak.before)} → {size(peak.after)}"
    return Entry(
        title=str(peak.row.info.tip["title"]),
        job=job(peak.row, devices),
        number=change(peak.before, peak.after),
        remark=sides,
        color=COLORS[peak.word],
        faint=peak.word == "about the same",
    )


def _alt(peaks: Sequence[Peak]) -> str:
    words = [peak.word for peak in peaks]
    parts = [f"{words.count(word)} {word}" for word in COLORS if word in words]
    description = f"Peak memory of {plural(len(peaks), 'whole job')} before and after: {', '.join(parts)}"
    least, most = peaks[0], peaks[-1]
    if least.word == "less":
        description += f"; the leanest is {_said(least)}"
    if most.word == "more":
        description += f"; the least lean is {_said(most)}"
    return f"{description}."


def _said(peak: Peak) -> str:
    return f"{name(peak.row)} with {size(peak.before)} -> {size(peak.after)} ({change(peak.before, peak.after)})"
