"""A wiki that is a git repository of Markdown: cloned, written into, committed and pushed; never by force.

A publication is one commit. How each kind of wiki names its files and addresses: GitHub's wiki of github/markup#1619,
GitLab's "Wiki-specific Markdown", Gitea's services/wiki/wiki_path.go, Azure DevOps' "Wiki files and file structure".
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tipbench.publish.git import ATTRIBUTES, Git, GitFailed
from tipbench.publish.markup import Addresses, readdressed
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import SUMMARY, Conflict, Page, WikiError


@dataclass(frozen=True)
class Flavour:
    """How a kind of git wiki names things.

    Attributes:
        branch: of a wiki that has no page yet.
        between: stands between a page's name and that of the one below it.
        root: what addresses begin with.
        files: how the names of files begin, with {page}, or {flat}, the page's name without folders.
        dash: how the file of a page writes a dash.
    """

    branch: str
    between: str
    root: str
    files: str
    dash: str = "-"

    def name(self, path: str) -> str:
        return path.replace("-", self.dash).replace("/", self.between)

    def file(self, path: str, name: str) -> str:
        return self.files.format(page=path.replace("/", self.between), flat=path.replace("/", "-")) + name


FLAVOURS: Mapping[str, Flavour] = {
    "github": Flavour("master", between="-", root="", files="images/{page}/"),
    "gitlab": Flavour("main", between="/", root="/", files="{page}/"),
    "gitea": Flavour("main", between="-", root="", files="images/{page}/"),
    "azure": Flavour("wikiMain", between="/", root="/", files=".attachments/{flat}-", dash="%2D"),
}

HOSTS = {"forgejo": "gitea", "codeberg": "gitea", "visualstudio": "azure", **{name: name for name in FLAVOURS}}
"""Flavours by a word in a host's name."""

