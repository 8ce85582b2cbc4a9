"""MediaWiki by mwclient: pages are subpages, `Benchmarks/machine/run`, figures are files of the wiki.

Tried on MediaWiki 1.39 with a bot password (Special:BotPasswords: edit and create pages, upload and replace files).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import mwclient
from mwclient import errors

from tipbench.publish import web
from tipbench.publish.addresses import Addresses
from tipbench.publish.markup import wiki_markup
from tipbench.publish.web import Login
from tipbench.publish.wiki import MARK, SUMMARY, Page, Wiki, WikiError
from tipbench.tip.wording import plain

RETRIES, RETRY_S = 3, 5
"""mwclient's own are 25, each 30 s longer than the one before: over two hours of silence."""

BOT_PASSWORD = (
    "make a bot password on Special:BotPasswords, then set TIPBENCH_USER to its user (Name@bot) and TIPBENCH_TOKEN to "
    "its password"
)


class MediaWiki(Wiki):
    """Without a token it can be read, not written."""

    mark = f"<!-- {MARK} {{digest}} -->"

    def __init__(self, url: str, login: Login) -> None:
        """url: of the folder that holds api.php. Raises WikiError where no MediaWiki answers there, or where it does
        not take the token."""
        self._url = web.folder(url)
        self._is_stranger = not login.token
        parts = urlsplit(self._url)
        try:
            with self._explained():
                self._site: Any = mwclient.Site(
                    parts.netloc,
                    parts.path,
                    scheme=parts.scheme,
                    pool=web.session(Login()),
                    max_retries=RETRIES,
                    retry_timeout=RETRY_S,
                    connection_options={"timeout": web.TIMEOUT_S},
                    do_init=False,
                )
                if self._is_stranger:
                    self._site.site_init()
                else:
                    self._site.login(login.user, login.token)
                self._takes_files = "upload" in self._site.rights and "uploadsenabled" in self._site.site
        except (LookupError, TypeError, ValueError, AttributeError):  # of JSON that is no MediaWiki's
            raise WikiError(
                f"{self._url} does not answer as a MediaWiki: give the address of the folder that holds api.php "
                "(Special:Version names it), such as https://wiki.example.org/w/"
            ) from None

    def render(self, page: Page) -> str:
        addresses = Addresses(
            lambda path, anchor: path + anchor, lambda name: self._file(page.path, name) if self._takes_files else ""
        )
        return wiki_markup(page.text, "mediawiki", addresses)

    def read(self, path: str) -> str | None:
        with self._explained(path):
            return str(self._site.pages[path].text()) or None

    def write(self, path: str, text: str) -> None:
        if self._is_stranger:
            raise WikiError(f"{self._url}: writing needs a user and a token: {BOT_PASSWORD}")
        with self._explained(path):
            self._site.pages[path].edit(text, SUMMARY, bot=True)

    def attach(self, path: str, name: str, content: bytes) -> None:
        if not self._takes_files:
            return
        with self._explained(path):
            try:
                self._site.upload(
                    io.BytesIO(content), self._file(path, name), description=SUMMARY, comment=SUMMARY, ignore=True
                )
            except errors.APIError as error:
                if error.code != "fileexists-no-change":  # it is there already
                    raise

    def _file(self, path: str, name: str) -> str:
        """Files of a wiki share one space of names."""
        return f"Tipbench-{path}-{name}".replace("/", "-")

    @contextmanager
    def _explained(self, path: str = "") -> Iterator[None]:
        where = f"page {path} on {self._url}" if path else self._url
        try:
            with web.explain_errors(where):
                yield
            return
        except errors.LoginError as error:
            why = f"it does not take this user with this token ({error.info}): {BOT_PASSWORD}"
        except errors.ProtectedPageError:
            why = "it is protected, or this user may not edit it: ask an administrator"
        except errors.MaximumRetriesExceeded:
            why = "the wiki is too busy, or down: publish again later; what is written is not repeated"
        except errors.APIError as error:
            why = f"{error.code}: {error.info}"
        except errors.MwClientError as error:
            why = f"{type(error).__name__}: {error}"
        raise WikiError(plain(f"{where}: {why}")) from None
