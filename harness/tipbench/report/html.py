"""Markdown as one HTML document that needs nothing beside itself: style, script and figures are in it.

markdown-it makes the HTML, with raw HTML off, so that text stays text. This module names what links, filters, styles
and screen readers go by. Without the script all of the page is still there.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

from tipbench.report.markdown import template_environment
from tipbench.report.palette import PALETTE

CLASSES = {
    "faster": "good",
    "sure": "good",
    "likely": "good",
    "use it": "good",
    "use it if": "good",
    "faster alone": "good",
    "no difference": "same",
    "at most": "same",
    "already the default": "same",
    "slower": "bad",
    "don't": "bad",
    "costs": "bad",
    "failed": "bad",
    "depends": "open",
    "inconclusive": "open",
    "can't tell": "open",
    "skipped": "none",
    "not possible here": "none",
}
"""By the words that a cell begins with, set in bold, how it is coloured and what readers filter by."""

ANCHORS = ("content", "the-evidence")
"""Anchors that every document has."""

STACKED = 8
"""On a phone each row of a table of up to so many columns is shown as a card; wider tables scroll."""


def render(
    markdown: str,
    title: str,
    figures: Mapping[str, bytes] = MappingProxyType({}),
    pages: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The document; the same for the same arguments.

    figures: SVG by the name that images have in the Markdown, without folder and ending; one that is missing is
    described by the image's text. pages: Markdown of further pages by the names that links to them have, without folder
    and ending; they are folded below the first one, under their own titles.
    """
    document = _Document(figures, pages)
    contents: list[tuple[str, str]] = []
    head, body = document.shown(markdown, contents=contents)
    folded = [(key, *document.shown(page, key)) for key, page in pages.items()]
    contents += [(ANCHORS[1], "The evidence")] if folded else []
    template = _environment().get_template("page.html.j2")
    return template.render(
        title=title, head=head, body=body, folded=folded, contents=contents, light=_colours(0), dark=_colours(1)
    )


@cache
def _environment() -> jinja2.Environment:
    made = template_environment().overlay(finalize=None)  # what is inserted is HTML
    made.filters = {**made.filters, "sha256": _sha256}
    return made


def _sha256(text: object) -> str:
    return base64.b64encode(hashlib.sha256(str(text).encode()).digest()).decode()


def _colours(side: int) -> Markup:
    """PALETTE as CSS custom properties; side 0 is for light backgrounds, 1 for dark ones."""
    return Markup(" ".join(f"--{name}: {colours[side]};" for name, colours in PALETTE.items()))


class _Document:
    """What the pages of one document share: the names that are taken, its figures, and where links lead."""

    def __init__(self, figures: Mapping[str, bytes], pages: Mapping[str, str]) -> None:
        self._figures = figures
        self._pages = pages
        self._names = {*ANCHORS, *pages}
        self._tables = 0
        self._parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")

    def shown(
        self, markdown: str, page: str = "", contents: list[tuple[str, str]] | None = None
    ) -> tuple[Markup, Markup]:
        """(title, all below it). page: the name of a page that is folded below the first. contents: is given the anchor
        and the text of each heading of the second level."""
        tokens = self._parser.parse(markdown)
        title = Markup()
        if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
            title = Markup(self._rendered(tokens[1:2]))
            tokens = tokens[3:]
        heading = str(title.striptags())
        for index, token in enumerate(tokens):
            if token.type in ("heading_open", "heading_close") and page:
                token.tag = f"h{min(int(token.tag[1:]) + 1, 6)}"  # they stand below the heading of all folded pages
            if token.type == "heading_open":
                heading = self._name_heading(token, tokens[index + 1], page, contents)
            elif token.type == "table_open":
                self._tables += 1
                token.meta["label"] = f"{heading}, table {self._tables}"
                _describe_cells(token, tokens[index:])
            elif token.type == "inline":
                self._finish_inline(token, heading)
        return title, Markup(self._rendered(tokens))

    def _rendered(self, tokens: Sequence[Token]) -> str:
        return str(self._parser.renderer.render(tokens, self._parser.options, {}))

    def _name_heading(self, token: Token, words: Token, page: str, contents: list[tuple[str, str]] | None) -> str:
        text = _words(words)
        name = re.sub(r"[^\w-]+", "", text.lower().replace(" ", "-")) or "section"
        name = f"{page}-{name}" if page else name
        number, free = 1, name
        while free in self._names:
            number += 1
            free = f"{name}-{number}"
        self._names.add(free)
        token.attrSet("id", free)
        if contents is not None and token.tag == "h2":
            contents.append((free, text))
        return text

    def _finish_inline(self, token: Token, heading: str) -> None:
        for child in token.children or []:
            if child.type == "image":
                svg = self._figures.get(PurePosixPath(unquote(str(child.attrs["src"]))).stem, b"").decode()
                child.meta.update(svg=_coloured(svg[max(svg.find("<svg"), 0) :]), label=heading)
            elif child.type == "link_open":
                address = str(child.attrs["href"])
                key = PurePosixPath(unquote(address.partition("#")[0])).stem
                if address.startswith(("http://", "https://")):
                    child.attrSet("rel", "noopener noreferrer")
                elif key in self._pages:
                    child.attrSet("href", f"#{key}")


