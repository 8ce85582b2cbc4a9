"""A page as one HTML document that needs nothing beside itself: its styles, script and figures are in it.

`html/page.html` is the markup, `html/style.css` what it looks like on screens and on paper, `html/page.js` what
sorts and filters its tables. Without the script all of the page is still there.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import get_args
from urllib.parse import quote, urlsplit

import jinja2
from markupsafe import Markup

from tipbench.report.document import (
    Block,
    Break,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Interval,
    Link,
    Literal,
    Page,
    SideBySide,
    Span,
    Strong,
    Table,
)
from tipbench.report.figures.palette import PALETTE
from tipbench.report.wording import lines_of, plain

FOLDER = Path(__file__).parent / "html"

WIDE, BROAD, LONG = 6, 12, 12
"""A table of more columns than WIDE scrolls in a region of its own, downwards too with more rows than LONG. With more
than BROAD it is set smaller, and the whole document is printed across: mixed sheets would part heads from tables."""

PARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[_=/.])")
"""Where the parts of a name meet: `Resnet|Training`, `num_|workers=|8`."""


def beside(key: str) -> str:
    """Where another page lies that was written into the same folder tree: its key with the ending .html."""
    name, mark, anchor = key.partition("#")
    return f"{quote(name)}.html{mark}{anchor}"


def render(page: Page, figures: Mapping[str, bytes] = MappingProxyType({}), link: Callable[[str], str] = beside) -> str:
    """The document, the same for the same page.

    figures: SVG files by `Figure.name` as `tipbench.report.figures` makes them, whose ids and rules are their own;
    one that is missing is described in words.
    link: from another page's key, which may end with "#anchor", to its address. A link to what is neither a page
    nor the web (`javascript:`, another host without `https:`) is shown as its text alone.
    """
    blocks = _named(page.blocks, set(), set())
    script = (FOLDER / "page.js").read_text("utf-8")
    cards = _cards(_tables(blocks))
    return _template().render(
        title=page.title,
        blocks=blocks,
        contents=[block for block in blocks if isinstance(block, Heading) and block.level == 2],
        svg=partial(_svg, figures),
        address=partial(_address, link),
        wide=WIDE,
        broad=BROAD,
        long=LONG,
        landscape=any(len(table.head) > BROAD for table in _tables(blocks)),
        light=_palette(0),
        dark=_palette(1),
        cards=cards,
        styles_of_cards=Markup("\n".join(_styles_of_cards(number, *kind) for kind, number in cards.items())),
        style=Markup((FOLDER / "style.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


INTERVAL_ENDS = 0.5, 2.0
"""Ratios at the ends of the axis on which intervals within lines are drawn; what lies beyond is drawn as an arrow."""


@cache
def _template() -> jinja2.Template:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(shown=_shown, breakable=_breakable, code=_code, compared=_compared, drawn=_drawn)
    found.filters.update(sort_key=_sort_key, hidden_kind=_hidden_kind)
    kinds = (Strong, Literal, Link, Break, Interval, *get_args(Block))
    found.tests.update({kind.__name__: partial(_is_a, kind) for kind in kinds})
    return found.get_template("page.html")


def _is_a(kind: type, found: object) -> bool:
    return isinstance(found, kind)


# ---- names: what addresses and the page's own state point at ----


def _named(blocks: Sequence[Block], anchors: set[str], tables: set[str]) -> tuple[Block, ...]:
    """The blocks with a valid name on every heading and table that no other has. The template puts a colon into names
    of its own, which none of these holds."""
    return tuple(_with_name(block, anchors, tables) for block in blocks)


def _with_name(block: Block, anchors: set[str], tables: set[str]) -> Block:
    if isinstance(block, Heading):
        return replace(block, anchor=_unique(_name(block.anchor or f"section-{plain(block.text).lower()}"), anchors))
    if isinstance(block, Table):
        return replace(block, name=_unique(_name(block.name) or "table", tables))
    if isinstance(block, Folded):
        return replace(block, blocks=_named(block.blocks, anchors, tables))
    return block


def _tables(blocks: Sequence[Block]) -> Iterator[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Folded):
            yield from _tables(block.blocks)


# ---- cards ----


def _cards(tables: Iterator[Table]) -> dict[tuple[tuple[str, ...], tuple[int, ...]], int]:
    """By head and order of the cells, the number of each kind of cards."""
    return {key: number for number, key in enumerate(dict.fromkeys((t.head, t.cards) for t in tables if t.cards))}


def _styles_of_cards(number: int, head: Sequence[str], cards: Sequence[int]) -> str:
    """The place of each cell on a card, and its name there: once for all tables of that kind."""
    rules = []
    for place, column in enumerate(cards):
        cell = f".cards-{number} tr > :nth-child({column + 1})"
        rules.append(f"{cell} {{ order: {place}; }}")
        if place:  # the first cell is what the card is about
            name = "".join(char if char.isalnum() and char.isascii() else f"\\{ord(char):x} " for char in head[column])
            rules.append(f'{cell}::before {{ content: "{name}:\\20 "; }}')
            rules.append(f'{cell}[data-kind]::before {{ content: "{name}:\\20 " var(--shape) "\\a0 "; }}')
    return f"@media screen and (max-width: 40rem) {{ {' '.join(rules)} }}"


def _name(wanted: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", wanted)


def _unique(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    free = next(found for found in itertools.chain([name], numbered) if found not in taken)
    taken.add(free)
    return free


def _address(link: Callable[[str], str], to: str) -> str:
    """What a link leads to, empty for what is refused."""
    if to.startswith("#"):
        return f"#{_name(to[1:])}"
    if to.startswith(("https://", "http://")):
        return to
    key, mark, anchor = to.partition("#")
    # What a browser takes for a scheme, another host or a way out of the folder is no page's key.
    if not key or re.search(r"[:\\\x00-\x20]|^/|(^|/)\.\.?(/|$)", key):
        return ""
    found = link(f"{key}{mark}{_name(anchor)}")
    return found if urlsplit(found).scheme in ("", "http", "https") and not found.startswith("//") else ""


# ---- text ----


def _shown(foreign: str) -> str:
    """Foreign text in one line; blanks at its ends stay, as they part it from the spans beside it."""
    kept = plain(foreign)
    if not kept:
        return " " if foreign else ""
    return f"{' ' * foreign[0].isspace()}{kept}{' ' * foreign[-1].isspace()}"


def _breakable(foreign: str) -> Markup:
    """As `_shown`; names that are long may break where their parts meet, so that no table is wider for their sake."""
    words = (PARTS.split(word) if len(word) > 12 else [word] for word in _shown(foreign).split(" "))
    return Markup(" ").join(Markup("<wbr>").join(word) for word in words)


def _code(code: Code) -> str:
    return lines_of(code.text)


def _compared(block: SideBySide) -> list[tuple[str, list[tuple[str, bool]]]]:
    """(title, lines, each with whether only this side has it) of both sides; none is marked where all differ."""
    left, right = (_code(side).split("\n") for side in (block.left, block.right))
    alike = difflib.SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    in_left = {match.a + offset for match in alike for offset in range(match.size)}
    in_right = {match.b + offset for match in alike for offset in range(match.size)}
    return [
        (title, [(line, bool(line and shared) and number not in shared) for number, line in enumerate(lines)])
        for title, lines, shared in zip(block.titles, (left, right), (in_left, in_right), strict=True)
    ]


def _sort_key(cell: Cell) -> str:
    """What the script reads as a number, finer than any cell is shown; empty where there is none to sort by."""
    if cell.sort is None or math.isnan(cell.sort):
        return ""
    return f"{cell.sort:.7g}".replace("inf", "Infinity")


def _hidden_kind(cell: Cell) -> str:
    """The cell's kind where its text does not say it: a reader must not depend on the colour."""
    said = " ".join(_words(span) for span in cell.line)
    return "" if cell.kind.casefold() in said.casefold() else cell.kind


