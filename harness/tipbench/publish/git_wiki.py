"""A wiki that is a git repository of Markdown: cloned, written into, committed and pushed by the git that is installed,
with its own settings and credentials; never by force.

A publication is one commit. How each kind of wiki names its files and addresses: GitHub's wiki of github/markup#1619,
GitLab's "Wiki-specific Markdown", Gitea's services/wiki/wiki_path.go, Azure DevOps' "Wiki files and file structure".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tipbench.publish.addresses import Addresses, rewrite_addresses
from tipbench.publish.wiki import MARK, SUMMARY, Page, Wiki, WikiError
from tipbench.tip.wording import plain


@dataclass(frozen=True)
class Flavour:
    """How a kind of git wiki names things.

    Attributes:
        between: stands between a page's name and that of the one below it.
        root: what addresses begin with.
        files: how the names of files begin, with {page}, or {flat}, the page's name without folders.
        dash: how the file of a page writes a dash.
    """

    between: str
    root: str
    files: str
    dash: str = "-"

    def name(self, path: str) -> str:
        return path.replace("-", self.dash).replace("/", self.between)

    def file(self, path: str, name: str) -> str:
        return self.files.format(page=path.replace("/", self.between), flat=path.replace("/", "-")) + name


GITHUB = Flavour(between="-", root="", files="images/{page}/")

FLAVOURS: Mapping[str, Flavour] = {
    "github": GITHUB,
    "gitlab": Flavour(between="/", root="/", files="{page}/"),
    "gitea": GITHUB,
    "azure": Flavour(between="/", root="/", files=".attachments/{flat}-", dash="%2D"),
}

HOSTS = {"forgejo": "gitea", "codeberg": "gitea", "visualstudio": "azure", **{name: name for name in FLAVOURS}}
"""Flavours by a word in a host's name."""

ABSENT = ("not found", "does not appear to be a git repository", "does not exist")

AUTHOR = {"NAME": "tipbench", "EMAIL": "tipbench@users.noreply.invalid"}
"""Of every commit: a page is not to say who published it. The domain can be nobody's (RFC 2606)."""

OF_ANOTHER_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Variables that git sets in a hook, where tipbench may be started."""


class GitWiki(Wiki):
    """In a temporary clone."""

    mark = f"<!-- {MARK} {{digest}} -->"

    def __init__(self, url: str, flavour: str) -> None:
        """flavour: a key of FLAVOURS; "" to guess it from the host. Raises WikiError where it cannot be cloned."""
        host = urlsplit(url).hostname or ""
        guessed = flavour or next((kind for word, kind in HOSTS.items() if word in host), "")
        if guessed not in FLAVOURS:
            raise WikiError(f"{host or url} does not tell which git wiki it is: add --flavour {'|'.join(FLAVOURS)}")
        self._url = url
        self._flavour = FLAVOURS[guessed]
        self._folder = Path(tempfile.mkdtemp(prefix="tipbench-"))
        weakref.finalize(self, shutil.rmtree, str(self._folder), ignore_errors=True)
        self._git("clone", "--quiet", "--depth=1", url, ".")

    def render(self, page: Page) -> str:
        kind = self._flavour
        return rewrite_addresses(
            page.text,
            Addresses(
                lambda path, anchor: f"{kind.root}{kind.name(path)}{anchor}",
                lambda name: f"{kind.root}{kind.file(page.path, name)}",
            ),
        )

    def read(self, path: str) -> str | None:
        file = self._file(path)
        return file.read_text("utf-8", "replace") if file.exists() else None

    def write(self, path: str, text: str) -> None:
        self._put(self._file(path), text.encode())

    def attach(self, path: str, name: str, content: bytes) -> None:
        self._put(self._folder / self._flavour.file(path, name), content)

    def finish(self) -> None:
        self._git("commit", "--quiet", "--no-gpg-sign", "-m", SUMMARY)
        self._git("push", "--quiet", "origin", "HEAD")

    def _file(self, path: str) -> Path:
        return self._folder / f"{self._flavour.name(path)}.md"

    def _put(self, file: Path, content: bytes) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        self._git("add", "--force", "--", str(file))  # whatever a person's settings ignore

    def _git(self, *words: str) -> None:
        """Raises WikiError."""
        env = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_REPOSITORY}
        env |= {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in AUTHOR.items()}
        env |= {"TZ": "UTC", "LC_ALL": "C"}  # a commit holds its author's time zone; ABSENT is English
        try:
            done = subprocess.run(["git", *words], cwd=self._folder, env=env, capture_output=True, check=False)
        except FileNotFoundError:
            raise WikiError("git is not installed, and a git wiki is published by it") from None
        if not done.returncode:
            return
        errors = done.stderr.decode("utf-8", "replace")
        lines = [line for line in errors.splitlines() if line.strip()]
        said = [line.strip() for line in lines if line.startswith(("remote:", "fatal:", "error:", " !"))] or lines
        if words[0] != "clone":
            said.append("if somebody pushed meanwhile, publish again")
        elif any(word in errors for word in ABSENT):
            said.append("a wiki has a repository from its first page on: create one page there")
        action = "read" if words[0] == "clone" else "written to"
        raise WikiError(plain(f"{self._url} cannot be {action}: {'; '.join(said)}"))