def _words(inline: Token) -> str:
    return "".join(_words(child) if child.children else child.content for child in inline.children or [])


def _coloured(svg: str) -> str:
    """The figure in the colours of the page around it, which are others where it is dark."""
    for name, (light, _) in PALETTE.items():
        svg = svg.replace(light, f"var(--{name})")
    return svg


def _describe_cells(table: Token, tokens: Sequence[Token]) -> None:
    """Give each cell its column's name, for cards, and its kind."""
    names: list[str] = []
    column = 0
    for index, token in enumerate(tokens):
        if token.type == "table_close":
            break
        if token.type == "th_open":
            names.append(_words(tokens[index + 1]))
            token.attrSet("scope", "col")
        elif token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            token.attrSet("data-label", names[column])
            column += 1
            if kind := _kind(tokens[index + 1]):
                token.attrSet("data-kind", kind)
                token.attrJoin("class", CLASSES[kind])
    table.meta["wide"] = len(names) > STACKED


def _kind(inline: Token) -> str:
    """The longest of CLASSES that the cell's first words in bold begin with."""
    children = inline.children or []
    bold = [child.type for child in children[:2]] == ["text", "strong_open"] and not children[0].content
    first = children[2].content if bold and len(children) > 2 else ""
    return max(
        (kind for kind in CLASSES if first == kind or first.startswith((f"{kind} ", f"{kind}:"))), key=len, default=""
    )


class _Renderer(RendererHTML):
    def table_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any) -> str:
        meta = tokens[index].meta
        kind = "table wide" if meta["wide"] else "table"
        return f'<div class="{kind}" role="region" tabindex="0" aria-label="{escape(meta["label"])}"><table>\n'

    def table_close(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any) -> str:
        return "</table></div>\n"

    def fence(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any) -> str:
        lines: Iterable[str] = map(escape, tokens[index].content.splitlines(keepends=True))
        if tokens[index].info == "diff":
            marks = {"+": "ins", "-": "del"}
            lines = (f"<{marks[line[0]]}>{line}</{marks[line[0]]}>" if line[0] in marks else line for line in lines)
        return f'<pre tabindex="0"><code>{"".join(lines)}</code></pre>\n'

    def image(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any) -> str:
        """The drawing in the line, as an element that may stand within a paragraph."""
        token = tokens[index]
        alt = escape(_words(token))
        if not token.meta["svg"]:
            return f"Figure: {alt}"
        label = escape(f"Figure: {token.meta['label']}")
        return (
            f'<span class="drawing" role="group" tabindex="0" aria-label="{label}">'
            f'<span role="img" aria-label="{alt}">{token.meta["svg"]}</span></span>'
        )
