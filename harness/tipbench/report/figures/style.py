"""How every figure looks, and how it becomes bytes: the same ones for the same input, whoever's matplotlib it is."""

from __future__ import annotations

import io
import math
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL import Image, ImageColor

from tipbench.report.figures.palette import PALETTE
from tipbench.report.figures.svg import DOT, DOTS, compact
from tipbench.report.rows import Row
from tipbench.report.wording import plain
from tipbench.verdict.rules import AT_MOST, MARGIN

LIGHT = {name: light for name, (light, _) in PALETTE.items()}

WIDTH = 4.6
"""Inches. On a phone, 343 pixels wide, text of SMALL and MEDIUM is 8 and 9 pixels high."""

SMALL, MEDIUM, LARGE = 8.0, 9.0, 11.0
"""Sizes of text, in points."""

DOTS_AN_INCH = 192
"""Two to a CSS pixel."""

SETTINGS: dict[Any, Any] = {
    "text.parse_math": False,  # a name such as "$x$" is no formula
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: widths are the same everywhere
    "font.size": SMALL,
    "text.color": LIGHT["ink"],
    "axes.edgecolor": LIGHT["muted"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "figure.facecolor": LIGHT["paper"],
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.5,
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.labelcolor": LIGHT["ink"],
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "lines.solid_capstyle": "butt",
    "svg.fonttype": "none",
    "svg.hashsalt": "tipbench",
}


@dataclass(frozen=True)
class Mark:
    """How a verdict is drawn: by shape and filling as well as by colour. size: of the marker, in points."""

    color: str
    shape: str
    size: float
    filled: bool = True


MARKS = {
    "faster": Mark(LIGHT["faster"], ">", 5.0),
    "slower": Mark(LIGHT["slower"], "<", 5.0),
    "no difference": Mark(LIGHT["same"], "s", 4.0),
    AT_MOST: Mark(LIGHT["same"], "D", 3.8, filled=False),
    "inconclusive": Mark(LIGHT["unclear"], "o", 4.6, filled=False),
}


@dataclass(frozen=True)
class Drawing:
    """A figure before it is painted. name: in letters, digits and dashes. alt: a sentence of what it shows."""

    name: str
    alt: str
    paint: Callable[[], Figure]


def save(drawing: Drawing, format: str) -> bytes:
    """The figure as "svg", whose colours follow the page that shows it, or "png", on white."""
    # A name may hold characters that the font lacks; they are shown as boxes, and no warning is needed.
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        figure, content = drawing.paint(), io.BytesIO()
        if format == "svg":
            metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
            figure.savefig(content, format="svg", transparent=True, metadata=metadata)
            return compact(content.getvalue(), drawing.name, drawing.alt)
        figure.set_dpi(DOTS_AN_INCH)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    small = picture.quantize(palette=_shades(), dither=Image.Dither.NONE)
    small.save(content, "PNG", optimize=True, dpi=(DOTS_AN_INCH, DOTS_AN_INCH))
    return content.getvalue()


def _shades() -> Image.Image:
    """The colours that a figure has, and what softens their edges on paper: a third of the bytes."""
    pale = ("paper", "band", "grid")
    channels = [channel for name in pale for channel in ImageColor.getrgb(LIGHT[name])]
    for strong in (ImageColor.getrgb(color) for name, color in LIGHT.items() if name not in pale):
        channels += [255 - (255 - channel) * step // 8 for step in range(1, 9) for channel in strong]
    palette = Image.new("P", (1, 1))
    palette.putpalette(channels)
    return palette


def sheet(height: float) -> Figure:
    """An empty figure, so many inches high."""
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    return figure


def axes(figure: Figure, left: float, bottom: float, right: float, top: float) -> Axes:
    """Axes whose edges lie so many inches from those of the figure."""
    width, height = figure.get_size_inches()
    box = (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
    return figure.add_axes(box)


def title(figure: Figure, text: str, below: str = "") -> None:
    """A title at the figure's upper left, with a fainter line below it."""
    width, height = figure.get_size_inches()
    at = 0.06 / width
    figure.text(at, 1 - 0.08 / height, text, size=LARGE, weight="bold", ha="left", va="top")
    if below:
        figure.text(at, 1 - 0.3 / height, below, size=SMALL, color=LIGHT["muted"], ha="left", va="top")


def estimates(
    over: Axes, verdict: str, at: Sequence[float], found: Sequence[tuple[float, float, float]], upright: bool = False
) -> None:
    """Estimates of one verdict, each (ln speedup, ln low, ln high), with their intervals.

    at: their places on the other axis. upright: whether speedups run upwards instead of to the right.
    """
    mark, middles = MARKS[verdict], [middle for middle, _, _ in found]
    lows, highs = [low for _, low, _ in found], [high for _, _, high in found]
    line = over.vlines if upright else over.hlines
    line(at, lows, highs, colors=mark.color, linewidth=1.2 if mark.filled else 0.6, zorder=3)
    over.plot(*((at, middles) if upright else (middles, at)), zorder=4, **marker(mark))


def launches(over: Axes, xs: Sequence[float], ys: Sequence[float]) -> Line2D:
    """A dot a launch."""
    (dots,) = over.plot(xs, ys, "o", markersize=DOT, markeredgewidth=0, color=LIGHT["muted"], zorder=2, gid=DOTS)
    return dots


def no_difference(over: Axes) -> None:
    """The band of +-1 % and its edges, of speedups that run upwards."""
    over.axhspan(-MARGIN, MARGIN, facecolor=LIGHT["band"], edgecolor="none", zorder=0)
    for edge in (-MARGIN, MARGIN):
        over.axhline(edge, color=LIGHT["muted"], linewidth=0.4, linestyle=(0, (2, 2)), zorder=1)


def legend(figure: Figure, verdicts: Sequence[str], top: float) -> None:
    """One line that says what the marks of these verdicts mean, `top` inches below the figure's upper edge."""
    handles = [Line2D([], [], label=verdict, **marker(MARKS[verdict])) for verdict in MARKS if verdict in verdicts]
    key(figure, handles, top)


def key(figure: Figure, handles: Sequence[Line2D | Patch], top: float) -> None:
    """One line that says what marks mean, by their labels."""
    height = figure.get_size_inches()[1]
    figure.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, 1 - top / height), ncols=len(handles), fontsize=SMALL,
        handletextpad=0.3, columnspacing=0.9, borderpad=0.3, handlelength=1.0,
    )  # fmt: skip


def ratio_ticks(axis: Axis, low: float, high: float, most: int) -> None:
    """Label an axis of natural logarithms with ratios: 0.9x, 1x, 1.1x; 1x always, even beyond [low, high]."""
    found = sorted({1.0, *ticks(low, high, most)})
    axis.set_ticks([math.log(ratio) for ratio in found], [times(ratio) for ratio in found])


def times(ratio: float) -> str:
    """`0.95x`, `1,000x`: three digits."""
    return f"{float(f'{ratio:.3g}'):,.15g}x"


FAMILIES = (
    *(tuple(1 + step * k for k in range(-math.ceil(0.4 / step), math.ceil(1 / step))) for step in (0.01, 0.02, 0.05)),
    (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2),
    (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0),
    (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0),
    *(tuple(n * 10.0**k for k in range(-9, 10) for n in steps) for steps in ((1, 2, 5), (1, 3), (1,))),
    *(tuple(10.0 ** (step * k) for k in range(-300 // step, 300 // step)) for step in (2, 5, 10, 25, 50, 100)),
)
"""Ratios that ticks are taken from, finest first."""


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round ratios whose logarithms lie within [low, high], no two nearer than a `most`-th of it."""
    for family in FAMILIES:
        found = [ratio for ratio in family if low <= math.log(ratio) <= high]
        covered = family[0] == 1e-9 or (math.log(family[0]) <= low and high <= math.log(family[-1]))
        near = any(math.log(after / before) < (high - low) / most for before, after in pairwise(found))
        if found and covered and not near:
            return [float(f"{ratio:.6g}") for ratio in found]
    return [1.0]


def limits(points: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """Of an axis of logarithms: all points fit, 1x and a little around it, and the ends of intervals unless they
    lie so far out that nothing else could be read."""
    low, high = min([*points, math.log(0.95)]), max([*points, math.log(1.05)])
    far = math.log(3)
    low, high = max(min([low, *ends]), low - far), min(max([high, *ends]), high + far)
    room = 0.03 * (high - low)
    return low - room, high + room


def ln(row: Row) -> tuple[float, float, float]:
    """(ln speedup, ln low, ln high) of a row that was measured; three times the first where there is no interval."""
    judged = row.judgement
    speedup = judged.speedup or 1.0
    return math.log(speedup), math.log(judged.low or speedup), math.log(judged.high or speedup)


NO_XML = {0xFFFE: "?", 0xFFFF: "?"}
"""No characters, and beside those that `plain` leaves out the only ones that XML forbids."""


def shown(text: str, most: int) -> str:
    """Foreign text in one line of at most so many letters' width; wide characters take two."""
    text, width = plain(text).translate(NO_XML), 0
    for index, character in enumerate(text):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > most:
            return f"{text[: max(index - 1, 1)]}…"
    return text


def marker(mark: Mark) -> dict[str, Any]:
    return {
        "linestyle": "none",
        "marker": mark.shape,
        "markersize": mark.size,
        "markeredgecolor": mark.color,
        "markerfacecolor": mark.color if mark.filled else LIGHT["paper"],
        "markeredgewidth": 1.0,
    }
