"""What Markdown names, links and images, as a wiki addresses them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tipbench.publish.wiki import ROOT_PAGE

PAGE = re.compile(rf"({ROOT_PAGE}(?:/[\w.+-]+)*)(#[\w%.-]+)?")
FILE = re.compile(r"[\w.+-]+\.(?:png|svg)")


@dataclass(frozen=True)
class Addresses:
    """How a wiki's markup names pages and files.

    Attributes:
        page: from a page's path and an anchor with its #, "" for none, to its address.
        file: from a file's name to its address; "" where its description is to stand alone.
    """

    page: Callable[[str, str], str]
    file: Callable[[str], str]

    def of(self, address: str) -> str:
        """The wiki's address of what Markdown names; any other address as it is."""
        if page := PAGE.fullmatch(address):
            return self.page(page[1], page[2] or "")
        return self.file(address) if FILE.fullmatch(address) else address


def rewrite_addresses(markdown: str, addresses: Addresses) -> str:
    """The Markdown with the addresses of a wiki."""

    def changed(link: re.Match[str]) -> str:
        address = addresses.of(link["address"])
        return f"{link['bang']}[{link['text']}]({address})" if address else f"*{link['text']}*"

    return re.sub(r"(?P<bang>!?)\[(?P<text>(?:\\.|[^]\\])*)\]\((?P<address>[^\s()]+)\)", changed, markdown)
