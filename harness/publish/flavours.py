"""How each kind of git wiki names its files, and how a page's Markdown names other pages and images.

GitHub and Gitea know no folders of pages: a page is a file in the root, its blanks written as dashes. GitLab and Azure
DevOps have folders; in Azure's file names a dash is a blank and `%2D` is a dash.
Sources: GitHub's wiki of github/markup#1619 (an image's address is relative to the wiki), GitLab's "Wiki-specific
Markdown" (root links), Gitea's services/wiki/wiki_path.go, Azure DevOps' "Wiki files and file structure".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tipbench.publish.wiki import Path, WikiError


class Flavour(Protocol):
    """branch: of a wiki that has no page yet. file, image: paths in the repository. link, shown: what Markdown
    names a page, or an image, by."""

    branch: str

    def file(self, path: Path) -> str: ...

    def link(self, path: Path) -> str: ...

    def image(self, path: Path, name: str) -> str: ...

    def shown(self, path: Path, name: str) -> str: ...


class Flat:
    """GitHub, Gitea and Forgejo."""

    def __init__(self, branch: str) -> None:
        self.branch = branch

    def file(self, path: Path) -> str:
        return f"{self.link(path)}.md"

    def link(self, path: Path) -> str:
        return "-".join(path)

    def image(self, path: Path, name: str) -> str:
        return f"images/{self.link(path)}/{name}"

    shown = image


class GitLab:
    branch = "main"

    def file(self, path: Path) -> str:
        return f"{'/'.join(path)}.md"

    def link(self, path: Path) -> str:
        return f"/{'/'.join(path)}"

    def image(self, path: Path, name: str) -> str:
        return f"{'/'.join(path)}/{name}"

    def shown(self, path: Path, name: str) -> str:
        return f"/{self.image(path, name)}"


class Azure:
    branch = "wikiMain"

    def file(self, path: Path) -> str:
        return f"{'/'.join(part.replace('-', '%2D') for part in path)}.md"

    def link(self, path: Path) -> str:
        return f"/{self.file(path).removesuffix('.md')}"

    def image(self, path: Path, name: str) -> str:
        return f".attachments/{'-'.join(path)}-{name}"

    def shown(self, path: Path, name: str) -> str:
        return f"/{self.image(path, name)}"


FLAVOURS: Mapping[str, Flavour] = {
    "github": Flat("master"),
    "gitlab": GitLab(),
    "gitea": Flat("main"),
    "azure": Azure(),
}

HOSTS = {
    "github": "github",
    "gitlab": "gitlab",
    "gitea": "gitea",
    "forgejo": "gitea",
    "codeberg": "gitea",
    "azure": "azure",
    "visualstudio": "azure",
}
"""By a word in a host's name, its flavour."""


def flavour(name: str, host: str) -> Flavour:
    """By name, or guessed from the host. Raises WikiError where neither tells."""
    found = name or next((known for word, known in HOSTS.items() if word in host.lower()), "")
    if found not in FLAVOURS:
        raise WikiError(f"the kind of wiki of {host or 'this'} is unknown: add --flavour {'|'.join(FLAVOURS)}")
    return FLAVOURS[found]
