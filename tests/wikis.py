"""The four kinds of wiki as tests of what they have in common see them: what people find and do there.

Each is one that serves many tests, which keep apart by the names of their machines; Confluence is a stand-in.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

from tests import fake_confluence, git_server, servers
from tests.fake_confluence import FakeConfluence
from tests.published import BOT_TOKEN, TOKEN
from tipbench.publish.target import Target, open_wiki
from tipbench.publish.web import Login
from tipbench.publish.wiki import Wiki

KINDS = ("git", "mediawiki", "dokuwiki", "confluence")

OVER_HTTP = KINDS[1:]


def opened(kind: str, url: str, user: str = "me", token: str = TOKEN) -> Wiki:
    url += "?space=KEY" if kind == "confluence" and "?" not in url else ""
    return open_wiki(Target(kind, url, Login(user, token)), "github" if kind == "git" else "")


class Site(ABC):
    """A wiki that runs."""

    target: str
    user: str = ""
    token: str = TOKEN

    def open(self, token: str = "") -> Wiki:
        kind, _, url = self.target.partition("+")
        return opened(kind, url, self.user, token or self.token)

    def text(self, path: str) -> str:
        """As it is stored."""
        return self.open().read(path) or ""

    @abstractmethod
    def save(self, path: str, text: str) -> None:
        """A person saves a page, or makes it."""

    @abstractmethod
    def read_only(self) -> contextlib.AbstractContextManager[None]: ...


class Git(Site):
    def __init__(self, folder: File) -> None:
        git_server.git("init", "--quiet", "--bare", "--initial-branch=master", str(folder))
        self.folder = folder
        self.target = f"git+file://{folder}"

    def save(self, path: str, text: str) -> None:
        git_server.put(self.folder, "master", {f"{path.replace('/', '-')}.md": text})

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        hook = self.folder / "hooks" / "pre-receive"
        hook.write_text("#!/bin/sh\necho 'pages are read-only until Monday' >&2; exit 1\n")
        hook.chmod(0o755)
        yield
        hook.unlink()


class Real(Site):
    """A real wiki over HTTP. A person writes it through the same interface."""

    def __init__(self, kind: str, server: servers.Server) -> None:
        self.server = server
        self.target = f"{kind}+{server.url}"
        self.user, self.token = ("Publisher@tipbench", BOT_TOKEN) if kind == "mediawiki" else ("publisher", TOKEN)

    def save(self, path: str, text: str) -> None:
        self.open().write(path, text)

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        if self.target.startswith("mediawiki"):
            with self.server.with_settings("$wgReadOnly = 'Backup until noon';"):
                yield
            return
        rules = self.server.folder / "conf/acl.auth.php"
        before = rules.read_text()
        rules.write_text("*\t@ALL\t1\n*\t@user\t1\n")
        yield
        rules.write_text(before)


class Stand(Site):
    """Confluence's stand-in."""

    user = fake_confluence.USER

    def __init__(self, site: FakeConfluence) -> None:
        self.site = site
        site.save("Team", "<p>ours</p>")
        self.target = f"confluence+{site.url}?space=KEY&parent={site.pages['Team'].id}"

    def save(self, path: str, text: str) -> None:
        self.site.save(path.replace("/", ": "), text)

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        self.site.is_read_only = True
        yield
        self.site.is_read_only = False


@contextlib.contextmanager
def running(kind: str, folder: File) -> Iterator[Any]:
    """kind: as a target's. Skips, or fails, where the wiki is not installed."""
    if kind == "git":
        yield Git(folder / "wiki.git")
    elif kind == "mediawiki":
        servers.need_media_wiki()
        with servers.media_wiki(folder) as media:
            yield Real(kind, media)
    elif kind == "dokuwiki":
        servers.need_doku_wiki()
        with servers.doku_wiki(folder) as doku:
            yield Real(kind, doku)
    else:
        with fake_confluence.running() as site:
            yield Stand(site)


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
