"""The four kinds of wiki as tests of what they have in common see them: what people find and do there.

Each is one that serves many tests, which keep apart by the names of their machines; Confluence is a stand-in.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path as File
from typing import Any

import requests

from tests import fake_confluence, git_server, servers
from tests.fake_confluence import FakeConfluence
from tests.published import BOT_TOKEN, TOKEN
from tipbench.publish.confluence import Confluence
from tipbench.publish.doku_wiki import DokuWiki
from tipbench.publish.git_wiki import GitWiki
from tipbench.publish.media_wiki import MediaWiki
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Wiki


class Site(ABC):
    """A wiki that runs. name: of a page, there."""

    def open(self) -> Wiki:
        return self.opened(TOKEN)

    @abstractmethod
    def opened(self, token: str) -> Wiki: ...

    @abstractmethod
    def name(self, path: str) -> str: ...

    @abstractmethod
    def pages(self) -> dict[str, str]:
        """All pages as they are stored, by name."""

    @abstractmethod
    def save(self, path: str, text: str) -> None:
        """A person saves a page, or makes it."""

    @abstractmethod
    def versions(self, path: str) -> int: ...

    @abstractmethod
    def uploads(self, path: str) -> int:
        """How often the page's figure was sent."""

    @abstractmethod
    def read_only(self) -> contextlib.AbstractContextManager[None]: ...

    def typed(self, text: str) -> str:
        """Words of a person in the wiki's markup."""
        return text

    def text(self, path: str) -> str:
        return self.pages()[self.name(path)]

    def tick(self) -> None:
        """Wait until the wiki can tell what is written next from what was written before."""
        return


class Git(Site):
    def __init__(self, server: git_server.GitServer) -> None:
        self.server = server
        self._folder = server.wiki("contract.git")

    def opened(self, token: str) -> GitWiki:
        return GitWiki(f"{self.server.url}/contract.git", Secret("", token), "github")

    def name(self, path: str) -> str:
        return f"{path.replace('/', '-')}.md"

    def pages(self) -> dict[str, str]:
        found = git_server.files(self._folder)
        return {name: content.decode() for name, content in found.items() if name.endswith(".md")}

    def save(self, path: str, text: str) -> None:
        git_server.put(self._folder, "master", {self.name(path): text})

    def versions(self, path: str) -> int:
        return self._commits(self.name(path))

    def uploads(self, path: str) -> int:
        return self._commits(f"images/{path.replace('/', '-')}/speedups.png")

    def _commits(self, file: str) -> int:
        return int(git_server.git("-C", str(self._folder), "rev-list", "--count", "master", "--", file))

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        git_server.git("-C", str(self._folder), "config", "http.receivepack", "false")
        yield
        git_server.git("-C", str(self._folder), "config", "http.receivepack", "true")


class Real(Site):
    """A real wiki over HTTP. A person writes it through the same interface, as a user of its own."""

    def __init__(self, server: servers.Server, kind: type[MediaWiki] | type[DokuWiki]) -> None:
        self.server = server
        self._kind = kind

    def save(self, path: str, text: str) -> None:
        human = self.human()
        human.write(path, text, human.read(path))

    @abstractmethod
    def human(self) -> Wiki: ...

    @abstractmethod
    def stranger(self) -> Wiki: ...

    @abstractmethod
    def without_files(self) -> contextlib.AbstractContextManager[None]:
        """The wiki takes none."""


class Media(Real):
    def opened(self, token: str) -> MediaWiki:
        return MediaWiki(self.server.url, Secret("Publisher@tipbench", BOT_TOKEN if token == TOKEN else token))

    def human(self) -> MediaWiki:
        return MediaWiki(self.server.url, Secret("Human", TOKEN))

    def stranger(self) -> MediaWiki:
        return MediaWiki(self.server.url, Secret("", ""))

    def without_files(self) -> contextlib.AbstractContextManager[None]:
        return self.server.with_settings("$wgEnableUploads = false;")

    def name(self, path: str) -> str:
        return path

    def query(self, **words: str) -> list[Any]:
        """Pages, as the API shows them to strangers."""
        found: list[Any] = []
        more: dict[str, str] = {}
        while True:
            wanted = {"action": "query", "format": "json", "formatversion": "2", **words, **more}
            answer = requests.get(f"{self.server.url}api.php", params=wanted, timeout=30).json()
            found += answer.get("query", {}).get("pages", [])
            if "continue" not in answer:
                return found
            more = answer["continue"]

    def pages(self) -> dict[str, str]:
        found = self.query(generator="allpages", gaplimit="20", prop="revisions", rvprop="content", rvslots="main")
        return {page["title"]: page["revisions"][0]["slots"]["main"]["content"] for page in found}

    def versions(self, path: str) -> int:
        (page,) = self.query(titles=self.name(path), prop="revisions", rvprop="ids", rvlimit="max")
        return len(page["revisions"])

    def uploads(self, path: str) -> int:
        file = f"File:Tipbench-{path.partition('/')[2].replace('/', '-')}-speedups.png"
        (page,) = self.query(titles=file, prop="imageinfo", iiprop="sha1", iilimit="max")
        return len(page.get("imageinfo", ()))

    def read_only(self) -> contextlib.AbstractContextManager[None]:
        return self.server.with_settings("$wgReadOnly = 'Backup until noon';")


