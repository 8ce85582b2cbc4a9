"""A page as DokuWiki's markup, after dokuwiki.org/wiki:syntax and the modes of its parser (inc/Parsing/ParserMode).

Foreign text is put between %% and %%, where DokuWiki knows no markup, no smileys, no typography and no acronyms.
It has no markup for folding, nor for code beside code: both are shown one below the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
"""From another page's key to its id on the wiki, which needs no escaping."""

Image = Callable[[str], tuple[str, int]]
"""From a figure's name to its file's id and how wide it is to be shown, 0 for as it is."""

MARKS = (
    "//What follows is written by tipbench: changes to it are lost at the next publishing.//",
    "//Here ends what tipbench writes.//",
)
"""DokuWiki has no comments, so readers see them."""

HARMLESS = re.compile(r"[A-Z]?[a-z]+(?: [a-z]+)*")
"""Words that are shown as they are without any marks, so that the source stays readable."""

JOINER = "\u2060"
"""Shows nothing; it parts characters that would end what they stand in."""


def render(page: Page, link: Place, image: Image | None) -> str:
    """The page with its title. image: None where the wiki takes no files: then a figure is described in words."""
    blocks = _Blocks(link, image, _anchors(page.blocks))
    return "\n\n".join([f"====== {_raw(page.title) or '-'} ======", *blocks.all(page.blocks)])


def text(foreign: object) -> str:
    """Foreign text as one line that DokuWiki shows as it is, in a table's cell too."""
    shown = _raw(foreign)
    if not shown or HARMLESS.fullmatch(shown):
        return shown
    parts = [part for part in re.split("(%{2,})", shown) if part]
    return "".join(f"<nowiki>{part}</nowiki>" if "%%" in part else f"%%{part}%%" for part in parts)


def _raw(foreign: object) -> str:
    """For headings and titles of links and images, which know no markup but their own end."""
    return re.sub("[\ufffe\uffff]", "\ufffd", plain(str(foreign)))  # XML, which carries it, has no such characters


def _anchors(blocks: Iterable[Block]) -> dict[str, str]:
    """From our anchors to headings' words: DokuWiki makes anchors of headings itself, by settings of its own, and
    does the same with what a link names after its #."""
    found: dict[str, str] = {}
    for block in blocks:
        if isinstance(block, Heading) and block.anchor:
            found[block.anchor] = re.sub(r"[^\w\s:;/.-]", " ", _raw(block.text))
        elif isinstance(block, Folded):
            found |= _anchors(block.blocks)
    return found


class _Blocks:
    def __init__(self, link: Place, image: Image | None, anchors: Mapping[str, str]) -> None:
        self._link, self._image, self._anchors = link, image, anchors

    def all(self, listed: Iterable[Block]) -> list[str]:
        return [self._block(block) for block in listed]

    def _block(self, block: Block) -> str:
        if isinstance(block, Heading):
            marks = "=" * (7 - min(max(block.level, 2), 5))
            return f"{marks} {_raw(block.text) or '-'} {marks}"
        if isinstance(block, Paragraph):
            return self._line(block.line)
        if isinstance(block, Quote):
            return "\n".join(f"> {self._line(line)}" for line in block.lines)
        if isinstance(block, Bullets):
            return "\n".join(f"  * {self._line(line)}" for line in block.lines)
        if isinstance(block, Table):
            head = "".join(f"^ {text(name)} " for name in block.head)
            rows = ["".join(f"| {self._cell(cell)} " for cell in row) for row in block.rows]
            return "\n".join([f"{head}^", *(f"{row}|" for row in rows)])
        if isinstance(block, Code):
            return _code(block)
        if isinstance(block, SideBySide):
            sides = zip(block.titles, (block.left, block.right), strict=True)
            return "\n\n".join(f"**{text(title)}**\n\n{_code(side)}" for title, side in sides)
        if isinstance(block, Figure):
            return self._figure(block)
        if isinstance(block, Folded):
            return "\n\n".join([f"**{text(block.summary)}**", *self.all(block.blocks)])
        raise TypeError(f"{type(block).__name__} is no block of a page")

    def _cell(self, cell: Cell) -> str:
        if cell.line in ((cell.kind,), (Strong(cell.kind),)):  # a word or two that many rows have: not to be broken
            return self._line(cell.line).replace(" ", "\u00a0")
        return self._line(cell.line)

    def _line(self, line: Line) -> str:
        return "".join(map(self._span, line)).strip()

    def _span(self, span: Span) -> str:
        if isinstance(span, str):
            inner = text(span)
            # `plain` takes the blanks at the ends away, which part this span from its neighbours
            before, after = (" " * (span[end : end + 1 or None].isspace()) for end in (0, -1))
            return f"{before}{inner}{after if inner else ''}"
        if isinstance(span, Strong):
            return f"**{text(span.text)}**" if _raw(span.text) else ""
        if isinstance(span, Literal):
            return f"''{text(span.text)}''" if _raw(span.text) else ""
        if isinstance(span, Link):
            return self._linked(span)
        if isinstance(span, Break):
            return r"\\ "
        raise TypeError(f"{type(span).__name__} is no part of a line")

    def _linked(self, span: Link) -> str:
        shown = re.sub(r"\](?=\])|\{(?=\{)", rf"\g<0>{JOINER}", _raw(span.text))
        if span.to.startswith(("https://", "http://")):
            return f"[[{quote(span.to, safe=':/?#@!$&*+,;=%~()')}|{shown}]]"
        key, _, anchor = span.to.partition("#")
        if not key:
            return f"[[#{self._anchors.get(anchor) or _name(anchor)}|{shown}]]"
        return f"[[:{self._link(key)}{f'#{_name(anchor)}' if anchor else ''}|{shown}]]"

    def _figure(self, figure: Figure) -> str:
        caption = f"\n\n//{text(figure.caption)}//" if _raw(figure.caption) else ""
        if self._image is None:
            return f"//Figure, not shown as this wiki takes no files from us://  {text(figure.alt)}{caption}"
        alt = _raw(figure.alt).replace("}", f"}}{JOINER}")
        id, width = self._image(figure.name)
        return f"{{{{:{id}?direct{f'&{width}' if width else ''}|{alt}}}}}{caption}"


def _name(anchor: str) -> str:
    return re.sub(r"[^\w.-]", "_", anchor)


def _code(code: Code) -> str:
    """Within <code> there is no markup but its end. A line that reads like a mark of ours is made to be none.

    No language is named: DokuWiki's colours for Python have too little contrast to be read."""
    lines = re.sub("[\ufffe\uffff]", "\ufffd", lines_of(code.text)).split("\n")
    shown = "\n".join(f"{line}{JOINER}" if line.strip() in MARKS else line for line in lines)
    return f"<code>\n{shown.replace('</code', f'<{JOINER}/code')}\n</code>"
