"""MediaWiki by mwclient: pages are subpages, `Benchmarks/machine/run`, figures are files of the wiki.

Tried on MediaWiki 1.39 with a bot password (Special:BotPasswords: edit and create pages, upload and replace files).
Without a user the token is sent as an OAuth 2 access token; that was not tried. A page is written on the revision that
was read, so the wiki itself refuses it where somebody was faster.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tipbench.publish import markup, web
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import SUMMARY, Conflict, Page, WikiError
from tipbench.tip.wording import plain

try:
    import mwclient
    from mwclient import errors
except ImportError:
    raise markup.missing() from None

RETRIES, RETRY_S = 3, 5
"""mwclient's own are 25, each 30 s longer than the one before: over two hours of silence."""

CONFLICTS = ("editconflict", "articleexists", "missingtitle", "pagedeleted")
"""Codes of the API where a page is no longer as it was read."""

BOT_PASSWORD = (
    "make a bot password on Special:BotPasswords, then set TIPBENCH_USER to its user (Name@bot) and TIPBENCH_TOKEN to "
    "its password"
)


class MediaWiki:
    """Implements `tipbench.publish.wiki.Wiki`. Without a token it can be read, not written."""

    mark = "<!-- This page is written by tipbench: changes are lost at the next publishing -->"

    def __init__(self, url: str, secret: Secret) -> None:
        """url: of the folder that holds api.php. Raises WikiError where no MediaWiki answers there, or where it does
        not take the token."""
        self._url = web.folder(url)
        self._secret = secret
        self._revisions: dict[str, int] = {}
        parts = urlsplit(self._url)
        with self._explained():
            self._site: Any = mwclient.Site(
                parts.netloc,
                parts.path,
                scheme=parts.scheme,
                pool=web.session(self._url, b"" if secret.user else secret.header),
                max_retries=RETRIES,
                retry_timeout=RETRY_S,
                connection_options={"timeout": web.TIMEOUT_S},
                do_init=False,
            )
            if secret.user and secret.token:
                self._site.login(secret.user, secret.token)
            else:
                self._site.site_init()
            self._takes_files = "upload" in self._site.rights and "uploadsenabled" in self._site.site

    def render(self, page: Page) -> str:
        def file(name: str) -> str:
            return self._file(page.path, name) if self._takes_files else ""

        def address(path: str, anchor: str) -> str:
            return f"{self._title(path)}{anchor and '#'}{anchor}"

        text = markup.converted(page.text, "mediawiki", markup.Addresses(address, file))
        for name, content in page.files.items():
            if width := markup.width(content):
                text = text.replace(f"[[File:{file(name)}|", f"[[File:{file(name)}|{width}px|")
        return text

    def read(self, path: str) -> str | None:
        with self._explained(path):
            query = {"prop": "revisions", "rvprop": "ids|content", "rvslots": "main", "titles": self._title(path)}
            (page,) = self._site.get("query", **query)["query"]["pages"].values()
            if "revisions" not in page:
                self._revisions.pop(path, None)
                return None
            revision = page["revisions"][0]
            if "*" not in revision["slots"]["main"]:
                raise WikiError(f"{self._where(path)} has a hidden revision, so it cannot be built on")
            self._revisions[path] = int(revision["revid"])
            return str(revision["slots"]["main"]["*"])

    def write(self, path: str, text: str, base: str | None) -> None:
        condition = {"createonly": "1"} if base is None else {"baserevid": self._revisions[path], "nocreate": "1"}
        if not self._secret.token:
            raise WikiError(f"{self._url}: writing needs a user and a token: {BOT_PASSWORD}")
        with self._explained(path):
            self._site.pages[self._title(path)].edit(text, SUMMARY, bot=True, **condition)

    def has(self, path: str, name: str, content: bytes) -> bool:
        """Raises WikiError also where a file of that name is another's."""
        if not self._takes_files:
            return True
        title = f"File:{self._file(path, name)}"
        with self._explained(path):
            query = {"prop": "imageinfo", "iiprop": "sha1|user|comment", "titles": title}
            (page,) = self._site.get("query", **query)["query"]["pages"].values()
            if page.get("imagerepository") != "local":
                return False
            newest = page["imageinfo"][0]
            if newest.get("sha1") == hashlib.sha1(content, usedforsecurity=False).hexdigest():
                return True
            if not str(newest.get("comment", "")).startswith(SUMMARY):
                raise WikiError(
                    f"{title} on {self._url} was uploaded by {plain(str(newest.get('user', 'somebody')))} and not by "
                    "tipbench, so it is left alone: move or delete it there, then publish again"
                )
            return False

    def attach(self, path: str, name: str, content: bytes) -> None:
        with self._explained(path):
            file = self._file(path, name)
            answer = self._site.upload(io.BytesIO(content), file, description=SUMMARY, comment=SUMMARY, ignore=True)
            if answer.get("result") != "Success":
                raise WikiError(f"File:{file} on {self._url} was refused: {plain(str(answer))[:300]}")

    def finish(self) -> None:
        """All is sent at once."""

    def _title(self, path: str) -> str:
        return "/".join(map(web.safe, path.split("/")))

    def _file(self, path: str, name: str) -> str:
        """Files of a wiki share one space of names."""
        return "-".join(["Tipbench", *map(web.safe, path.split("/")[1:]), web.safe(name)]).replace("_", "-")

    def _where(self, path: str) -> str:
        return f"page {self._title(path)} on {self._url}" if path else self._url

    @contextmanager
    def _explained(self, path: str = "") -> Iterator[None]:
        where = self._where(path)
        try:
            with web.explained(where, self._secret):
                yield
            return
        except errors.LoginError as error:
            why = f"it does not take user {self._secret.user} with this token ({error.info}): {BOT_PASSWORD}"
        except errors.ProtectedPageError:
            why = "it is protected: ask an administrator to lift that, or for the right to edit it"
        except (errors.InsufficientPermission, errors.AssertUserFailedError):
            why = f"this user may not do that there: {BOT_PASSWORD}"
        except errors.UserBlocked as error:
            why = f"the user is blocked ({error}): ask an administrator"
        except errors.MaximumRetriesExceeded:
            why = "the wiki is too busy, or down: publish again later; what is written is not repeated"
        except errors.APIError as error:
            if error.code in CONFLICTS:
                raise Conflict(f"{where} was changed by somebody meanwhile") from None
            why = f"{error.code}: {error.info}"
        except errors.EditError as error:
            if "conflict" in str(error).lower():
                raise Conflict(f"{where} was changed by somebody meanwhile") from None
            why = f"the edit was refused: {error}"
        except errors.MwClientError as error:
            why = f"it does not answer as a MediaWiki ({type(error).__name__})"
        except web.OF_ANOTHER_FORM as error:
            why = (
                f"it does not answer as a MediaWiki ({type(error).__name__}): give the address of the folder that "
                "holds api.php (Special:Version names it), such as https://wiki.example.org/w/"
            )
        raise WikiError(plain(self._secret.hide(f"{where}: {why}"))) from None
