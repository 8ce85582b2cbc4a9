"""Markdown in the markup of a wiki: by pandoc for MediaWiki and DokuWiki, by markdown-it for Confluence.

pandoc escapes little of what means something to a wiki, such as `{{x}}`, and converts code to macros that a wiki need
not have. So text, code, links and images are written here, into pandoc's own tree; it makes the rest.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tipbench.publish.wiki import ROOT, WikiError

PAGE = re.compile(rf"({ROOT}(?:/[\w.+-]+)*)(?:#([\w%.-]*))?")
FILE = re.compile(r"[\w.+-]+\.(?:png|svg)")

MARKDOWN = "commonmark-raw_html+pipe_tables+gfm_auto_identifiers"


@dataclass(frozen=True)
class Addresses:
    """How a wiki's markup names pages and files.

    Attributes:
        page: from a page's path and an anchor, "" for none, to its address.
        file: from a file's name to its address.
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
    return re.sub(r"(?<=\]\()[^\s()]+(?=\))", lambda match: addresses.of(match[0]), markdown)


def width(png: bytes) -> int:
    """How wide a PNG is to be shown, in pixels of a page, of which an inch has 96; 0 where the file does not say."""
    resolution = png.find(b"pHYs", 0, 200)  # in pixels a metre
    if not png.startswith(b"\x89PNG\r\n\x1a\n") or resolution < 0:
        return 0
    per_metre = int.from_bytes(png[resolution + 4 : resolution + 8])
    return round(int.from_bytes(png[16:20]) * 96 / 0.0254 / per_metre) if per_metre else 0


NOT_TEXT = re.compile("[^\t\n\r\x20-\x7e\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot hold, and what MediaWiki marks its own places by."""


def text_of(markdown: str) -> str:
    """The Markdown in characters that every wiki stores as they are."""
    return unicodedata.normalize("NFC", NOT_TEXT.sub("", markdown))


# ---- MediaWiki and DokuWiki ----

MEDIA_SIGNS = re.compile(
    r"[\[\]{}|~<>&]|(?<![^\W_])[_']|[_'](?![^\W_])|!(?=!)|(?<=!)!|^[*#:;=!+-]|(?<=\n)[ *#:;=]|:(?=//)"
)
"""What means something to MediaWiki; a dash or an apostrophe within a word does not."""

DOKU_SIGNS = re.compile(r"[\[\]{}|^<>~%\\]|''|\*\*|//|__|\(\(|^[-*=_/']|[-*=_/']$|:::|-->|www\.")


def wikitext(markdown: str, addresses: Addresses) -> str:
    """For MediaWiki."""
    return _converted(markdown, "mediawiki", addresses, media_text, _media_code)


def doku_text(markdown: str, addresses: Addresses) -> str:
    """For DokuWiki."""
    return _converted(markdown, "dokuwiki", addresses, doku_literal, _doku_code)


def media_text(text: str) -> str:
    return MEDIA_SIGNS.sub(lambda match: "".join(f"&#{ord(sign)};" for sign in match[0]), text)


def _media_code(text: str, is_block: bool) -> str:
    escaped = re.sub(r"[^\w .,\n]", lambda match: f"&#{ord(match[0])};", text)
    # MediaWiki parses nothing within <pre> but a closing tag, and shows entities as what they stand for.
    return f"<pre>\n{html.escape(text, quote=False)}\n</pre>" if is_block else f"<code>{escaped}</code>"


def doku_literal(text: str) -> str:
    return _unparsed(text) if DOKU_SIGNS.search(text) else text


def _unparsed(text: str) -> str:
    if "%%" not in text and text[:1] != "%" != text[-1:]:
        return f"%%{text}%%"
    return f"<nowiki>{re.sub('</nowiki>', '</nowiki >', text, flags=re.IGNORECASE)}</nowiki>"


def _doku_code(text: str, is_block: bool) -> str:
    if not is_block:
        return f"''{_unparsed(text)}''"
    return f"<code>\n{re.sub('</code>', '</code >', text, flags=re.IGNORECASE)}\n</code>"


def _converted(
    markdown: str, wiki: str, addresses: Addresses, text: Callable[[str], str], code: Callable[[str, bool], str]
) -> str:
    try:
        import pypandoc
    except ImportError:
        raise missing() from None

    def changed(node: Any) -> Any:
        if isinstance(node, list):
            return [changed(part) for part in node]
        if not isinstance(node, dict):
            return node
        match node.get("t"), node.get("c"):
            case "Header", [int(level), _, inlines] if wiki == "dokuwiki":  # its headings hold no markup
                marks = "=" * (7 - min(level, 5))
                return {"t": "RawBlock", "c": [wiki, f"{marks} {plain_text(inlines)} {marks}"]}
            case "Str", str(content):
                return {"t": "RawInline", "c": [wiki, text(content)]}
            case "Code", [_, str(content)]:
                return {"t": "RawInline", "c": [wiki, code(content, False)]}
            case "CodeBlock", [_, str(content)]:
                return {"t": "RawBlock", "c": [wiki, code(content, True)]}
            case ("Link" | "Image") as kind, [attributes, inlines, [address, _]]:
                target = addresses.of(address)
                title = "wikilink" if target != address and kind == "Link" else ""
                shown = changed(inlines) if plain_text(inlines).strip() else [{"t": "Str", "c": address}]
                return {"t": kind, "c": [attributes, shown, [target, title]]}
        return {key: changed(value) for key, value in node.items()}

    try:
        tree = json.loads(pypandoc.convert_text(text_of(markdown), "json", format=MARKDOWN))
        tree["blocks"] = changed(tree["blocks"])
        return str(pypandoc.convert_text(json.dumps(tree), wiki, format="json", extra_args=["--wrap=none"]))
    except (OSError, RuntimeError) as error:
        raise WikiError(f"pandoc cannot convert a page to {wiki}: {error}") from None


def plain_text(inlines: Any) -> str:
    """The text of pandoc's inlines."""
    if isinstance(inlines, list):
        return "".join(map(plain_text, inlines))
    match inlines:
        case {"t": "Str", "c": text} | {"t": "Code", "c": [_, text]}:
            return str(text)
        case {"t": "Space" | "SoftBreak" | "LineBreak"}:
            return " "
        case {"c": parts}:
            return plain_text([part for part in parts if isinstance(part, list)] if isinstance(parts, list) else [])
    return ""


def missing() -> WikiError:
    """A library for wikis is not installed."""
    return WikiError("publishing to this wiki needs further libraries: pip install 'tipbench[wikis]'")


# ---- Confluence ----


def storage(markdown: str, addresses: Addresses) -> str:
    """Storage format: XHTML, with elements of its own for pages and attachments."""
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    parser = MarkdownIt("commonmark", {"xhtmlOut": True, "html": False}).enable("table")
    tokens = parser.parse(text_of(markdown))
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
