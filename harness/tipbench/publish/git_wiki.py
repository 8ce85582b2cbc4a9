"""A wiki that is a git repository of Markdown: cloned, written into, committed and pushed; never by force.

A publication is one commit. What a clone's files are called is the wiki's to say, so nothing is written through a link
or where a file is in the place of a folder.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path as File
from urllib.parse import urlsplit

from tipbench.publish.flavours import flavour
from tipbench.publish.git import ATTRIBUTES, Git, GitFailed
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Conflict, Path, Stored, WikiError, WikiPage
from tipbench.report import as_markdown
from tipbench.report.wording import plain

BEHIND = ("[rejected]", "cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""What git prints of a push that came second."""

REFUSED = (
    "Authentication failed", "could not read Username", "could not read Password", "error: 401", "Permission denied",
)  # fmt: skip
ABSENT = ("not found", "error: 404", "does not appear to be a git repository", "does not exist")
UNREACHED = (
    "Could not resolve", "Failed to connect", "Couldn't connect", "refused", "timed out", "Could not read from",
)  # fmt: skip
"""What git prints where the server wants another secret, knows no such wiki, or does not answer."""


class GitWiki:
    """Implements `tipbench.publish.wiki.Wiki`."""

    marks = (
        "<!-- tipbench: begin. What stands from here to the end mark is written by tipbench publish -->",
        "<!-- tipbench: end -->",
    )

    def __init__(self, url: str, secret: Secret, name: str = "") -> None:
        """Clones the newest commit. name: of the flavour, "" to have it guessed from the host. Raises WikiError."""
        self._flavour = flavour(name, urlsplit(url).hostname or "")
        self._has_token = bool(secret.token)
        self._folder = File(tempfile.mkdtemp(prefix="tipbench-"))
        weakref.finalize(self, shutil.rmtree, str(self._folder), ignore_errors=True)
        self._git = Git(self._folder, url, secret)
        self._branch = ""
        self._links: set[str] = set()
        try:
            self._clone()
        except GitFailed as error:
            raise self._as_wiki_error(error, "read") from None

    def render(self, page: WikiPage) -> str:
        return as_markdown.render(
            page.page,
            link=self._link,
            image=lambda name: self._flavour.shown(page.path, f"{name}.png"),
        )

    def read(self, path: Path) -> Stored:
        content = self._content(self._flavour.file(path))
        # Bytes of people's own that are no UTF-8 come back as they were.
        return Stored(None if content is None else content.decode("utf-8", "surrogateescape"))

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        return self._content(self._flavour.image(path, name)) == content

    def write(self, changes: Sequence[Change], summary: str) -> None:
        written: dict[str, bytes] = {}
        for change in changes:
            file = self._flavour.file(change.path)
            if self.read(change.path) != change.before:
                raise Conflict(f"{file} was changed meanwhile")
            if change.text is not None:
                written[file] = change.text.encode("utf-8", "surrogateescape")
            written |= {self._flavour.image(change.path, name): image for name, image in change.images.items()}
        for file, content in written.items():
            place = self._place(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        try:
            self._git.ask("add", "--force", "--", *written)
            self._git.ask("commit", "--quiet", "--cleanup=verbatim", "--file=-", given=f"{summary}\n".encode())
            self._git.ask("push", "--porcelain", self._git.url, f"HEAD:refs/heads/{self._branch}")
        except GitFailed as error:
            if any(words in f"{error.printed} {error.said}" for words in BEHIND):
                self._fetch()
                raise Conflict(f"somebody pushed to {self._git.url} meanwhile") from None
            raise self._as_wiki_error(error, "written to") from None

    def _link(self, key: str) -> str:
        page, _, anchor = key.partition("#")
        return self._flavour.link(tuple(page.split("/"))) + (f"#{anchor}" if anchor else "")

    # ---- the clone ----

    def _place(self, file: str) -> File:
        """Where the file is, or would be. Raises WikiError where it, or a folder above it, is of another kind."""
        place = self._folder / file
        above = [folder for folder in place.parents if folder.is_relative_to(self._folder)]
        if file in self._links:
            raise WikiError(f"{file} in {self._git.url} is a link, not a page: remove it there")
        if place.is_symlink() or place.is_dir() or not all(folder.is_dir() for folder in above if folder.exists()):
            raise WikiError(f"{file} cannot be a page of {self._git.url}: a file or folder of that name is in the way")
        return place

    def _content(self, file: str) -> bytes | None:
        place = self._place(file)
        return place.read_bytes() if place.exists() else None

    def _clone(self) -> None:
        """Pages are read from, and go to, the default branch, also of a wiki that has no page yet."""
        begun = f"init.defaultBranch={self._flavour.branch}"
        self._git.ask(
            "-c", begun, "clone", "--quiet", "--depth=1", "--single-branch", "--no-tags", "--no-checkout",
            "--template=", self._git.url, ".",
        )  # fmt: skip
        info = self._folder / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(ATTRIBUTES)
        self._branch = self._git.ask("symbolic-ref", "--short", "HEAD").strip()
        try:
            self._check_out("HEAD")
            return
        except GitFailed:  # either it has no page yet, or its default branch is one that it has not
            heads = self._git.ask("ls-remote", "--heads", self._git.url)
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
        """Take what the wiki has now; what was written here and not pushed is gone."""
        try:
            self._git.ask("fetch", "--quiet", "--depth=1", "--no-tags", self._git.url, f"refs/heads/{self._branch}")
            self._check_out("FETCH_HEAD")
        except GitFailed as error:
            raise self._as_wiki_error(error, "read") from None

    def _check_out(self, commit: str) -> None:
        self._git.ask("reset", "--quiet", "--hard", commit)
        self._git.ask("clean", "--quiet", "-ffdx")
        listed = (line.partition("\t") for line in self._git.ask("ls-files", "--stage", "-z").split("\0"))
        self._links = {file for about, _, file in listed if about and not about.startswith("100")}

    # ---- what is said when it fails ----

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
        lines = [plain(line.removeprefix("remote:")) for line in said.splitlines() if line.startswith("remote:")]
        why = f"its server says: {' / '.join(filter(None, lines))[:300]}" if any(lines) else error.last
        return WikiError(f"{where}: {why}{f' ({rejected.split(chr(9))[-1]})' if rejected else ''}")
