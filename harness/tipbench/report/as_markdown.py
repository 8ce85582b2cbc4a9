"""A page as Markdown, as GitHub, GitLab, Gitea and Azure DevOps show it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from urllib.parse import quote

from tipbench.report.document import Block, Cell, Code, Folded, Heading, Literal, Page
from tipbench.report.markup import Markup, Place
from tipbench.report.wording import lines_of, plain

Address = Callable[[str], str]
"""From a figure's name to its file's address."""


def beside(key: str) -> str:
    """Where another page lies that was written into the same folder tree: its key with the ending .md."""
    name, mark, anchor = key.partition("#")
    return f"{quote(name)}.md{mark}{anchor}"


def render(page: Page, link: Place = str, image: Address | None = None) -> str:
    """The whole page. link: from another page's key to its address. image: from a figure's name to its file's
    address; without one a figure is described in words."""
    return _markdown(link, image).page(page)


def blocks(listed: Iterable[Block], link: Place = str, image: Address | None = None) -> str:
    """The blocks alone, as they stand below a title; as `render` takes its arguments."""
    return "\n\n".join(_markdown(link, image).blocks(listed)) + "\n"


def _markdown(link: Place, image: Address | None) -> _Markdown:
    return _Markdown(link, None if image is None else lambda name: (image(name), 0))


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


def _begun(line: str) -> str:
    """A line that its beginning makes no heading, list, quote or rule."""
    return re.sub(r"^(\d+)(?=[.)](?:\s|$))", r"\1\\", re.sub(r"^(?=[#>+=-])", r"\\", line))


class _Markdown(Markup):
    def page(self, page: Page) -> str:
        return "\n\n".join([f"# {self.text(page.title)}", *self.blocks(page.blocks)]) + "\n"

    def text(self, foreign: str) -> str:
        return text(foreign)

    def literal(self, text: str) -> str:
        return f"`{plain(text).replace('`', chr(39))}`"

    def web_link(self, address: str, text: str) -> str:
        return self._linked(text, quote(address, safe=":/?#@!$&'*+,;=%~"))

    def page_link(self, key: str, anchor: str, text: str) -> str:
        if not key:
            return self._linked(text, f"#{quote(anchor)}")
        return self._linked(text, self._link(f"{key}#{anchor}" if anchor else key))

    def _linked(self, text: str, to: str) -> str:
        return f"[{self.text(text)}]({to})"

    def heading(self, heading: Heading) -> str:
        return f"{'#' * heading.level} {self.text(heading.text)}"

    def paragraph(self, shown: str) -> str:
        return _begun(shown)

    def quote(self, shown: Sequence[str]) -> str:
        return "\n".join(f"> {line}<br>" for line in shown).removesuffix("<br>")

    def bullets(self, shown: Sequence[str]) -> str:
        return "\n".join(f"- {_begun(line)}" for line in shown)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))

    def cell(self, cell: Cell) -> str:
        parts = ((span, self.span(span)) for span in cell.line)
        # a bar ends a cell even within code
        shown = (part.replace("|", r"\|") if isinstance(span, Literal) else part for span, part in parts)
        return "".join(shown) or " "

    def code(self, code: Code) -> str:
        shown = lines_of(code.text)
        longest = max((len(found) for found in re.findall(r"`+", shown)), default=0)
        fence = "`" * max(3, longest + 1)
        language = re.sub(r"[^a-z]", "", code.language)
        return f"{fence}{language}\n{shown}\n{fence}"

    def image(self, alt: str, file: str, width: int) -> str:
        shown = self.text(alt).replace("]", r"\]")
        return f"![{shown}]({file})"

    def folded(self, block: Folded) -> str:
        inside = "\n\n".join(self.blocks(block.blocks))
        return f"<details><summary>{self.text(block.summary)}</summary>\n\n{inside}\n\n</details>"
