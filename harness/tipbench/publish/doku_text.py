"""A page as DokuWiki's markup, after dokuwiki.org/wiki:syntax and the modes of its parser (inc/Parsing/ParserMode).

Foreign text is put between %% and %%, where DokuWiki knows no markup, no smileys, no typography and no acronyms.
It has no markup for folding, nor for code beside code: both are shown one below the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from tipbench.publish.wiki import NO_FILES
from tipbench.report.document import Block, Cell, Code, Folded, Heading, Line, Page, Strong
from tipbench.report.markup import Markup
from tipbench.report.wording import lines_of, plain

MARKS = (
    "//What follows is written by tipbench: changes to it are lost at the next publishing.//",
    "//Here ends what tipbench writes.//",
)
"""DokuWiki has no comments, so readers see them."""

HARMLESS = re.compile(r"[A-Z]?[a-z]+(?: [a-z]+)*")
"""Words that are shown as they are without any marks, so that the source stays readable."""

JOINER = "\u2060"
"""Shows nothing; it parts characters that would end what they are in."""


def _raw(foreign: str) -> str:
    """For headings and titles of links and images, which know no markup but their own end."""
    return re.sub("[\ufffe\uffff]", "\ufffd", plain(foreign))  # XML, which carries it, has no such characters


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


def _name(anchor: str) -> str:
    return re.sub(r"[^\w.-]", "_", anchor)


class DokuMarkup(Markup):
    line_break = r"\\ "
    in_words = NO_FILES
    around_literal = ("''", "''")
    around_caption = ("//", "//")

    _anchors: Mapping[str, str] = {}

    def page(self, page: Page) -> str:
        self._anchors = _anchors(page.blocks)
        return "\n\n".join([f"====== {_raw(page.title) or '-'} ======", *self.blocks(page.blocks)])

    def line(self, line: Line) -> str:
        return super().line(line).strip()

    def text(self, foreign: str) -> str:
        shown = _raw(foreign)
        if not shown or HARMLESS.fullmatch(shown):
            return shown
        parts = [part for part in re.split("(%{2,})", shown) if part]
        return "".join(f"<nowiki>{part}</nowiki>" if "%%" in part else f"%%{part}%%" for part in parts)

    def web_link(self, address: str, text: str) -> str:
        return self._linked(quote(address, safe=":/?#@!$&*+,;=%~()"), text)

    def page_link(self, key: str, anchor: str, text: str) -> str:
        if not key:
            return self._linked(f"#{self._anchors.get(anchor) or _name(anchor)}", text)
        return self._linked(f":{self._link(key)}{f'#{_name(anchor)}' if anchor else ''}", text)

    def _linked(self, to: str, text: str) -> str:
        shown = re.sub(r"\](?=\])|\{(?=\{)", rf"\g<0>{JOINER}", _raw(text))
        return f"[[{to}|{shown}]]"

    def heading(self, heading: Heading) -> str:
        marks = "=" * (7 - min(max(heading.level, 2), 5))
        return f"{marks} {_raw(heading.text) or '-'} {marks}"

    def quote(self, shown: Sequence[str]) -> str:
        return "\n".join(f"> {line}" for line in shown)

    def bullets(self, shown: Sequence[str]) -> str:
        return "\n".join(f"  * {line}" for line in shown)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        body = ("".join(f"| {cell} " for cell in row) + "|" for row in rows)
        return "\n".join(["".join(f"^ {name} " for name in head) + "^", *body])

    def cell(self, cell: Cell) -> str:
        shown = self.line(cell.line)
        if cell.line in ((cell.kind,), (Strong(cell.kind),)):  # a word or two that many rows have: not to be broken
            return shown.replace(" ", "\u00a0")
        return shown

    def code(self, code: Code) -> str:
        """Within <code> there is no markup but its end. A line that reads like a mark of ours is made to be none.

        No language is named: DokuWiki's colours for Python have too little contrast to be read."""
        lines = re.sub("[\ufffe\uffff]", "\ufffd", lines_of(code.text)).split("\n")
        shown = "\n".join(f"{line}{JOINER}" if line.strip() in MARKS else line for line in lines)
        return f"<code>\n{shown.replace('</code', f'<{JOINER}/code')}\n</code>"

    def image(self, alt: str, file: str, width: int) -> str:
        shown = _raw(alt).replace("}", f"}}{JOINER}")
        return f"{{{{:{file}?direct{f'&{width}' if width else ''}|{shown}}}}}"

    def folded(self, block: Folded) -> str:
        return "\n\n".join([self.strong(block.summary), *self.blocks(block.blocks)])
