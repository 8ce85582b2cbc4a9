"""A page walked over once, for every format that is text: what each makes of a part is a method of its own.

A format is a subclass. What several of them do alike is said here: which part goes where, what a link leads to, blanks
between spans, sides shown one below the other, and figures described in words where no file can be shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from tipbench.report.document import (
    Block,
    Break,
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Interval,
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

WEB = ("https://", "http://")

Place = Callable[[str], str]
"""From another page's key, which may end with "#anchor" where a format says so, to what it is linked by."""

Image = Callable[[str], tuple[str, int]]
"""From a figure's name to what its file is shown by, and how wide it is to be shown in dots, 0 for as it is."""


class Markup(ABC):
    """What a method returns is markup; what it takes is raw and may be foreign, where it is not called shown.

    line_break: what parts two lines of one paragraph. in_words: what begins a figure that cannot be shown. apart: what
    parts a figure from its caption. The others: what is put around words of that kind.
    """

    line_break = "<br>"
    in_words = "Figure:"
    apart = "\n\n"
    around_strong = ("**", "**")
    around_literal = ("`", "`")
    around_caption = ("", "")

    def __init__(self, link: Place, image: Image | None) -> None:
        """image: None where no file can be shown: then figures are described in words."""
        self._link = link
        self._image = image

    @abstractmethod
    def page(self, page: Page) -> str:
        """The whole page, with its title where the format shows it within."""

    def blocks(self, listed: Iterable[Block]) -> list[str]:
        return [self.block(block) for block in listed]

    def block(self, block: Block) -> str:
        match block:
            case Heading():
                return self.heading(block)
            case Paragraph():
                return self.paragraph(self.line(block.line))
            case Quote():
                return self.quote([self.line(line) for line in block.lines])
            case Bullets():
                return self.bullets([self.line(line) for line in block.lines])
            case Table():
                rows = [[self.cell(cell) for cell in row] for row in block.rows]
                return self.table([self.text(name) for name in block.head], rows)
            case Code():
                return self.code(block)
            case SideBySide():
                return self.side_by_side(block)
            case Figure():
                return self.figure(block)
            case Folded():
                return self.folded(block)
        assert_never(block)

    def line(self, line: Line) -> str:
        return "".join(map(self.span, line))

    def span(self, span: Span) -> str:
        match span:
            case str():
                inner = self.text(span)
                # `plain` takes the blanks at the ends away, which part this span from its neighbours
                before, after = (" " * (span[end : end + 1 or None].isspace()) for end in (0, -1))
                return f"{before}{inner}{after if inner else ''}"
            case Strong():
                return self.strong(span.text)
            case Literal():
                return self.literal(span.text)
            case Link():
                if span.to.startswith(WEB):
                    return self.web_link(span.to, span.text)
                key, _, anchor = span.to.partition("#")
                return self.page_link(key, anchor, span.text)
            case Break():
                return self.line_break
            case Interval():
                return ""
        assert_never(span)

    @abstractmethod
    def text(self, foreign: str) -> str:
        """Foreign text as one line that shows as it is, in a table's cell too."""

    def strong(self, text: str) -> str:
        return self._between(self.around_strong, text)

    def literal(self, text: str) -> str:
        return self._between(self.around_literal, text)

    def _between(self, around: tuple[str, str], text: str) -> str:
        """Nothing around nothing, which a wiki would show as it is written."""
        shown = self.text(text)
        return f"{around[0]}{shown}{around[1]}" if shown else ""

    @abstractmethod
    def web_link(self, address: str, text: str) -> str: ...

    @abstractmethod
    def page_link(self, key: str, anchor: str, text: str) -> str:
        """key: of another page, empty for this one. anchor: a place on it, empty for none."""

    @abstractmethod
    def heading(self, heading: Heading) -> str: ...

    def paragraph(self, shown: str) -> str:
        return shown

    @abstractmethod
    def quote(self, shown: Sequence[str]) -> str: ...

    @abstractmethod
    def bullets(self, shown: Sequence[str]) -> str: ...

    @abstractmethod
    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """head, rows: shown."""

    def cell(self, cell: Cell) -> str:
        return self.line(cell.line)

    @abstractmethod
    def code(self, code: Code) -> str: ...

    def side_by_side(self, block: SideBySide) -> str:
        sides = zip(block.titles, (block.left, block.right), strict=True)
        return "\n\n".join(f"{self.strong(title)}\n\n{self.code(side)}" for title, side in sides)

    def figure(self, figure: Figure) -> str:
        shown, caption = self.drawing(figure), self._between(self.around_caption, figure.caption)
        return f"{shown}{self.apart}{caption}" if caption else shown

    def drawing(self, figure: Figure) -> str:
        """The figure without its caption."""
        if self._image is None:
            return f"{self.text(self.in_words)} {self.text(figure.alt)}"
        return self.image(figure.alt, *self._image(figure.name))

    @abstractmethod
    def image(self, alt: str, file: str, width: int) -> str:
        """file, width: as `Image` gives them."""

    @abstractmethod
    def folded(self, block: Folded) -> str: ...