class Doku(Real):
    def opened(self, token: str) -> DokuWiki:
        return DokuWiki(self.server.url, Secret("publisher", token))

    def human(self) -> DokuWiki:
        return DokuWiki(self.server.url, Secret("human", TOKEN))

    def stranger(self) -> DokuWiki:
        return DokuWiki(self.server.url, Secret("", ""))

    def without_files(self) -> contextlib.AbstractContextManager[None]:
        return self.rules("*\t@ALL\t1\n*\t@user\t4\n")

    def name(self, path: str) -> str:
        return path.lower()

    def pages(self) -> dict[str, str]:
        root = self.server.folder / "data/pages"
        return {str(file.relative_to(root).with_suffix("")): file.read_text() for file in root.rglob("*.txt")}

    def versions(self, path: str) -> int:
        return self._changes(f"meta/{self.name(path)}")

    def uploads(self, path: str) -> int:
        return self._changes(f"media_meta/{self.name(path)}/speedups.png")

    def _changes(self, name: str) -> int:
        """DokuWiki writes one line each."""
        file = self.server.folder / "data" / f"{name}.changes"
        return len(file.read_text().splitlines()) if file.exists() else 0

    @contextlib.contextmanager
    def rules(self, text: str) -> Iterator[None]:
        file: File = self.server.folder / "conf/acl.auth.php"
        before = file.read_text()
        file.write_text(text)
        yield
        file.write_text(before)

    def read_only(self) -> contextlib.AbstractContextManager[None]:
        return self.rules("*\t@ALL\t1\n*\t@user\t1\n")

    def tick(self) -> None:
        time.sleep(1.1)  # DokuWiki names versions by their second


class Stand(Site):
    """Confluence's stand-in."""

    def __init__(self, site: FakeConfluence) -> None:
        self.site = site

    def opened(self, token: str) -> Confluence:
        return Confluence(f"{self.site.url}?space=KEY", Secret(fake_confluence.USER, token))

    def name(self, path: str) -> str:
        return path.replace("/", ": ")

    def pages(self) -> dict[str, str]:
        return {page.title: page.body for page in self.site.pages.values()}

    def typed(self, text: str) -> str:
        return f"<p>{text}</p>"

    def save(self, path: str, text: str) -> None:
        self.site.save(self.name(path), text)

    def versions(self, path: str) -> int:
        return self.site.pages[self.name(path)].version

    def uploads(self, path: str) -> int:
        return self.site.pages[self.name(path)].uploads

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        self.site.is_read_only = True
        yield
        self.site.is_read_only = False


@contextlib.contextmanager
def running(kind: str, folder: File) -> Iterator[Site]:
    """kind: as a target's. Skips, or fails, where the wiki is not installed."""
    if kind == "git":
        git_server.need()
        with git_server.serving(folder) as server:
            yield Git(server)
    elif kind == "mediawiki":
        servers.need_media_wiki()
        with servers.media_wiki(folder) as media:
            yield Media(media, MediaWiki)
    elif kind == "dokuwiki":
        servers.need_doku_wiki()
        with servers.doku_wiki(folder) as doku:
            yield Doku(doku, DokuWiki)
    else:
        with fake_confluence.running() as site:
            yield Stand(site)


OPENED: dict[str, Callable[[str, Secret], Wiki]] = {
    "git": lambda url, secret: GitWiki(url, secret, "github"),
    "mediawiki": MediaWiki,
    "dokuwiki": DokuWiki,
    "confluence": lambda url, secret: Confluence(f"{url}?space=KEY", secret),
}
"""By kind of target, from an address and a secret to its wiki."""


@contextlib.contextmanager
def answering(status: int, body: bytes = b"", **headers: str) -> Iterator[tuple[str, list[Any]]]:
    """A server that answers all requests alike; its address, and the requests' paths and headers."""
    requests: list[Any] = []

    class Handler(servers.Handler):
        def answer(self) -> None:
            self.body()
            requests.append((self.path, str(self.headers)))
            self.reply(status, body, headers)

    with servers.answering(Handler) as url:
        yield f"{url}/wiki/", requests


_numbers = itertools.count()


def machine() -> str:
    """A name that no other test's machine has."""
    return f"machine-{next(_numbers)}"
