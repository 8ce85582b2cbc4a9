"""MediaWiki, through its API by mwclient: pages are subpages, `Benchmarks/machine/run`, figures are files of the wiki.

Tried on MediaWiki 1.39 with a bot password (Special:BotPasswords: edit and create pages, upload and replace files).
Without a user the token is taken for an OAuth 2 access token; that was not tried.

A page is written on the revision that was read, so the wiki itself refuses it where somebody was faster, or, where
that touched other lines, keeps both. A file of a figure's name is written only where there is none or the newest
version was uploaded by tipbench; older versions stay in the file's history.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import mwclient  # type: ignore[import-untyped]
import requests
from mwclient import errors

from tipbench.publish import media_text
from tipbench.publish.png import shown_width
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Conflict, Path, Stored, WikiError, WikiPage
from tipbench.report.wording import plain

PREFIX = "Tipbench"
"""What our files' names begin with: all files of a wiki share one space of names."""

OURS = "Published by tipbench"
"""What the comments of our uploads begin with."""

LAG_S = 5
"""Seconds by which a wiki's database copies may lag behind before we wait: mediawiki.org, Manual:Maxlag parameter."""

TRIES, PAUSE_S, TIMEOUT_S = 3, 1, 60
"""Of a request that fails for the moment: how often it is sent again, with pauses of 0, 1, 2 times PAUSE_S."""

WAITS_S = (5, 20, 40)
"""Before an edit that came too fast is tried again: usual limits count edits a minute."""

SAVED_BEFORE = {"editconflict", "articleexists", "missingtitle", "pagedeleted"}
"""Codes of the API where a page is no longer as it was read."""

T = TypeVar("T")


def open_wiki(url: str, secret: Secret) -> MediaWiki:
    """url: of the folder that holds api.php. Raises WikiError where no MediaWiki answers there, or where it does not
    take the token. Without a token it can be read, not written."""
    return MediaWiki(url, secret)


