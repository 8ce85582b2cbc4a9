"""A wiki that is a git repository of Markdown: one commit and one push for all pages, never a forced one."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path as File
from typing import NamedTuple
from urllib.parse import urlsplit

from tipbench.publish.flavours import Flavour, flavour
from tipbench.publish.git import Git, GitFailed
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Conflict, Path, Stored, WikiError, WikiPage
from tipbench.report import as_markdown
from tipbench.report.wording import plain

MARKS = (
    "<!-- tipbench: begin. What stands from here to the end mark is written by tipbench publish -->",
    "<!-- tipbench: end -->",
)

BEHIND = ("[rejected]", "cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""What git prints of a push that came second."""


class Found(NamedTuple):
    """A file in the newest commit."""

    mode: str
    blob: str


def open_wiki(url: str, name: str, secret: Secret) -> GitWiki:
    """Fetch the newest commit. name: of the flavour, "" to have it guessed from the host. Raises WikiError."""
    return GitWiki(url, flavour(name, urlsplit(url).hostname or ""), secret)


class GitWiki:
    """Implements `tipbench.publish.wiki.Wiki`."""

    marks = MARKS

    def __init__(self, url: str, flavour: Flavour, secret: Secret) -> None:
        self._flavour = flavour
        self._has_token = bool(secret.token)
        folder = tempfile.mkdtemp(prefix="tipbench-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._git = Git(File(folder), url, secret)
        self._index = File(folder) / "index-of-ours"
        self._commit = ""
        self._files: dict[str, Found] = {}
        self._texts: dict[str, str] = {}
        self._branch = ""
        self._clone()

    def render(self, page: WikiPage) -> str:
        return as_markdown.render(
            page.page,
            link=self._link,
            image=lambda name: self._flavour.shown(page.path, f"{name}.png"),
        )

    def read(self, path: Path) -> Stored:
        found = self._files.get(self._flavour.file(path))
        if found is None:
            return Stored(None)
        if not found.mode.startswith("100"):
            raise WikiError(f"{self._flavour.file(path)} in {self._git.url} is a link, not a page: remove it there")
        if found.blob not in self._texts:
            # Bytes of people's own that are no UTF-8 come back as they were.
            content = self._git.ask("cat-file", "blob", found.blob)
            self._texts[found.blob] = content.decode("utf-8", "surrogateescape")
        return Stored(self._texts[found.blob], found.blob)

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        found = self._files.get(self._flavour.image(path, name))
        return found is not None and found.blob == _blob(content, len(found.blob))

    def write(self, changes: Sequence[Change], summary: str) -> None:
        entries = []
        for change in changes:
            file = self._flavour.file(change.path)
            if self._files.get(file, Found("", "")).blob != change.before.revision:
                raise Conflict(f"{file} was changed meanwhile")
            if change.text is not None:
                entries.append(self._entry(file, change.text.encode("utf-8", "surrogateescape")))
            for name, content in change.images.items():
                entries.append(self._entry(self._flavour.image(change.path, name), content))
        try:
            self._push(self._committed(b"".join(entries), summary))
        except GitFailed as error:
            if any(words in f"{error.printed} {error.said}" for words in BEHIND):
                self._fetch()
                raise Conflict(f"somebody pushed to {self._git.url} meanwhile") from None
            raise self._as_wiki_error(error, "written to") from None

    def _link(self, key: str) -> str:
        page, _, anchor = key.partition("#")
        return self._flavour.link(tuple(page.split("/"))) + (f"#{anchor}" if anchor else "")

    def _entry(self, file: str, content: bytes) -> bytes:
        """A line of `update-index --index-info`, its content stored. As bytes: no filter of anybody's touches them."""
        blob = self._git.ask("hash-object", "-w", "--stdin", given=content).decode().strip()
        mode = self._files.get(file, Found("100644", "")).mode
        return f"{mode} {blob}\t{file}\0".encode()

    def _committed(self, entries: bytes, summary: str) -> str:
        self._index.unlink(missing_ok=True)
        if self._commit:
            self._git.ask("read-tree", self._commit, index=self._index)
        self._git.ask("update-index", "-z", "--index-info", given=entries, index=self._index)
        tree = self._git.ask("write-tree", index=self._index).decode().strip()
        parent = ["-p", self._commit] if self._commit else []
        return (
            self._git.ask("commit-tree", "--no-gpg-sign", tree, *parent, given=f"{summary}\n".encode()).decode().strip()
        )

    def _push(self, commit: str) -> None:
        self._git.ask("push", "--porcelain", "--no-verify", self._git.url, f"{commit}:refs/heads/{self._branch}")
        self._git.ask("update-ref", f"refs/heads/{self._branch}", commit)
        self._look()

    def _clone(self) -> None:
        """Fetch what the wiki's default branch holds."""
        begun = ["-c", f"init.defaultBranch={self._flavour.branch}"]
        try:
            self._git.ask(
                *begun, "clone", "--quiet", "--bare", "--depth=1", "--single-branch", "--no-tags", "--template=",
                self._git.url, ".",
            )  # fmt: skip
            head = self._git.ask("symbolic-ref", "HEAD").decode().strip()
            self._branch = head.removeprefix("refs/heads/")
            self._look()
            if self._commit:
                return
            heads = self._git.ask("ls-remote", "--heads", self._git.url).decode()
        except GitFailed as error:
            raise self._as_wiki_error(error, "read") from None
        # Either the wiki has no page yet, or its default branch is one that it has not.
        branches = [line.partition("refs/heads/")[2] for line in heads.splitlines()]
        if len(branches) > 1:
            raise WikiError(
                f"{self._git.url} has the branches {', '.join(sorted(branches)[:5])} and names none of them as its "
                "default: set its default branch"
            )
        if branches:
            self._branch = branches[0]
            self._fetch()

    def _fetch(self) -> None:
        ref = f"refs/heads/{self._branch}"
        try:
            self._git.ask("fetch", "--quiet", "--depth=1", "--no-tags", self._git.url, f"+{ref}:{ref}")
        except GitFailed as error:
            raise self._as_wiki_error(error, "read") from None
        self._look()

    def _look(self) -> None:
        """See what the newest fetched commit holds; nothing of a wiki without any."""
        try:
            ref = f"refs/heads/{self._branch}^{{commit}}"
            self._commit = self._git.ask("rev-parse", "--verify", "--quiet", ref).decode().strip()
        except GitFailed:
            self._commit = ""
        listed = self._git.ask("ls-tree", "-r", "-z", self._commit) if self._commit else b""
        self._files = {}
        for line in filter(None, listed.decode("utf-8", "surrogateescape").split("\0")):
            about, _, file = line.partition("\t")
            mode, _, blob = about.split()
            self._files[file] = Found(mode, blob)

    def _as_wiki_error(self, error: GitFailed, doing: str) -> WikiError:
        """What a person can do about it. doing: "read" or "written to"."""
        url, said = self._git.url, error.said
        where = f"{url} cannot be {doing}"
        if any(words in said for words in REFUSED):
            if not url.startswith("http"):
                return WikiError(f"{where}: its server refuses your key ({error.last})")
            if self._has_token:
                return WikiError(f"{where}: its server refuses the token; it may have run out, or lack the right to")
            return WikiError(f"{where} without a token: set TIPBENCH_TOKEN, or `keyring set tipbench HOST`")
        if "error: 403" in said:
            return WikiError(
                f"{where}: its server forbids it (403): the wiki is read-only, or the token lacks the right"
            )
        if any(words in said for words in ABSENT):
            return WikiError(
                f"{where}: there is no such repository. A wiki has one from its first page on: create one page there, "
                "and look the address up anew"
            )
        if any(words in said for words in UNREACHED):
            return WikiError(f"{where}: its server cannot be reached ({error.last})")
        rejected = next((line for line in error.printed.splitlines() if "[remote rejected]" in line), "")
        why = _of_remote(said) or error.last
        return WikiError(f"{where}: {why}{f' ({rejected.split(chr(9))[-1]})' if rejected else ''}")


REFUSED = (
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "error: 401",
    "Permission denied",
)
ABSENT = ("not found", "error: 404", "does not appear to be a git repository", "does not exist")
UNREACHED = (
    "Could not resolve",
    "Failed to connect",
    "Couldn't connect",
    "refused",
    "timed out",
    "Could not read from",
)
"""What git prints where the server wants another secret, knows no such wiki, or does not answer."""


def _blob(content: bytes, digits: int) -> str:
    """What git calls this content, in a repository whose names have so many digits. Asking git takes a process."""
    kind = "sha1" if digits == 40 else "sha256"
    return hashlib.new(kind, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _of_remote(said: str) -> str:
    """What the server's own hooks said, empty for nothing."""
    lines = [plain(line.removeprefix("remote:")) for line in said.splitlines() if line.startswith("remote:")]
    return f"its server says: {' / '.join(filter(None, lines))[:300]}" if any(lines) else ""
