"""How each kind of git wiki names its files, and how a page's Markdown names other pages and images.

GitHub and Gitea know no folders of pages: a page is a file in the root, its blanks written as dashes. GitLab and Azure
DevOps have folders; in Azure's file names a dash is a blank and `%2D` is a dash.
Sources: GitHub's wiki of github/markup#1619 (an image's address is relative to the wiki), GitLab's "Wiki-specific
Markdown" (root links), Gitea's services/wiki/wiki_path.go, Azure DevOps' "Wiki files and file structure".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tipbench.publish.wiki import Path, WikiError


@dataclass(frozen=True)
class Flavour:
    """branch: of a wiki that has no page yet. between: a page and the one below it. root: what links and addresses of
    images begin with. dash: how a file's name writes one. images: what their files begin with, of {page}, or of
    {flat}, its name without folders."""

    branch: str
    between: str
    root: str
    images: str
    dash: str = "-"

    def file(self, path: Path) -> str:
        """The page's file in the repository."""
        return f"{self._named(path)}.md"

    def link(self, path: Path) -> str:
        """What Markdown names the page by."""
        return f"{self.root}{self._named(path)}"

    def image(self, path: Path, name: str) -> str:
        """The image's file in the repository."""
        return self.images.format(page=self.between.join(path), flat="-".join(path)) + name

    def shown(self, path: Path, name: str) -> str:
        """What Markdown names the image by."""
        return f"{self.root}{self.image(path, name)}"

    def _named(self, path: Path) -> str:
        return self.between.join(part.replace("-", self.dash) for part in path)


FLAVOURS: Mapping[str, Flavour] = {
    "github": Flavour("master", between="-", root="", images="images/{page}/"),
    "gitlab": Flavour("main", between="/", root="/", images="{page}/"),
    "gitea": Flavour("main", between="-", root="", images="images/{page}/"),
    "azure": Flavour("wikiMain", between="/", root="/", images=".attachments/{flat}-", dash="%2D"),
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
