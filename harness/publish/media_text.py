"""A page as wikitext, the markup of MediaWiki, by its core alone: it needs no extension.

Characters that could be markup are written as entities, which the wiki's parser passes on untouched, before and
after saving. Forms follow mediawiki.org: Help:Tables, Help:Images, Help:Links, Manual:Collapsible elements.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from urllib.parse import quote

from tipbench.report.document import (
    Block,
    Break,
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Line,
    Link,
    Literal,
    Page,
    Paragraph,
    Quote,
    SideBySide,
    Span,
    Strong,
    Table,
)
from tipbench.report.wording import lines_of, plain

Place = Callable[[str], str]
"""From another page's key to its title on the wiki, which needs no escaping."""

Image = Callable[[str], tuple[str, int]]
"""From a figure's name to its file's title and how wide it is to be shown, 0 for as it is."""

ARROW, JOINER = "-&#62;", "&#8288;"
"""Browsers break a line within an arrow, if nothing that shows nothing joins it."""

FEW = 3
"""Headings. Of more the wiki shows the contents above the first, where they fill the screen: so they are folded."""

ACTIVE = re.compile(r"[^\w\s,.()/+@^$\\-]|(?<![^\W_])_|_(?![^\W_])|^-")
"""What may be markup somewhere. Letters, digits, blanks and a _ between letters are none, but for WORDS."""

WORDS = re.compile(r"\b(?:ISBN|RFC|PMID)(?=\s)")
"""Before a number they become links."""

IN_CODE = re.compile("[&<~{?:;!%\u00ab\u00bb\u2039\u203a]")
"""What the wiki replaces within <pre>: entities, its end, signatures and templates at saving, and blanks beside marks
by blanks that do not break, with which code that is copied does not run."""


def render(page: Page, link: Place, image: Image | None) -> str:
    """The page below its title, which the wiki shows by itself. image: None where the wiki takes no files: then a
    figure is described in words."""
    blocks = _blocks(page.blocks, link, image)
    headings = [number for number, block in enumerate(page.blocks) if isinstance(block, Heading)]
    if len(headings) > FEW:
        blocks.insert(headings[0], _collapsed("Contents", "__TOC__"))
    return "\n\n".join([f"'''{text(page.title)}'''", *blocks])


def text(foreign: object) -> str:
    """Foreign text as one line that a wiki shows as it is: in tables, links and attributes too."""
    shown = ACTIVE.sub(_entity, _stored(plain(str(foreign))))
    return WORDS.sub(lambda word: _entity(word) + word[0][1:], shown)


def _entity(found: re.Match[str]) -> str:
    """For the first of the characters that were found."""
    return f"&#{ord(found[0][0])};"


def _stored(shown: str) -> str:
    """As the wiki would store it: what is rendered must be what is read back, or each publishing were a change."""
    return unicodedata.normalize("NFC", re.sub("[\ufffe\uffff]", "\ufffd", shown))


def _blocks(listed: Iterable[Block], link: Place, image: Image | None) -> list[str]:
    return [_block(block, link, image) for block in listed]


def _block(block: Block, link: Place, image: Image | None) -> str:
    if isinstance(block, Heading):
        return _heading(block)
    if isinstance(block, Paragraph):
        return _line(block.line, link)
    if isinstance(block, Quote):
        lines = "<br>\n".join(_line(line, link) for line in block.lines)
        return f"<blockquote>\n{lines}\n</blockquote>"
    if isinstance(block, Bullets):
        return "\n".join(f"* {_line(line, link)}" for line in block.lines)
    if isinstance(block, Table):
        return _table(block, link)
    if isinstance(block, Code):
        return _code(block)
    if isinstance(block, SideBySide):
        return _side_by_side(block)
    if isinstance(block, Figure):
        return _figure(block, image)
    if isinstance(block, Folded):
        return _folded(block, link, image)
    raise TypeError(f"{type(block).__name__} is no block of a page")


def _heading(heading: Heading) -> str:
    shown = text(heading.text)
    # the wiki makes an anchor of the words, with _ for blanks
    named = heading.anchor and heading.anchor != plain(heading.text).replace(" ", "_")
    anchor = f'<span id="{text(heading.anchor)}"></span>' if named else ""
    marks = "=" * min(max(heading.level, 2), 6)
    return f"{marks} {anchor}{shown} {marks}"


def _line(line: Line, link: Place) -> str:
    return "".join(_span(span, link) for span in line).strip()


def _span(span: Span, link: Place) -> str:
    if isinstance(span, str):
        inner = text(span).replace(ARROW, f"-{JOINER}&#62;")
        # `plain` takes the blanks at the ends away, which part this span from its neighbours
        before, after = (" " * (span[end : end + 1 or None].isspace()) for end in (0, -1))
        return f"{before}{inner}{after if inner else ''}"
    if isinstance(span, Strong):
        return f"'''{text(span.text)}'''"
    if isinstance(span, Literal):
        return f"<code>{text(span.text)}</code>"
    if isinstance(span, Link):
        return _link(span, link)
    if isinstance(span, Break):
        return "<br>"
    raise TypeError(f"{type(span).__name__} is no part of a line")


def _link(span: Link, link: Place) -> str:
    if span.to.startswith(("https://", "http://")):
        return f"[{quote(span.to, safe=':/?#@!$&*+,;=%~()')} {text(span.text)}]"
    key, _, anchor = span.to.partition("#")
    place = f"#{text(anchor)}" if anchor else ""
    return f"[[{link(key) if key else ''}{place}|{text(span.text)}]]"


def _table(table: Table, link: Place) -> str:
    head = [f'! scope="col" | {text(name)}' for name in table.head]
    rows = ["\n".join(["|-", *(_cell(cell, link) for cell in row)]) for row in table.rows]
    return "\n".join(['{| class="wikitable sortable"', *head, *rows, "|}"])


def _cell(cell: Cell, link: Place) -> str:
    attributes = [f'data-sort-value="{cell.sort!r}"'] if cell.sort is not None else []
    attributes += ['style="white-space:nowrap"'] if cell.kind else []  # a word or two that many rows have
    set_by = f"{' '.join(attributes)} | " if attributes else ""
    return f"| {set_by}{_line(cell.line, link)}".rstrip()


def _code(code: Code) -> str:
    return f"<pre>\n{IN_CODE.sub(_entity, _stored(lines_of(code.text)))}\n</pre>"


def _side_by_side(block: SideBySide) -> str:
    head = [f'! scope="col" style="width:50%" | {text(title)}' for title in block.titles]
    sides = [f"|\n{_code(side)}" for side in (block.left, block.right)]
    return "\n".join(['{| class="wikitable" style="width:100%"', *head, '|- style="vertical-align:top"', *sides, "|}"])


def _figure(figure: Figure, image: Image | None) -> str:
    caption = f"\n\n''{text(figure.caption)}''" if figure.caption else ""
    if image is None:
        return f"''Figure, not shown as this wiki takes no files from tipbench:'' {text(figure.alt)}{caption}"
    title, width = image(figure.name)
    return f"[[File:{title}|{f'{width}px|' if width else ''}alt={text(figure.alt)}]]{caption}"


def _folded(block: Folded, link: Place, image: Image | None) -> str:
    return _collapsed(text(block.summary), "\n\n".join(_blocks(block.blocks, link, image)))


def _collapsed(summary: str, inside: str) -> str:
    """Both in wikitext. Without JavaScript all of it is shown."""
    return (
        f"<div class=\"mw-collapsible mw-collapsed\">\n'''{summary}'''\n"
        f'<div class="mw-collapsible-content">\n\n{inside}\n\n</div></div>'
    )
