"""What every wiki must be able to do, whichever it is; one module each implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tipbench.errors import UserError
from tipbench.report.document import Page

Path = tuple[str, ...]
"""A page's place in the tree, from the root: ("Benchmarks", "amd-epyc-zen4-2c-24g", "2026-11-21-0e1f8a67").
Its key, which links name, is these joined by "/"."""

NO_FILES = "Figure, not shown as this wiki takes no files from tipbench:"
"""What begins a figure that is described in words."""


class WikiError(UserError):
    """A wiki cannot be read or written: it is down, refuses the token, is read-only, or somebody holds a lock
    on the page. The message says what, where, and what to do, and never holds a secret."""


class Conflict(WikiError):
    """Somebody wrote meanwhile: what was read is no longer what is there. Read again, then write again."""


@dataclass(frozen=True)
class WikiPage:
    """A page to be published. images: PNG files by name with ending, those that the page's figures name."""

    path: Path
    page: Page
    images: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return "/".join(self.path)


@dataclass(frozen=True)
class Stored:
    """A page as the wiki has it. text: None where there is none. revision: what a write is based on."""

    text: str | None
    revision: str = ""


@dataclass(frozen=True)
class Change:
    """What is to be written to one page. text: the whole page, what people wrote around our region included;
    None where only images differ. images: those that the wiki has not, or has with another content."""

    path: Path
    before: Stored
    text: str | None
    images: Mapping[str, bytes] = field(default_factory=dict)


class Wiki(Protocol):
    """A wiki that is being published to.

    marks: the lines that begin and end our region of a page; what is outside them is never changed.
    """

    marks: tuple[str, str]

    def render(self, page: WikiPage) -> str:
        """Our region of the page in the wiki's own markup, without the marks, links and images resolved."""

    def read(self, path: Path) -> Stored:
        """Raises WikiError."""

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        """Whether the image lies there with just this content. Raises WikiError."""

    def write(self, changes: Sequence[Change], summary: str) -> None:
        """Write all, images before the pages that show them, pages in the order given: at once where the wiki
        can, else so that a failure leaves no page that names what is not there. Nothing else is touched.

        summary: what the wiki's history says. Raises Conflict where a page is no longer as it was read (pages
        before it may be written already), WikiError otherwise.
        """