BEHIND = ("[rejected]", "cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""What git prints of a push that came second."""

REMEDIES = {
    ("Authentication failed", "could not read Username", "could not read Password", "error: 401"): (
        "its server refuses the token: set TIPBENCH_TOKEN, or `keyring set tipbench HOST`"
    ),
    ("Permission denied",): "its server refuses your key",
    ("error: 403",): "its server forbids it (403): the wiki is read-only, or the token lacks the right",
    ("not found", "error: 404", "does not appear to be a git repository", "does not exist"): (
        "there is no such repository. A wiki has one from its first page on: create one page there, and look the "
        "address up anew"
    ),
    ("redirect", "error: 30"): "its server sends on to another address: publish to that one",
    ("Could not resolve", "Failed to connect", "Couldn't connect", "refused", "timed out"): (
        "its server cannot be reached"
    ),
}
"""What a person can do, by what git prints, the first that fits."""


def flavour(name: str, host: str) -> Flavour:
    """By name, or guessed from the host. Raises WikiError where neither tells."""
    key = name or next((flavour for word, flavour in HOSTS.items() if word in host.lower()), "")
    if key not in FLAVOURS:
        raise WikiError(f"the kind of wiki of {host or 'this'} is unknown: add --flavour {'|'.join(FLAVOURS)}")
    return FLAVOURS[key]


class GitWiki:
    """Implements `tipbench.publish.wiki.Wiki`."""

    mark = "<!-- This page is written by tipbench: changes are lost at the next publishing -->"

    def __init__(self, url: str, secret: Secret, name: str = "") -> None:
        """Clones the newest commit. name: of the flavour, "" to guess it from the host. Raises WikiError."""
        self._flavour = flavour(name, urlsplit(url).hostname or "")
        folder = Path(tempfile.mkdtemp(prefix="tipbench-"))
        weakref.finalize(self, shutil.rmtree, str(folder), ignore_errors=True)
        self._folder = folder
        self._git = Git(folder, url, secret)
        try:
            self._branch = self._clone()
        except GitFailed as error:
            raise self._as_wiki_error(error, "read") from None

    def render(self, page: Page) -> str:
        kind = self._flavour
        return readdressed(
            page.text,
            Addresses(
                lambda path, anchor: f"{kind.root}{kind.name(path)}{anchor and '#'}{anchor}",
                lambda name: f"{kind.root}{kind.file(page.path, name)}",
            ),
        )

    def read(self, path: str) -> str | None:
        content = self._content(f"{self._flavour.name(path)}.md")
        return None if content is None else content.decode("utf-8", "replace")

    def write(self, path: str, text: str, base: str | None) -> None:
        if self.read(path) != base:
            raise Conflict(f"{path} was changed meanwhile")
        self._put(f"{self._flavour.name(path)}.md", text.encode())

    def has(self, path: str, name: str, content: bytes) -> bool:
        return self._content(self._flavour.file(path, name)) == content

    def attach(self, path: str, name: str, content: bytes) -> None:
        self._put(self._flavour.file(path, name), content)

    def finish(self) -> None:
        try:
            self._git.run("commit", "--quiet", "--cleanup=verbatim", "--file=-", standard_input=f"{SUMMARY}\n".encode())
            self._git.run("push", "--porcelain", self._git.url, f"HEAD:refs/heads/{self._branch}")
        except GitFailed as error:
            if any(words in f"{error.printed} {error.errors}" for words in BEHIND):
                self._fetch(self._branch)
                raise Conflict(f"somebody pushed to {self._git.url} meanwhile") from None
            raise self._as_wiki_error(error, "written to") from None

    # ---- the clone ----

    def _place(self, file: str) -> Path:
        """Where the file is, or would be. Raises WikiError where something of another kind is in the way.

        git checks links out as small files (core.symlinks), so nothing here leads out of the clone; a link that a
        page's file would replace is refused."""
        place = self._folder / file
        folders = [folder for folder in place.parents if folder.is_relative_to(self._folder)]
        listed = self._git.run("ls-files", "--stage", "--", file)
        in_the_way = place.is_dir() or any(folder.exists() and not folder.is_dir() for folder in folders)
        if in_the_way or (listed and not listed.startswith("100")):
            raise WikiError(f"{file} cannot be written in {self._git.url}: a link, file or folder is in its place")
        return place

    def _content(self, file: str) -> bytes | None:
        place = self._place(file)
        return place.read_bytes() if place.exists() else None

    def _put(self, file: str, content: bytes) -> None:
        place = self._place(file)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        self._git.run("add", "--force", "--", file)

    def _clone(self) -> str:
        """The default branch, also of a wiki that has no page yet, checked out."""
        branch = f"init.defaultBranch={self._flavour.branch}"
        self._git.run("-c", branch, "clone", "--quiet", "--depth=1", "--no-checkout", "--template=", self._git.url, ".")
        info = self._folder / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(ATTRIBUTES)
        default = self._git.run("symbolic-ref", "--short", "HEAD").strip()
        heads = self._git.run("ls-remote", "--heads", self._git.url).splitlines()
        branches = [line.partition("refs/heads/")[2] for line in heads]
        if branches and default not in branches:
            if len(branches) > 1:
                listed = ", ".join(sorted(branches)[:5])
                raise WikiError(f"{self._git.url} has the branches {listed} and no default: set its default branch")
            default = branches[0]
        if branches:
            self._fetch(default)
        return default

    def _fetch(self, branch: str) -> None:
        """Take what the wiki has now; what was written here and not pushed is gone."""
        self._git.run("fetch", "--quiet", "--depth=1", "--no-tags", self._git.url, f"refs/heads/{branch}")
        self._git.run("reset", "--quiet", "--hard", "FETCH_HEAD")
        self._git.run("clean", "--quiet", "-ffdx")

    def _as_wiki_error(self, error: GitFailed, action: str) -> WikiError:
        """action: "read" or "written to"."""
        fitting = (text for words, text in REMEDIES.items() if any(word in error.errors for word in words))
        remedy = next(fitting, "")
        return WikiError(f"{self._git.url} cannot be {action}: {remedy}{' (' if remedy else ''}{error.reason}"
                         f"{')' if remedy else ''}")  # fmt: skip
