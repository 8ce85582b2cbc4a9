"""A page in Confluence's storage format: XHTML with elements of Confluence's own for macros, links and images.

Written after "Confluence Storage Format" and the pages of the macros used (anchor, code, expand, info, status) in
Atlassian's documentation. One block is one line, so that differences can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape

from tipbench.report.advice import DO_NOT, IMPOSSIBLE, UNCLEAR, USE
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

COLOURS = {
    "faster": "Green",
    USE: "Green",
    "slower": "Red",
    "failed": "Red",
    DO_NOT: "Red",
    "inconclusive": "Yellow",
    UNCLEAR: "Yellow",
    "skipped": "Blue",
    IMPOSSIBLE: "Blue",
}
"""Of the lozenges around a cell's kind; what is not here is grey. The word is in the lozenge."""

LANGUAGES = {"bash": "bash", "diff": "diff", "json": "js", "python": "py", "sh": "bash"}
"""What the code macro calls them; it shows no code at all in a language that it does not know."""

CDATA = re.compile(r"<!\[CDATA\[.*?\]\]>", re.DOTALL)

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(page: Page, title_of: Callable[[str], str]) -> str:
    """title_of: from another page's key to its title, which is what Confluence links by."""
    return "\n".join([f"<h1>{text(page.title)}</h1>", *_blocks(page.blocks, title_of, folding=True)])


def text(foreign: object) -> str:
    """Foreign text as one line that storage format shows as it is, in an attribute too."""
    return escape(NOT_XML.sub("", plain(str(foreign))))


def macro(name: str, parameters: dict[str, str], body: str = "") -> str:
    """parameters: escaped already. body: its whole element, where the macro has one."""
    given = "".join(f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items())
    return f'<ac:structured-macro ac:name="{name}">{given}{body}</ac:structured-macro>'


def anchor(name: str) -> str:
    """What links lead to; it shows nothing."""
    return macro("anchor", {"": text(name)})


def unmarked(storage: str) -> str:
    """The same with what reads like one of our marks parted wherever it is code and none: text as it is (CDATA) is
    the only place where foreign text could spell one."""
    return CDATA.sub(lambda found: re.sub(r"(?<=tipbench-)(?=(begin|end)</)", "]]><![CDATA[", found[0]), storage)


def _blocks(listed: Iterable[Block], title_of: Callable[[str], str], folding: bool) -> list[str]:
    return [_block(block, title_of, folding) for block in listed]


def _block(block: Block, title_of: Callable[[str], str], folding: bool) -> str:
    if isinstance(block, Heading):
        level = min(max(block.level, 1), 6)
        return f"<h{level}>{anchor(_place(block.anchor)) if block.anchor else ''}{text(block.text)}</h{level}>"
    if isinstance(block, Paragraph):
        return _paragraph(block.line, title_of)
    if isinstance(block, Quote):
        return macro("info", {}, _rich("".join(_paragraph(line, title_of) for line in block.lines)))
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{_paragraph(line, title_of)}</li>' for line in block.lines)}</ul>"
    if isinstance(block, Table):
        rows = ["".join(f"<td>{_cell(cell, title_of)}</td>" for cell in row) for row in block.rows]
        return _table([f"<p>{text(name)}</p>" for name in block.head], rows)
    if isinstance(block, Code):
        return _code(block)
    if isinstance(block, SideBySide):
        titles = [f"<p>{text(title)}</p>" for title in block.titles]
        return _table(titles, [f"<td>{_code(block.left)}</td><td>{_code(block.right)}</td>"])
    if isinstance(block, Figure):
        return _figure(block)
    if isinstance(block, Folded):
        if not folding:  # Confluence does not fold within what is folded
            inside = _blocks(block.blocks, title_of, folding)
            return "".join([f"<p><strong>{text(block.summary)}</strong></p>", *inside])
        inside = _blocks(block.blocks, title_of, folding=False)
        return macro("expand", {"title": text(block.summary)}, _rich("".join(inside)))
    raise TypeError(f"{type(block).__name__} is no block of a page")


def _place(name: str) -> str:
    """A heading's anchor, which may not be named as our marks are."""
    return name.replace("tipbench-", "tipbench_")


def _rich(body: str) -> str:
    return f"<ac:rich-text-body>{body}</ac:rich-text-body>"


def _paragraph(line: Line, title_of: Callable[[str], str]) -> str:
    return f"<p>{''.join(_span(span, title_of) for span in line)}</p>"


def _span(span: Span, title_of: Callable[[str], str]) -> str:
    if isinstance(span, str):
        inner = text(span)
        # `plain` takes the blanks at the ends away, which part this span from its neighbours
        before, after = (" " * (span[end : end + 1 or None].isspace()) for end in (0, -1))
        return f"{before}{inner}{after if inner else ''}"
    if isinstance(span, Strong):
        return f"<strong>{text(span.text)}</strong>"
    if isinstance(span, Literal):
        return f"<code>{text(span.text)}</code>"
    if isinstance(span, Link):
        return _link(span, title_of)
    return "<br />"


def _link(span: Link, title_of: Callable[[str], str]) -> str:
    if span.to.startswith(("https://", "http://")):
        return f'<a href="{text(span.to)}">{text(span.text)}</a>'
    key, _, name = span.to.partition("#")
    place = f' ac:anchor="{text(_place(name))}"' if name else ""
    page = f'<ri:page ri:content-title="{text(title_of(key))}" />' if key else ""
    body = f"<ac:plain-text-link-body>{_cdata(NOT_XML.sub('', plain(span.text)))}</ac:plain-text-link-body>"
    return f"<ac:link{place}>{page}{body}</ac:link>"


def _table(head: Iterable[str], rows: Iterable[str]) -> str:
    """Both as XHTML; rows hold their cells."""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><tbody><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{body}</tbody></table>"


def _cell(cell: Cell, title_of: Callable[[str], str]) -> str:
    lozenge = macro("status", {"colour": COLOURS.get(cell.kind, "Grey"), "title": text(cell.kind)})
    spans = (
        lozenge if cell.kind and span in (cell.kind, Strong(cell.kind)) else _span(span, title_of) for span in cell.line
    )
    return f"<p>{''.join(spans)}</p>"


def _code(code: Code) -> str:
    language = LANGUAGES.get(code.language)
    body = f"<ac:plain-text-body>{_cdata(NOT_XML.sub('', lines_of(code.text)))}</ac:plain-text-body>"
    return macro("code", {"language": language} if language else {}, body)


def _cdata(shown: str) -> str:
    """Within it nothing is markup but its end, which is parted."""
    return unmarked(f"<![CDATA[{shown.replace(']]>', ']]]]><![CDATA[>')}]]>")


def _figure(figure: Figure) -> str:
    image = (
        f'<ac:image ac:alt="{text(figure.alt)}"><ri:attachment ri:filename="{text(f"{figure.name}.png")}" /></ac:image>'
    )
    caption = f"<p><em>{text(figure.caption)}</em></p>" if figure.caption else ""
    return f"<p>{image}</p>{caption}"