def _words(span: Span) -> str:
    if isinstance(span, str):
        return span
    return "" if isinstance(span, Break | Interval) else span.text


# ---- figures and colours ----


def _svg(figures: Mapping[str, bytes], figure: Figure) -> Markup:
    """The figure's SVG without what only a file of its own begins with; empty where there is none."""
    text = figures.get(figure.name, b"").decode()
    return Markup(text[max(text.find("<svg"), 0) :])


def _drawn(span: Interval) -> Markup:
    """The interval on an axis that all of them share, with a mark at equal; nothing where it is no interval."""
    if not 0 < span.low <= span.mean <= span.high < math.inf:
        return Markup()
    places = [_on_axis(ratio) for ratio in (span.low, span.mean, span.high)]
    low, mean, high = (min(max(place, 4.0), 96.0) for place in places)
    kind = "faster" if span.low > 1 else "slower" if span.high < 1 else "unclear"
    parts = [f'<path class="axis" d="M4 8H96M50 1V15"/><path d="M{low:.4g} 8H{high:.4g}"/>']
    parts += ['<path d="M6 4L1 8L6 12"/>'] if places[0] < 4 else []
    parts += ['<path d="M94 4L99 8L94 12"/>'] if places[2] > 96 else []
    parts += [f'<circle cx="{mean:.4g}" cy="8" r="2.5"/>']
    return Markup(f'<svg class="interval {kind}" viewBox="0 0 100 16" aria-hidden="true">{"".join(parts)}</svg>')


def _on_axis(ratio: float) -> float:
    """From 0 to 100, where equal is 50; beyond them what the axis does not hold."""
    low, high = map(math.log, INTERVAL_ENDS)
    return 100 * (math.log(ratio) - low) / (high - low)


def _palette(side: int) -> Markup:
    """The colours of figures too, as CSS custom properties: side 0 for light backgrounds, 1 for dark."""
    return Markup("".join(f"--{name}: {pair[side]}; " for name, pair in PALETTE.items()))
