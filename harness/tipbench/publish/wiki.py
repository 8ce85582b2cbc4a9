"""What every wiki must be able to do, whichever it is; one module each implements it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tipbench.errors import UserError

ROOT = "Benchmarks"
"""The page that all others lie below."""

SUMMARY = "Published by tipbench"
"""What a wiki's history says of our changes."""


class WikiError(UserError):
    """A wiki cannot be read or written. The message says what, where, and what to do, and never holds a secret."""


class Unmarked(WikiError):
    """A page does not begin with the mark, so it is somebody else's."""


class Conflict(WikiError):
    """Somebody wrote meanwhile: read again, then write again."""


@dataclass(frozen=True)
class Page:
    """A page to be published.

    Attributes:
        path: its place, such as "Benchmarks/amd-epyc-zen4-2c-24g/2026-11-23-c89c4793".
        text: Markdown without raw HTML. Links name other pages by their paths, images their files by name.
        files: content of the images, by name.
    """

    path: str
    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)


class Wiki(Protocol):
    """A wiki that is being published to. All methods raise WikiError.

    Attributes:
        mark: the first line of each page of ours.
    """

    mark: str

    def render(self, page: Page) -> str:
        """The page in the wiki's own markup, without the mark."""

    def read(self, path: str) -> str | None:
        """The page as the wiki has it; None where there is none."""

    def write(self, path: str, text: str, base: str | None) -> None:
        """Write the whole page. base: what `read` returned last. Raises Conflict where it is no longer that."""

    def has(self, path: str, name: str, content: bytes) -> bool:
        """Whether the page's file of this name has this content, or the wiki takes no files."""

    def attach(self, path: str, name: str, content: bytes) -> None:
        """Store a file of the page, before the page itself is written."""

    def finish(self) -> None:
        """Send what a wiki collects. Raises Conflict where somebody else was faster: then nothing was sent."""


def unmarked(text: str | None, mark: str, page: str) -> str:
    """A page of ours without its mark, or "" if there is none. Raises Unmarked."""
    first, _, rest = (text or "").strip().partition("\n")
    if first.strip() not in ("", mark):
        raise Unmarked(
            f"the page {page} exists and does not begin as tipbench's pages do, so it is left alone: rename or delete "
            "it, then publish again; a page of your own can link to those of tipbench"
        )
    return rest
