"""A page as wikitext, the markup of MediaWiki, by its core alone: it needs no extension.

Characters that could be markup are written as entities, which the wiki's parser passes on untouched, before and
after saving. Forms follow mediawiki.org: Help:Tables, Help:Images, Help:Links, Manual:Collapsible elements.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import quote

from tipbench.publish.wiki import NO_FILES
from tipbench.report.document import Cell, Code, Folded, Heading, Line, Page, SideBySide, Span
from tipbench.report.markup import Markup
from tipbench.report.wording import lines_of, plain

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


def _entity(found: re.Match[str]) -> str:
    """For the first of the characters that were found."""
    return f"&#{ord(found[0][0])};"


def _stored(shown: str) -> str:
    """As the wiki would store it: what is rendered must be what is read back, or each publishing were a change."""
    return unicodedata.normalize("NFC", re.sub("[\ufffe\uffff]", "\ufffd", shown))


def _collapsed(summary: str, inside: str) -> str:
    """Both in wikitext. Without JavaScript all of it is shown."""
    return (
        f"<div class=\"mw-collapsible mw-collapsed\">\n'''{summary}'''\n"
        f'<div class="mw-collapsible-content">\n\n{inside}\n\n</div></div>'
    )


class Wikitext(Markup):
    in_words = NO_FILES
    around_strong = ("'''", "'''")
    around_literal = ("<code>", "</code>")
    around_caption = ("''", "''")

    def page(self, page: Page) -> str:
        """The page below its title, which the wiki shows by itself."""
        blocks = self.blocks(page.blocks)
        headings = [number for number, block in enumerate(page.blocks) if isinstance(block, Heading)]
        if len(headings) > FEW:
            blocks.insert(headings[0], _collapsed("Contents", "__TOC__"))
        return "\n\n".join([self.strong(page.title), *blocks])

    def line(self, line: Line) -> str:
        return super().line(line).strip()

    def span(self, span: Span) -> str:
        shown = super().span(span)
        return shown.replace(ARROW, f"-{JOINER}&#62;") if isinstance(span, str) else shown

    def text(self, foreign: str) -> str:
        shown = ACTIVE.sub(_entity, _stored(plain(foreign)))
        return WORDS.sub(lambda word: _entity(word) + word[0][1:], shown)

    def web_link(self, address: str, text: str) -> str:
        return f"[{quote(address, safe=':/?#@!$&*+,;=%~()')} {self.text(text)}]"

    def page_link(self, key: str, anchor: str, text: str) -> str:
        place = f"#{self.text(anchor)}" if anchor else ""
        return f"[[{self._link(key) if key else ''}{place}|{self.text(text)}]]"

    def heading(self, heading: Heading) -> str:
        # the wiki makes an anchor of the words, with _ for blanks
        named = heading.anchor and heading.anchor != plain(heading.text).replace(" ", "_")
        anchor = f'<span id="{self.text(heading.anchor)}"></span>' if named else ""
        marks = "=" * min(max(heading.level, 2), 6)
        return f"{marks} {anchor}{self.text(heading.text)} {marks}"

    def quote(self, shown: Sequence[str]) -> str:
        lines = "<br>\n".join(shown)
        return f"<blockquote>\n{lines}\n</blockquote>"

    def bullets(self, shown: Sequence[str]) -> str:
        return "\n".join(f"* {line}" for line in shown)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        names = [f'! scope="col" | {name}' for name in head]
        return "\n".join(['{| class="wikitable sortable"', *names, *("\n".join(["|-", *row]) for row in rows), "|}"])

    def cell(self, cell: Cell) -> str:
        attributes = [f'data-sort-value="{cell.sort!r}"'] if cell.sort is not None else []
        attributes += ['style="white-space:nowrap"'] if cell.kind else []  # a word or two that many rows have
        set_by = f"{' '.join(attributes)} | " if attributes else ""
        return f"| {set_by}{self.line(cell.line)}".rstrip()

    def code(self, code: Code) -> str:
        return f"<pre>\n{IN_CODE.sub(_entity, _stored(lines_of(code.text)))}\n</pre>"

    def side_by_side(self, block: SideBySide) -> str:
        head = [f'! scope="col" style="width:50%" | {self.text(title)}' for title in block.titles]
        sides = [f"|\n{self.code(side)}" for side in (block.left, block.right)]
        row = '|- style="vertical-align:top"'
        return "\n".join(['{| class="wikitable" style="width:100%"', *head, row, *sides, "|}"])

    def image(self, alt: str, file: str, width: int) -> str:
        return f"[[File:{file}|{f'{width}px|' if width else ''}alt={self.text(alt)}]]"

    def folded(self, block: Folded) -> str:
        return _collapsed(self.text(block.summary), "\n\n".join(self.blocks(block.blocks)))
