"""A page in Confluence's storage format: XHTML with elements of Confluence's own for macros, links and images.

Written after "Confluence Storage Format" and the pages of the macros used (anchor, code, expand, info, status) in
Atlassian's documentation. One block is one line, so that differences can be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from tipbench.publish.wiki import NO_FILES
from tipbench.report.advice import DEPENDS, DO_NOT, IMPOSSIBLE, UNCLEAR, USE, USE_IF
from tipbench.report.document import Cell, Code, Figure, Folded, Heading, Page, SideBySide, Strong
from tipbench.report.markup import Markup
from tipbench.report.wording import lines_of, plain

COLOURS = {
    **dict.fromkeys(("faster", USE, USE_IF), "Green"),
    **dict.fromkeys(("slower", "failed", DO_NOT), "Red"),
    **dict.fromkeys(("inconclusive", UNCLEAR, DEPENDS), "Yellow"),
    **dict.fromkeys(("skipped", IMPOSSIBLE), "Blue"),
}
"""Of the lozenges around a cell's kind; what is not here is grey. The word is in the lozenge."""

LANGUAGES = {"bash": "bash", "diff": "diff", "json": "js", "python": "py", "sh": "bash"}
"""What the code macro calls them; it shows no code at all in a language that it does not know."""

CDATA = re.compile(r"<!\[CDATA\[.*?\]\]>", re.DOTALL)

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def anchor(name: str) -> str:
    """What links lead to; it shows nothing."""
    return _macro("anchor", {"": escape(name)})


def unmarked(storage: str) -> str:
    """The same with what reads like one of our marks parted wherever it is code and none: text as it is (CDATA) is
    the only place where foreign text could spell one."""
    return CDATA.sub(lambda found: re.sub(r"(?<=tipbench-)(?=(begin|end)</)", "]]><![CDATA[", found[0]), storage)


def _macro(name: str, parameters: dict[str, str], body: str = "") -> str:
    """parameters: escaped already. body: its whole element, where the macro has one."""
    given = "".join(f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items())
    return f'<ac:structured-macro ac:name="{name}">{given}{body}</ac:structured-macro>'


def _rich(body: str) -> str:
    return f"<ac:rich-text-body>{body}</ac:rich-text-body>"


def _cdata(shown: str) -> str:
    """Within it nothing is markup but its end, which is parted."""
    return unmarked(f"<![CDATA[{NOT_XML.sub('', shown).replace(']]>', ']]]]><![CDATA[>')}]]>")


def _place(name: str) -> str:
    """A heading's anchor, which may not be named as our marks are."""
    return plain(name).replace("tipbench-", "tipbench_")


class Storage(Markup):
    line_break = "<br />"
    in_words = NO_FILES
    apart = ""
    around_strong = ("<strong>", "</strong>")
    around_literal = ("<code>", "</code>")
    around_caption = ("<p><em>", "</em></p>")
    _folds = True  # Confluence does not fold within what is folded

    def page(self, page: Page) -> str:
        return "\n".join([f"<h1>{self.text(page.title)}</h1>", *self.blocks(page.blocks)])

    def text(self, foreign: str) -> str:
        return escape(NOT_XML.sub("", plain(foreign)))

    def web_link(self, address: str, text: str) -> str:
        return f'<a href="{self.text(address)}">{self.text(text)}</a>'

    def page_link(self, key: str, anchor: str, text: str) -> str:
        place = f' ac:anchor="{self.text(_place(anchor))}"' if anchor else ""
        page = f'<ri:page ri:content-title="{self.text(self._link(key))}" />' if key else ""
        body = f"<ac:plain-text-link-body>{_cdata(plain(text))}</ac:plain-text-link-body>"
        return f"<ac:link{place}>{page}{body}</ac:link>"

    def heading(self, heading: Heading) -> str:
        level = min(max(heading.level, 1), 6)
        place = anchor(NOT_XML.sub("", _place(heading.anchor))) if heading.anchor else ""
        return f"<h{level}>{place}{self.text(heading.text)}</h{level}>"

    def paragraph(self, shown: str) -> str:
        return f"<p>{shown}</p>"

    def quote(self, shown: Sequence[str]) -> str:
        return _macro("info", {}, _rich("".join(map(self.paragraph, shown))))

    def bullets(self, shown: Sequence[str]) -> str:
        return f"<ul>{''.join(f'<li>{self.paragraph(line)}</li>' for line in shown)}</ul>"

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        names = "".join(f"<th>{self.paragraph(name)}</th>" for name in head)
        cells = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<table><tbody><tr>{names}</tr>{body}</tbody></table>"

    def cell(self, cell: Cell) -> str:
        lozenge = _macro("status", {"colour": COLOURS.get(cell.kind, "Grey"), "title": self.text(cell.kind)})
        of_kind = (cell.kind, Strong(cell.kind)) if cell.kind else ()
        return self.paragraph("".join(lozenge if span in of_kind else self.span(span) for span in cell.line))

    def code(self, code: Code) -> str:
        language = LANGUAGES.get(code.language)
        body = f"<ac:plain-text-body>{_cdata(lines_of(code.text))}</ac:plain-text-body>"
        return _macro("code", {"language": language} if language else {}, body)

    def side_by_side(self, block: SideBySide) -> str:
        return self.table(list(map(self.text, block.titles)), [[self.code(block.left), self.code(block.right)]])

    def drawing(self, figure: Figure) -> str:
        return self.paragraph(super().drawing(figure))

    def image(self, alt: str, file: str, width: int) -> str:
        return f'<ac:image ac:alt="{self.text(alt)}"><ri:attachment ri:filename="{self.text(file)}" /></ac:image>'

    def folded(self, block: Folded) -> str:
        if not self._folds:
            return "".join([self.paragraph(self.strong(block.summary)), *self.blocks(block.blocks)])
        self._folds = False
        inside = "".join(self.blocks(block.blocks))
        self._folds = True
        return _macro("expand", {"title": self.text(block.summary)}, _rich(inside))
