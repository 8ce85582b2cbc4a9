"""Where the time of a step of each whole job goes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tipbench.report.figures import style
from tipbench.report.figures.listing import MARKS, Entry, sheet
from tipbench.report.figures.style import LIGHT, Drawing

RIGHT = 0.24
"""Inches beside the bars: half of "100 %"."""

Shares = Mapping[str, Mapping[str, float]]
"""By whole job, of loading, forward, backward and optimizer, what share of a step it takes, 0 to 1."""

PARTS = {
    "loading": LIGHT["muted"],
    "forward": LIGHT["faster"],
    "backward": LIGHT["slower"],
    "optimizer": LIGHT["same"],
}


def drawings(shares: Shares) -> list[Drawing]:
    return [Drawing("job-time", _alt(shares), lambda: _paint(shares))] if shares else []


def _paint(shares: Shares) -> Figure:
    figure, over = sheet(
        [Entry(job, _percents(found)) for job, found in shares.items()],
        "Where a job's time goes",
        "at the right: percent, in the order of the legend",
        right=RIGHT,
    )
    over.set_xlim(0, 1)
    ticks = [0, 0.25, 0.5, 0.75, 1]
    over.set_xticks(ticks, [f"{100 * tick:.0f} %" for tick in ticks])
    over.set_xlabel("share of a step's time, of the baseline")
    places = [index + MARKS for index in range(len(shares))]
    left = [0.0] * len(shares)
    for part, color in PARTS.items():
        widths = [found.get(part, 0.0) for found in shares.values()]
        over.barh(places, widths, left=left, height=0.4, color=color, edgecolor=LIGHT["paper"], linewidth=0.8)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    style.key(figure, [Patch(facecolor=color, label=part) for part, color in PARTS.items()], top=0.46)
    return figure


def _percents(found: Mapping[str, float], names: bool = False) -> str:
    parts = [f"{part} " * names + f"{100 * found.get(part, 0.0):.0f}" + " %" * names for part in PARTS]
    return ", ".join(parts) if names else " / ".join(parts)


def _alt(shares: Shares) -> str:
    jobs = [f"{style.shown(job, 60)}: {_percents(found, names=True)}" for job, found in shares.items()]
    return f"Where the time of a step goes. {'; '.join(jobs)}."
