"""MediaWiki, through its API: pages are subpages, `Benchmarks/machine/run`, figures are files of the wiki.

Tried on MediaWiki 1.39 with a bot password (Special:BotPasswords: edit and create pages, upload and replace files).
Without a user the token is taken for an OAuth 2 access token; that was not tried. API: mediawiki.org, API:Main_page.

A page is written on the revision that was read, so the wiki itself refuses it where somebody was faster, or, where
that touched other lines, keeps both. A file of a figure's name is written only where there is none or the newest
version was uploaded by tipbench; older versions stay in the file's history.
"""

from __future__ import annotations

import hashlib
import re
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tipbench.publish import http_wiki, media_text
from tipbench.publish.http_wiki import HttpWiki
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Conflict, Path, Stored, WikiError
from tipbench.report.wording import plain

PREFIX = "Tipbench"
"""What our files' names begin with: all files of a wiki share one space of names."""

OURS = "Published by tipbench"
"""What the comments of our uploads begin with."""

LAG_S = 5
"""Seconds by which a wiki's database copies may lag behind before we wait: mediawiki.org, Manual:Maxlag parameter."""

PASSING = ("badtoken", "ratelimited", "maxlag")
"""Codes of the API that a new session token, or some waiting, helps against."""

SAVED_BEFORE = ("editconflict", "articleexists", "missingtitle", "pagedeleted")
"""Codes of the API where a page is no longer as it was read."""

REMEDIES = {
    **dict.fromkeys(("protectedpage", "cascadeprotected"), "Ask an administrator to lift the page's protection, or for "
                    "the right to edit it."),
    **dict.fromkeys(("blocked", "autoblocked"), "Ask an administrator of the wiki."),
    "ratelimited": "The wiki allows fewer edits a minute: publish again later; what is written is not repeated.",
    "maxlag": "The wiki is too busy: publish again later.",
    "assertuserfailed": "The wiki took us for logged out; publish again.",
    "readapidenied": "It shows nothing without a user and a token: set TIPBENCH_USER and TIPBENCH_TOKEN.",
    "readonly": "Publish again later.",
}  # fmt: skip


