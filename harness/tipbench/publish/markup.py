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

DOKU_SIGNS = re.compile(r"[\[\]{}|^<>~%\\&]|''|\*\*|//|__|\(\(|^[-*=_/':]|[-*=_/']$|:::|--|www\.|[):8;]-|-[)(]")


@dataclass(frozen=True)
class _Wiki:
    """How a wiki writes what pandoc does not escape, or by macros.

    Attributes:
        name: pandoc's.
        text, code, block: from text to markup that shows it: as text, as code in a line, as lines of code.
        link, image: from an address and a text to markup.
        heading: from a level and a text to markup.
    """

    name: str
    text: Callable[[str], str]
    code: Callable[[str], str]
    block: Callable[[str], str]
    link: Callable[[str, str], str]
    image: Callable[[str, str], str]
    heading: Callable[[int, str], str] | None = None


def _entities(signs: str) -> str:
    return "".join(f"&#{ord(sign)};" for sign in signs)


def _media_text(text: str) -> str:
    return MEDIA_SIGNS.sub(lambda match: _entities(match[0]), text)


def _doku_text(text: str) -> str:
    return _unparsed(text) if DOKU_SIGNS.search(text) else text


def _unparsed(text: str) -> str:
    if "%%" not in text and text[:1] != "%" != text[-1:]:
        return f"%%{text}%%"
    return f"<nowiki>{re.sub('</nowiki>', '</nowiki >', text, flags=re.IGNORECASE)}</nowiki>"


MEDIA_WIKI = _Wiki(
    "mediawiki",
    text=_media_text,
    code=lambda text: f"<code>{re.sub(r'[^A-Za-z0-9 .,]', lambda match: _entities(match[0]), text)}</code>",
    # MediaWiki parses nothing within <pre> but a closing tag, and shows entities as what they stand for.
    block=lambda text: f"<pre>\n{html.escape(text, quote=False)}\n</pre>",
    link=lambda address, text: f"[[{address}|{_media_text(text)}]]",
    image=lambda address, text: f"[[File:{address}|{_media_text(text)}]]",
)

DOKU_WIKI = _Wiki(
    "dokuwiki",
    text=_doku_text,
    code=lambda text: f"''{_unparsed(text)}''",
    block=lambda text: f"<code>\n{re.sub('</code>', '</code >', text, flags=re.IGNORECASE)}\n</code>",
    # Titles of links, texts of images and headings hold no markup, so nothing in them is escaped.
    link=lambda address, text: f"[[{address}|{re.sub(r'](?=]|$)|{(?={)', _apart, text)}]]",
    image=lambda address, text: f"{{{{{address}|{re.sub(r'}(?=}|$)|[|]', _apart, text)}}}}}",
    heading=lambda level, text: f"{'=' * (7 - min(level, 5))} {text} {'=' * (7 - min(level, 5))}",
)


def _apart(match: re.Match[str]) -> str:
    return f"{match[0]} "


def wikitext(markdown: str, addresses: Addresses) -> str:
    """For MediaWiki."""
    return _converted(markdown, MEDIA_WIKI, addresses)


def doku_text(markdown: str, addresses: Addresses) -> str:
    """For DokuWiki. pandoc pads the cells of tables, to lines of thousands of characters."""
    return re.sub(r"(?<=\S) {2,}(?=[|^](?: *\S|$))", " ", _converted(markdown, DOKU_WIKI, addresses), flags=re.M)


def _converted(markdown: str, wiki: _Wiki, addresses: Addresses) -> str:
    try:
        import pypandoc
    except ImportError:
        raise missing() from None

    def raw(content: str, kind: str = "RawInline") -> dict[str, Any]:
        return {"t": kind, "c": [wiki.name, content]}

    def changed(node: Any) -> Any:
        if isinstance(node, list):
            return [changed(part) for part in node]
        if not isinstance(node, dict):
            return node
        match node.get("t"), node.get("c"):
            case "Header", [int(level), _, inlines] if wiki.heading is not None:
                return raw(wiki.heading(level, plain_text(inlines)), "RawBlock")
            case "Str", str(content):
                return raw(wiki.text(content))
            case "Code", [_, str(content)]:
                return raw(wiki.code(content))
            case "CodeBlock", [_, str(content)]:
                return raw(wiki.block(content), "RawBlock")
            case "Image", [_, inlines, [address, _]]:
                if target := addresses.of(address):
                    return raw(wiki.image(target, plain_text(inlines)))
                return {"t": "Emph", "c": changed(inlines)}
            case "Link", [_, inlines, [address, _]] if PAGE.fullmatch(address) or wiki is DOKU_WIKI:
                return raw(wiki.link(addresses.of(address), plain_text(inlines).strip() or address))
        return {key: changed(value) for key, value in node.items()}

    try:
        tree = json.loads(pypandoc.convert_text(text_of(markdown), "json", format=MARKDOWN))
        tree["blocks"] = changed(tree["blocks"])
        return str(pypandoc.convert_text(json.dumps(tree), wiki.name, format="json", extra_args=["--wrap=none"]))
    except (OSError, RuntimeError) as error:
        raise WikiError(f"pandoc cannot convert a page for {wiki.name}: {plain(str(error))}") from None


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
