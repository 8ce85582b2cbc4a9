"""Markdown in the markup of a wiki: by pandoc for MediaWiki and DokuWiki, by markdown-it for Confluence."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tipbench.publish.wiki import ROOT, WikiError
from tipbench.tip.wording import plain

PAGE = re.compile(rf"({ROOT}(?:/[\w.+-]+)*)(?:#([\w%.-]*))?")
FILE = re.compile(r"[\w.+-]+\.(?:png|svg)")

MARKDOWN = "commonmark-raw_html+pipe_tables+gfm_auto_identifiers"


@dataclass(frozen=True)
class Addresses:
    """How a wiki's markup names pages and files.

    Attributes:
        page: from a page's path and an anchor, "" for none, to its address.
        file: from a file's name to its address; "" where its description is to stand alone.
    """

    page: Callable[[str, str], str]
    file: Callable[[str], str]

    def of(self, address: str) -> str:
        """The wiki's address of what Markdown names; any other address as it is."""
        if page := PAGE.fullmatch(address):
            return self.page(page[1], page[2] or "")
        return self.file(address) if FILE.fullmatch(address) else address


def readdressed(markdown: str, addresses: Addresses) -> str:
    """The Markdown with the addresses of a wiki."""

    def changed(link: re.Match[str]) -> str:
        address = addresses.of(link["address"])
        return f"{link['bang']}[{link['text']}]({address})" if address else f"*{link['text']}*"

    return re.sub(r"(?P<bang>!?)\[(?P<text>(?:\\.|[^]\\])*)\]\((?P<address>[^\s()]+)\)", changed, markdown)


def width(png: bytes) -> int:
    """How wide a PNG is to be shown, in pixels of a page, of which an inch has 96; 0 where the file does not say."""
    resolution = png.find(b"pHYs", 0, 200)  # in pixels a metre
    if resolution < 0:
        return 0
    per_metre = int.from_bytes(png[resolution + 4 : resolution + 8])
    return round(int.from_bytes(png[16:20]) * 96 / 0.0254 / per_metre) if per_metre else 0


def converted(markdown: str, kind: str, addresses: Addresses) -> str:
    """kind: "mediawiki" or "dokuwiki"."""
    try:
        import pypandoc
    except ImportError:
        raise missing() from None

    # pandoc makes a macro of a block in a language, which a MediaWiki need not have.
    text = re.sub(r"^(`{3,})\w+$", r"\1", readdressed(markdown, addresses), flags=re.M)
    try:
        made = str(pypandoc.convert_text(text, kind, format=MARKDOWN, extra_args=["--wrap=none"]))
    except (OSError, RuntimeError) as error:
        raise WikiError(f"pandoc cannot convert a page for {kind}: {plain(str(error))}") from None
    if kind == "dokuwiki":  # pandoc pads the cells of tables, to lines of thousands of characters
        return re.sub(r"(?<=\S) {2,}(?=[|^](?: *\S|$))", " ", made, flags=re.M)
    # pandoc leaves signs within code that mean something to MediaWiki: a bar there would end a cell's attributes.
    return re.sub(r"<code>.*?</code>", lambda code: re.sub(r"[|'\[{]", lambda it: f"&#{ord(it[0])};", code[0]), made)


def missing() -> WikiError:
    """A library for wikis is not installed."""
    return WikiError("publishing to this wiki needs further libraries: pip install 'tipbench[wikis]'")


def storage(markdown: str, addresses: Addresses) -> str:
    """Confluence's storage format: XHTML, with elements of its own for pages and attachments."""
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    parser = MarkdownIt("commonmark", {"xhtmlOut": True, "html": False}).enable("table")
    tokens = parser.parse(markdown)
    for token in tokens:
        open_links: list[str] = []
        for child in token.children or ():
            ends = ""
            if child.type == "link_open":
                address = str(child.attrs["href"])
                is_page = PAGE.fullmatch(address) is not None
                open_links.append("</ac:link-body></ac:link>" if is_page else "</a>")
                ends = f"{addresses.of(address)}<ac:link-body>" if is_page else ""
            elif child.type == "link_close":
                ends = open_links.pop()
            elif child.type == "image":
                ends = addresses.of(str(child.attrs["src"]))
            if ends:
                raw = Token("html_inline", "", 0, content=ends)
                child.type, child.content, child.children, child.nesting = raw.type, raw.content, None, 0
    return str(parser.renderer.render(tokens, parser.options, {}))
