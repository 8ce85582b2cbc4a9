"""A page in no format: what reports, comparisons and wikis are rendered from.

All text in it is raw and may be foreign; whoever renders a page escapes it for its own format, and shows it
through `tipbench.report.wording.plain`. Each format is one small renderer: a function from Page to str.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Strong:
    """Words that stand out."""

    text: str


@dataclass(frozen=True)
class Literal:
    """Code within a line: a name, a path or a command."""

    text: str


@dataclass(frozen=True)
class Link:
    """to: "#anchor" of this page, "https://...", or the key of another page, which may end with "#anchor"."""

    text: str
    to: str


@dataclass(frozen=True)
class Break:
    """A line break within a paragraph or a cell."""


@dataclass(frozen=True)
class Interval:
    """An interval of a ratio, to be drawn within a line by formats that can. The words beside it say the same."""

    low: float
    mean: float
    high: float


Span = str | Strong | Literal | Link | Break | Interval
Line = tuple[Span, ...]


@dataclass(frozen=True)
class Heading:
    """level: 2 below the page's title, 3 below that. anchor: what links to it name, empty for none."""

    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True)
class Paragraph:
    line: Line


@dataclass(frozen=True)
class Quote:
    """What is set apart, as limits do; one item a line."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Bullets:
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Cell:
    """sort: what a table that can be sorted goes by, where that is not the text. kind: the word that a reader
    filters by and a renderer may colour, such as an answer or a verdict; its text is always shown as well."""

    line: Line
    sort: float | None = None
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """name: unique on the page, in letters, digits and dashes: a page's state names its tables by it. cards: the
    columns, counted from 0, in the order in which a narrow screen shows a row's cells below each other, as a card;
    without them it scrolls there."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    cards: tuple[int, ...] = ()


@dataclass(frozen=True)
class Code:
    text: str
    language: str = ""


@dataclass(frozen=True)
class SideBySide:
    """Two pieces of code to be read beside each other, each under its title."""

    titles: tuple[str, str]
    left: Code
    right: Code


@dataclass(frozen=True)
class Figure:
    """name: of its files, without the ending: `name.svg`, `name.png`. alt: what it shows, for who cannot see it."""

    name: str
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Folded:
    """What most readers pass over; formats that cannot fold show it whole, under its summary."""

    summary: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Quote | Bullets | Table | Code | SideBySide | Figure | Folded


@dataclass(frozen=True)
class Page:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Parted:
    """A page that is read, and the pages below it that hold its evidence, by the keys that its links name."""

    front: Page
    below: Mapping[str, Page]


def figures(page: Page) -> Iterator[Figure]:
    """All figures of a page, those within folded parts too."""
    stack = list(reversed(page.blocks))
    while stack:
        block = stack.pop()
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Folded):
            stack += reversed(block.blocks)