class MediaWiki(HttpWiki):
    """Without a token it can be read, not written."""

    kind = "MediaWiki"
    markup = media_text.Wikitext
    help = (
        "give the address of the folder that holds api.php (Special:Version names it), such as "
        "https://wiki.example.org/w/"
    )
    marks = (
        "<!-- Begin of what tipbench writes: changes below are lost at the next publishing -->",
        "<!-- End of what tipbench writes -->",
    )

    def __init__(self, url: str, secret: Secret) -> None:
        """url: of the folder that holds api.php. Raises WikiError where no MediaWiki answers there, or where it does
        not take the token."""
        super().__init__(re.sub(r"/(?:api|index)\.php.*$", "/", url), secret)
        self._csrf = ""
        if secret.user and secret.token:
            self._log_in()
        about = self._query(self._url, meta="siteinfo|userinfo", siprop="general", uiprop="rights")
        takes = self._within(about, "general").get("uploadsenabled")
        self._takes = bool(takes) and "upload" in self._within(about, "userinfo", "rights")

    def _authorization(self) -> str:
        return "" if self._secret.user else super()._authorization()  # a user logs in instead

    def _log_in(self) -> None:
        token = self._within(self._query(self._url, meta="tokens", type="login"), "tokens", "logintoken")
        named = {"lgname": self._secret.user, "lgpassword": self._secret.token, "lgtoken": token}
        answer = self._within(self._ask(self._url, "login", signed=False, **named), "login")
        if self._within(answer, "result") != "Success":
            raise self._error(
                f"{self._url} does not take user {self._secret.user} with this token: {_reason(answer)} Make a bot "
                "password on Special:BotPasswords and use its user (Name@bot) and its password"
            )

    def read(self, path: Path) -> Stored:
        found = self._about(path, prop="revisions", rvprop="ids|content", rvslots="main")
        if "revisions" not in found:
            return Stored(None)
        revision = self._within(found, "revisions", 0)
        content = revision.get("slots", {}).get("main", revision)  # without slots before MediaWiki 1.32
        if "content" not in content:
            raise self._error(f"{self._page(path)} has a hidden revision, so it cannot be built on")
        return Stored(content["content"], str(revision["revid"]))

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        """Raises WikiError also where a file of that name is another's."""
        if not self._takes:
            return True
        title = f"File:{self._file(path, name)}"
        info = self._about(path, titles=title, prop="imageinfo", iiprop="sha1|user|comment")
        if info.get("imagerepository") != "local":
            return False
        newest = self._within(info, "imageinfo", 0)
        if newest.get("sha1") == hashlib.sha1(content).hexdigest():
            return True
        if not str(newest.get("comment", "")).startswith(OURS):
            raise self._error(
                f"{title} on {self._url} was uploaded by {newest.get('user', 'somebody')} and not by tipbench, so it "
                "is left alone: move or delete it there, then publish again"
            )
        return False

    @contextmanager
    def _ready(self, changes: Sequence[Change]) -> Iterator[None]:
        if not self._secret.token:
            raise self._error(
                f"{self._url}: writing needs a user and a token: make a bot password on Special:BotPasswords, then "
                "set TIPBENCH_USER to its user (Name@bot) and TIPBENCH_TOKEN to its password"
            )
        general = self._within(self._query(self._url, meta="siteinfo", siprop="general"), "general")
        if general.get("readonly"):
            reason = general.get("readonlyreason", "no reason given")
            raise self._error(f"{self._url} is read-only for now: {reason}. Nothing was written; publish again later")
        for change in changes:
            actions = "edit" if change.before.text is not None else "edit|create"
            found = self._about(change.path, prop="info", intestactions=actions, intestactionsdetail="full")
            for reasons in found.get("actions", {}).values():
                if isinstance(reasons, list) and reasons:  # no details before MediaWiki 1.34: then the edit says why
                    raise self._refused(self._page(change.path), reasons[0])
            self._expect_as_read(change)
        yield

    def _edit(self, change: Change, text: str, summary: str) -> None:
        before = change.before
        base = {"createonly": "1"} if before.text is None else {"baserevid": before.revision, "nocreate": "1"}
        page = self._page(change.path)
        answer = self._ask(
            page, "edit", signed=True, title=self._name(change.path), text=text, summary=summary, bot="1",
            maxlag=str(LAG_S), **base,
        )  # fmt: skip
        self._expect_success(page, self._within(answer, "edit"))

    def _upload(self, path: Path, name: str, content: bytes, summary: str) -> None:
        file = self._file(path, name)
        answer = self._ask(
            f"File:{file} of {self._page(path)}", "upload", signed=True, files={"file": (file, content, "image/png")},
            filename=file, text=f"{OURS}.", comment=f"{OURS}: {summary}", ignorewarnings="1",
        )  # fmt: skip
        self._expect_success(f"File:{file} on {self._url}", self._within(answer, "upload"))

    def _expect_success(self, what: str, answer: Mapping[str, Any]) -> None:
        """An extension may veto, as of spam filters."""
        if answer.get("result") != "Success":
            why = ", ".join(f"{key} {value}" for key, value in answer.items() if key != "result")
            raise self._error(f"{what} was refused: {why or 'no reason given'}")

    def _takes_files(self, path: Path) -> bool:
        return self._takes

    def _title(self, path: Path) -> str:
        """`Benchmarks/machine/run`."""
        return "/".join(map(_safe, path))

    def _file_title(self, path: Path, name: str) -> str:
        """`Tipbench-machine-run-speedups.png`."""
        return _safe("-".join((PREFIX, *path[1:], name))).replace(" ", "-")

    # ---- the API ----

    def _about(self, path: Path, **wanted: str) -> Mapping[str, Any]:
        """What the wiki knows of the page, or of what `titles` names."""
        found = self._query(self._page(path), **{"titles": self._name(path), **wanted})
        page: Mapping[str, Any] = self._within(found, "pages", 0)
        if page.get("invalid"):
            raise self._error(f"{self._page(path)} has a name that it does not take: {page.get('invalidreason', '')}")
        return page

    def _query(self, what: str, **wanted: str) -> Any:
        return self._within(self._ask(what, "query", signed=False, **wanted), "query")

    def _ask(self, what: str, action: str, signed: bool, files: Any = None, **words: str) -> Any:
        """The API's answer. signed: with the session's token, as all that writes. Raises Conflict, WikiError."""
        for wait_s in (*http_wiki.WAITS_S, None):
            if signed:
                words |= {"assert": "user", "token": self._session_token()}
            data = {"action": action, "format": "json", "formatversion": "2", "errorformat": "plaintext", **words}
            answer = self._json(what, "POST", "api.php", data=data, files=files)
            if not isinstance(answer, dict):
                raise self._not_one()
            if "errors" not in answer:
                return answer
            error = self._within(answer, "errors", 0)
            if error.get("code") not in PASSING or wait_s is None:
                break
            self._csrf = ""
            if error["code"] != "badtoken":
                time.sleep(wait_s)
        raise self._refused(what, error)

    def _session_token(self) -> str:
        if not self._csrf:
            self._csrf = self._within(self._query(self._url, meta="tokens"), "tokens", "csrftoken")
        return self._csrf

    def _refused(self, what: str, error: Mapping[str, Any]) -> WikiError:
        code = str(error.get("code", ""))
        if code in SAVED_BEFORE:
            return Conflict(f"{what} was changed by somebody meanwhile")
        return self._error(f"{what}: {code}: {_reason(error)} {REMEDIES.get(code, '')}")


def _reason(answer: Mapping[str, Any]) -> str:
    """What the wiki says, with one full stop."""
    said = answer.get("text", answer.get("reason", "no reason given"))
    said = said.get("text", "") if isinstance(said, dict) else said
    return f"{plain(str(said)).rstrip('.')}."


def _safe(part: str) -> str:
    """Part of a title: no character that titles must not have, that is markup, or that the wiki would change."""
    shown = unicodedata.normalize("NFC", plain(part))
    return re.sub(r"[^\w .,()+-]+", "-", shown).strip(" ._") or "unnamed"
