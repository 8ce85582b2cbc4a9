"""What both figures share: how they are saved, so that equal results give equal bytes, their marks and their axis."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tipbench.report.palette import PALETTE
from tipbench.tip.wording import plain

Format = Literal["svg", "png"]
FIGURE_FORMATS: tuple[Format, ...] = ("svg", "png")

LIGHT = {name: light for name, (light, _) in PALETTE.items()}

SETTINGS: dict[Any, Any] = {
    "figure.facecolor": LIGHT["paper"],
    "axes.edgecolor": LIGHT["muted"],
    "axes.grid": True,
    "axes.labelcolor": LIGHT["ink"],
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "font.size": 9,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.6,
    "text.color": LIGHT["ink"],
    "text.parse_math": False,  # names may hold dollar signs
    "xtick.color": LIGHT["ink"],
    "ytick.color": LIGHT["ink"],
    "savefig.dpi": 150,
    "svg.fonttype": "none",
    "svg.hashsalt": "tipbench",
}

TICKS = (
    *(1, 2, 0.5, 10, 0.1, 5, 0.2, 100, 0.01, 3, 1.4, 0.7, 20, 50, 0.05, 0.02),
    *(1.2, 0.8, 1.1, 0.9, 1.05, 0.95, 1.7, 0.35),
)
"""Ratios that an axis is labelled with, those that are wanted first in front."""


@dataclass(frozen=True)
class Drawing:
    """A figure before it is painted.

    Attributes:
        name: of its files, in letters, digits and dashes.
        alt: what it shows, in a sentence, for who cannot see it.
        paint: makes it.
    """

    name: str
    alt: str
    paint: Callable[[], Figure]


def save(drawing: Drawing, format: Format, dpi: int | None = None) -> bytes:
    """The figure as an SVG whose ids no other figure has, or as a PNG of so many dots an inch; None: as in SETTINGS.
    Equal drawings give equal bytes."""
    content = io.BytesIO()
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a foreign name may need letters that the font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        if format == "png":
            drawing.paint().savefig(content, format="png", dpi=dpi, metadata={"Software": None})
            return content.getvalue()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        drawing.paint().savefig(content, format="svg", metadata=metadata)
    svg = re.sub(r"\n\s*", "\n", content.getvalue().decode())
    return re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{drawing.name}-", svg).encode()


def ratio_axis(axes: Axes, name: Literal["x", "y"], ratios: Sequence[float], ends: Sequence[float]) -> None:
    """Make an axis logarithmic: all ratios fit, 1x too, and the ends of intervals unless they lie three times as far.
    Its labels are round ratios, 1x always among them, none too near to another."""
    low, high = min(0.95, *ratios), max(1.05, *ratios)
    low, high = max(min([low, *ends]), low / 3), min(max([high, *ends]), high * 3)
    room = (high / low) ** 0.03
    low, high = low / room, high * room
    axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    ticks: list[float] = []
    for tick in TICKS:
        is_apart = all(abs(math.log(tick / chosen)) > 0.07 * math.log(high / low) for chosen in ticks)
        if low <= tick <= high and is_apart:
            ticks.append(tick)
    ticks.sort()
    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_ticks(ticks, [f"{tick:g}x" for tick in ticks])
    axis.set_minor_locator(NullLocator())


def shorten(text: str, longest: int = 60) -> str:
    """Foreign text as one line of at most so many letters, without the two characters that XML forbids besides."""
    line = plain(text).translate({0xFFFE: "?", 0xFFFF: "?"})
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
