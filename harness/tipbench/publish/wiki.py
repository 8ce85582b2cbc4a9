"""What a place to publish to must be able to do, whichever it is; one module each implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from tipbench.errors import UserError

ROOT_PAGE = "Benchmarks"
"""What the paths of all pages of runs begin with."""

SUMMARY = "Published by tipbench"
"""What a wiki's history says of our changes."""

MARK = "This page is written by tipbench: changes are lost"
"""What each page of ours begins with, in the markup of the wiki."""


class WikiError(UserError):
    """Something cannot be published. The message says what, where, and what to do, and never holds a token."""


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


class Wiki(ABC):
    """A wiki that is being published to. All methods raise WikiError.

    Attributes:
        mark: the first line of each page of ours, with {digest} for that of what the page holds.
    """

    mark: str

    @abstractmethod
    def render(self, page: Page) -> str:
        """The page in the wiki's own markup, without the mark."""

    @abstractmethod
    def read(self, path: str) -> str | None:
        """The page as the wiki has it; None where there is none."""

    @abstractmethod
    def write(self, path: str, text: str) -> None:
        """Write the whole page, which was read before."""

    @abstractmethod
    def attach(self, path: str, name: str, content: bytes) -> None:
        """Store a file of the page, which was read before and is written next."""

    def finish(self) -> None:
        """Send what a wiki collects; others send all at once."""
        return