class MediaWiki:
    """A MediaWiki as `tipbench.publish.wiki.Wiki` has it. Not to be shared between threads."""

    marks = (
        "<!-- Begin of what tipbench writes: changes below are lost at the next publishing -->",
        "<!-- End of what tipbench writes -->",
    )

    def __init__(self, url: str, secret: Secret) -> None:
        parts = urlsplit(url)
        folder = re.sub(r"/(?:api|index)\.php.*$", "/", parts.path)
        self._url = f"{parts.scheme}://{parts.netloc}{folder.rstrip('/')}/"
        self._secret = secret
        self._named: dict[str, object] = {}
        logging.getLogger("mwclient").addHandler(logging.NullHandler())  # else it warns on stderr of each retry
        bearer = {} if secret.user or not secret.token else {"Authorization": f"Bearer {secret.token}"}
        self._site = mwclient.Site(
            parts.netloc,
            path=urlsplit(self._url).path,
            scheme=parts.scheme,
            max_retries=TRIES,
            retry_timeout=PAUSE_S,
            clients_useragent="tipbench",
            connection_options={"timeout": TIMEOUT_S},
            custom_headers=bearer,
            do_init=False,
        )
        self._site.connection.hooks["response"].append(self._expect_no_redirect)
        with self._telling("cannot be opened"):
            if secret.user and secret.token:
                self._site.login(secret.user, secret.token)
            else:
                self._site.site_init()
        about = self._site.site
        self._takes_files = "uploadsenabled" in about and "upload" in self._site.rights

    def render(self, page: WikiPage) -> str:
        def file(name: str) -> tuple[str, int]:
            png = f"{name}.png"
            return self._file(page.path, png), shown_width(page.images.get(png, b""))

        return media_text.render(page.page, self._title_of, file if self._takes_files else None)

    def read(self, path: Path) -> Stored:
        found = self._query(path, f"Page {self._title(path)}", prop="revisions", rvprop="ids|content", rvslots="main")
        if "revisions" not in found:
            return Stored(None)
        revision = found["revisions"][0]
        content = revision.get("slots", {}).get("main", revision)  # without slots before MediaWiki 1.32
        if "*" not in content:
            raise WikiError(f"{self._page(path)} has a hidden revision, so it cannot be built on")
        return Stored(content["*"], str(revision["revid"]))

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        """True also where the wiki takes no files: then the page tells figures in words, and there is nothing to do.

        Raises WikiError also where a file of that name is another's."""
        if not self._takes_files:
            return True
        title = f"File:{self._file(path, name)}"
        info = self._query(path, title, prop="imageinfo", iiprop="sha1|user|comment", titles=title)
        if info.get("imagerepository") != "local":
            return False
        newest = info["imageinfo"][0]
        if newest.get("sha1") == hashlib.sha1(content).hexdigest():
            return True
        if not str(newest.get("comment", "")).startswith(OURS):
            raise WikiError(
                f"{title} on {self._url} was uploaded by {plain(str(newest.get('user', 'somebody')))} and not by "
                "tipbench, so it is left alone: move or delete it there, then publish again"
            )
        return False

    def write(self, changes: Sequence[Change], summary: str) -> None:
        self._expect_writable(changes)
        for change in changes:
            for name, content in change.images.items():
                if not self.has_image(change.path, name, content):
                    self._upload(change.path, name, content, summary)
        for change in changes:
            if change.text is not None:
                self._edit(change, change.text, summary)

    def _expect_writable(self, changes: Sequence[Change]) -> None:
        """All that can be known beforehand, so that nothing is half-published."""
        if not self._secret.token:
            raise WikiError(
                f"{self._url}: writing needs a user and a token: make a bot password on Special:BotPasswords, then "
                "set TIPBENCH_USER to its user (Name@bot) and TIPBENCH_TOKEN to its password"
            )
        with self._telling("cannot be written"):
            general = self._site.get("query", meta="siteinfo", siprop="general")["query"]["general"]
        if "readonly" in general:
            reason = plain(str(general.get("readonlyreason", "no reason given")))
            raise WikiError(f"{self._url} is read-only for now: {reason}. Nothing was written; publish again later")
        for change in changes:
            self._expect_as_read(change)

    def _expect_as_read(self, change: Change) -> None:
        """Raises Conflict where it is not, WikiError where we may not write it."""
        actions = "edit" if change.before.text is not None else "edit|create"
        wanted = {"prop": "info|revisions", "rvprop": "ids", "intestactions": actions, "intestactionsdetail": "full"}
        found = self._query(change.path, f"Page {self._title(change.path)}", **wanted)
        for reasons in found.get("actions", {}).values():
            if isinstance(reasons, list) and reasons:  # no details before MediaWiki 1.34: then the edit itself says why
                raise WikiError(self._refusal(change.path, reasons[0].get("code", ""), reasons[0].get("*", "")))
        revision = str(found["revisions"][0]["revid"]) if "revisions" in found else ""
        if revision != change.before.revision:
            raise Conflict(f"{self._page(change.path)} was changed by somebody meanwhile; nothing was written")

    def _edit(self, change: Change, text: str, summary: str) -> None:
        before = change.before
        base = {"createonly": "1"} if before.text is None else {"baserevid": before.revision, "nocreate": "1"}
        with self._telling("cannot be written", change.path):
            answer = self._patiently(
                lambda: self._site.post(
                    "edit",
                    title=self._title(change.path),
                    text=text,
                    summary=summary,
                    bot="1",
                    maxlag=LAG_S,
                    token=self._site.get_token("csrf"),
                    **base,
                    **{"assert": "user"},
                )
            )
        edited = answer.get("edit", {})
        if edited.get("result") != "Success":  # an extension's veto, as of spam filters
            why = ", ".join(f"{key} {value}" for key, value in edited.items() if key != "result")
            raise WikiError(
                self._secret.hide(f"{self._page(change.path)} was refused: {plain(why) or 'no reason given'}")
            )

    def _upload(self, path: Path, name: str, content: bytes, summary: str) -> None:
        file = self._file(path, name)
        with self._telling("cannot take a file", path):
            answer = self._patiently(
                lambda: self._site.upload(
                    io.BytesIO(content), file, f"{OURS}.", ignore=True, comment=f"{OURS}: {summary}"
                )
            )
        if answer.get("result") != "Success":
            why = plain(str(answer.get("warnings", answer)))
            raise WikiError(self._secret.hide(f"File:{file} was refused by {self._url}: {why}"))

    def _patiently(self, call: Callable[[], T]) -> T:
        """Repeats what a new session token or some waiting helps against, for a bounded time."""
        for wait in WAITS_S:
            try:
                return call()
            except errors.APIError as error:
                if error.code not in ("badtoken", "ratelimited"):
                    raise
                self._site.tokens.clear()
                if error.code == "ratelimited":
                    time.sleep(wait)
        return call()

    def _query(self, path: Path, what: str, **wanted: str) -> Mapping[str, Any]:
        with self._telling("cannot be read", path):
            answer = self._site.get("query", **{"titles": self._title(path), **wanted})
            page: Mapping[str, Any] = next(iter(answer["query"]["pages"].values()))
        if "invalid" in page:
            raise WikiError(f"{what} is no name that {self._url} takes: {plain(str(page.get('invalidreason', '')))}")
        return page

    def _title(self, path: Path) -> str:
        """`Benchmarks/machine/run`; the characters that titles may not have are dashes."""
        title = "/".join(_safe(part) for part in path)
        return self._unique(title, path)

    def _title_of(self, key: str) -> str:
        return self._title(tuple(key.split("/")))

    def _file(self, path: Path, name: str) -> str:
        """`Tipbench-machine-run-speedups.png`."""
        title = _safe("-".join((PREFIX, *path[1:], name))).replace(" ", "-")
        return self._unique(title, (*path, name))

    def _unique(self, title: str, meant: object) -> str:
        if self._named.setdefault(title, meant) != meant:
            raise WikiError(
                f"two different things would both be named {title} on {self._url}: publish one of them with another "
                "--public-name"
            )
        return title

    def _page(self, path: Path) -> str:
        return f"page {self._title(path)} on {self._url}"

    @contextmanager
    def _telling(self, what: str, path: Path | None = None) -> Iterator[None]:
        """Errors of mwclient and requests in words for people. They hold requests, tokens included: none is chained."""
        where = self._page(path) if path else self._url
        try:
            yield
        except errors.LoginError as error:
            why = (
                f"{self._url} does not take user {self._secret.user} with this token: {_sentence(error.info)} "
                "Make a bot password on Special:BotPasswords and use its user (Name@bot) and its password"
            )
        except errors.APIError as error:
            if error.code in SAVED_BEFORE:
                raise Conflict(f"{where} was changed by somebody meanwhile") from None
            why = self._refusal(path, str(error.code), str(error.info))
        except errors.MaximumRetriesExceeded:
            why = f"{where} {what}: the wiki is too busy, it asked {TRIES} times to wait; publish again later"
        except errors.InsufficientPermission:
            why = f"{where} {what}: the wiki does not let user {self._secret.user} do that"
        except (errors.MwClientError, ValueError, KeyError):
            why = f"{self._url} answers, but not as a MediaWiki; {HELP}"
        except requests.exceptions.SSLError:
            why = (
                f"{where} {what}: its certificate is not trusted here (REQUESTS_CA_BUNDLE names another file of roots)"
            )
        except requests.HTTPError as error:
            why = f"{where} {what}: its web server answers {error.response.status_code}; {HELP}"
        except requests.Timeout:
            why = f"{where} {what}: no answer within {TIMEOUT_S} s; publish again later"
        except requests.RequestException:
            why = f"{where} {what}: nothing answers at {urlsplit(self._url).netloc}; is the address right, is it up?"
        else:
            return
        raise WikiError(self._secret.hide(why)) from None

    def _refusal(self, path: Path | None, code: str, info: str) -> str:
        where = self._page(path) if path else self._url
        return self._secret.hide(f"{where}: {plain(code)}: {_sentence(info)} {REMEDIES.get(code, '')}".rstrip())

    def _expect_no_redirect(self, response: requests.Response, *_: Any, **__: Any) -> None:
        """A redirected POST arrives as a GET, and a token might go elsewhere than it was meant for."""
        if response.is_redirect:
            response.close()
            to = plain(response.headers.get("Location", "another address")).partition("?")[0]
            raise WikiError(self._secret.hide(f"{self._url} sends on to {to}: publish to that address; {HELP}"))


HELP = (
    "give the address of the folder that holds api.php (Special:Version tells it), such as https://wiki.example.org/w/"
)

REMEDIES = {
    "protectedpage": "Ask an administrator to lift the page's protection, or for the right to edit it.",
    "cascadeprotected": "Ask an administrator to lift the page's protection, or for the right to edit it.",
    "blocked": "Ask an administrator of the wiki.",
    "autoblocked": "Ask an administrator of the wiki.",
    "ratelimited": "The wiki allows fewer edits a minute: publish again later; what is written is not repeated.",
    "assertuserfailed": "The wiki took us for logged out; publish again.",
    "readapidenied": "It shows nothing without a user and a token: set TIPBENCH_USER and TIPBENCH_TOKEN.",
    "readonly": "Publish again later.",
}


def _sentence(info: object) -> str:
    """What the wiki says, with one full stop."""
    return f"{plain(str(info)).rstrip('.')}."


def _safe(part: str) -> str:
    """Part of a title: no character that titles must not have, that is markup, or that the wiki would change."""
    shown = unicodedata.normalize("NFC", plain(part))
    return re.sub(r"[^\w .,()+-]+", "-", shown).strip(" ._") or "unnamed"
