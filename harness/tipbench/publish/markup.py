"""Markdown in the markup of MediaWiki and DokuWiki, by pandoc."""

from __future__ import annotations

import re

import pypandoc

from tipbench.publish.addresses import Addresses, rewrite_addresses
from tipbench.publish.wiki import WikiError
from tipbench.tip.wording import plain

MARKDOWN = "commonmark-raw_html+pipe_tables+gfm_auto_identifiers"


def wiki_markup(markdown: str, kind: str, addresses: Addresses) -> str:
    """kind: "mediawiki" or "dokuwiki"."""
    # pandoc makes a macro of a block in a language, which a MediaWiki need not have.
    text = re.sub(r"^(`{3,})\w+$", r"\1", rewrite_addresses(markdown, addresses), flags=re.M)
    try:
        made = str(pypandoc.convert_text(text, kind, format=MARKDOWN, extra_args=["--wrap=none"]))
    except (OSError, RuntimeError) as error:
        raise WikiError(f"pandoc cannot convert a page for {kind}: {plain(str(error))}") from None
    if kind == "dokuwiki":  # pandoc pads the cells of tables, to lines of thousands of characters
        return re.sub(r"(?<=\S) {2,}(?=[|^](?: *\S|$))", " ", made, flags=re.M)
    # pandoc leaves signs within code that mean something to MediaWiki: a bar there would end a cell's attributes.
    return re.sub(r"<code>.*?</code>", lambda code: re.sub(r"[|'\[{]", lambda it: f"&#{ord(it[0])};", code[0]), made)
