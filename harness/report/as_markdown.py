"""A page as Markdown, as GitHub, GitLab, Gitea and Azure DevOps show it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from urllib.parse import quote

from tipbench.report.document import (
    Block,
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
"""From what a page names to where it lies: the address of another page, or of a figure's file."""


def render(page: Page, link: Place = str, image: Place | None = None) -> str:
    """The whole page. link: from another page's key to its address. image: from a figure's name to its file's
    address; without one a figure is described in words."""
    return f"# {text(page.title)}\n\n{blocks(page.blocks, link, image)}"


def blocks(listed: Iterable[Block], link: Place = str, image: Place | None = None) -> str:
    """The blocks alone, as they stand below a title; as `render` takes its arguments."""
    return "\n\n".join(_block(block, link, image) for block in listed) + "\n"


def text(foreign: object) -> str:
    """Foreign text as one line that Markdown and HTML show as it is, in a table's cell too."""
    return _escaped(str(foreign))


@lru_cache(10_000)
def _escaped(foreign: str) -> str:
    shown = plain(foreign)
    shown = shown.replace("&", "&amp;").replace("<", "&lt;")
    # single brackets stay readable: only `](` makes a link, and `[[` one in a wiki
    shown = re.sub(r"[\\`*|~$]|\[(?=\[)|\](?=\()", r"\\\g<0>", shown)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", shown)  # inside words it is only a character


def _block(block: Block, link: Place, image: Place | None) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {text(block.text)}"
    if isinstance(block, Paragraph):
        return _begun(_line(block.line, link))
    if isinstance(block, Quote):
        return "\n".join(f"> {_line(line, link)}<br>" for line in block.lines).removesuffix("<br>")
    if isinstance(block, Bullets):
        return "\n".join(f"- {_begun(_line(line, link))}" for line in block.lines)
    if isinstance(block, Table):
        return _table(block, link)
    if isinstance(block, Code):
        return _code(block)
    if isinstance(block, SideBySide):
        sides = zip(block.titles, (block.left, block.right), strict=True)
        return "\n\n".join(f"**{text(title)}**\n\n{_code(side)}" for title, side in sides)
    if isinstance(block, Figure):
        return _figure(block, image)
    if isinstance(block, Folded):
        inside = blocks(block.blocks, link, image)
        return f"<details><summary>{text(block.summary)}</summary>\n\n{inside}\n</details>"
    raise TypeError(f"{type(block).__name__} is no block of a page")


def _begun(line: str) -> str:
    """A line that its beginning makes no heading, list, quote or rule."""
    return re.sub(r"^(\d+)(?=[.)](?:\s|$))", r"\1\\", re.sub(r"^(?=[#>+=-])", r"\\", line))


def _line(line: Line, link: Place, in_table: bool = False) -> str:
    return "".join(_span(span, link, in_table) for span in line)


def _span(span: Span, link: Place, in_table: bool) -> str:
    if isinstance(span, str):
        edges = re.fullmatch(r"(\s*)(.*?)(\s*)", span, re.DOTALL)
        before, inner, after = edges.groups() if edges else ("", span, "")
        # `plain` takes the blanks at the ends away, which part this span from its neighbours
        return f"{' ' * bool(before)}{text(inner)}{' ' * bool(after and inner)}"
    if isinstance(span, Strong):
        return f"**{text(span.text)}**"
    if isinstance(span, Literal):
        shown = plain(span.text).replace("`", "'")
        return f"`{shown.replace('|', chr(92) + '|') if in_table else shown}`"
    if isinstance(span, Link):
        return _link(span, link)
    return "<br>"


def _link(span: Link, link: Place) -> str:
    if span.to.startswith(("http://", "https://")):
        to = quote(span.to, safe=":/?#@!$&'*+,;=%~")
    elif span.to.startswith("#"):
        to = quote(span.to, safe="#")
    else:
        to = link(span.to)
    return f"[{text(span.text)}]({to})"


def _table(table: Table, link: Place) -> str:
    rows = [[_cell(cell, link) for cell in row] for row in table.rows]
    return _rows([[text(name) for name in table.head], ["---"] * len(table.head), *rows])


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: Cell, link: Place) -> str:
    return _line(cell.line, link, in_table=True) or " "


def _code(code: Code) -> str:
    shown = lines_of(code.text)
    longest = max((len(found) for found in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    language = re.sub(r"[^a-z]", "", code.language)
    return f"{fence}{language}\n{shown}\n{fence}"


def _figure(figure: Figure, image: Place | None) -> str:
    alt = text(figure.alt).replace("]", r"\]")
    caption = f"\n\n{text(figure.caption)}" if figure.caption else ""
    return f"![{alt}]({image(figure.name)}){caption}" if image else f"Figure: {text(figure.alt)}{caption}"
