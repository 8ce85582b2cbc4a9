"""DokuWiki, through its XML-RPC: pages are `benchmarks:machine:run`, figures lie in the namespace of their page's name.

Tried on DokuWiki 2022-07-31 with a user and a password. Without a user the token is sent as an API token
(`Authorization: Bearer`, from DokuWiki 2023 on); that was not tried.

DokuWiki compares no revisions at writing. So we hold its locks while we compare what is there with what was read,
and write. A lock keeps other users out, but not another publisher with our own user: so each page is compared once
more just before it is written, which leaves some milliseconds. Publishers that work at once do well to have a user
each.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import xmlrpc.client
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from xml.parsers.expat import ExpatError

from tipbench.publish import doku_text
from tipbench.publish.http_wiki import HttpWiki
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Path, Stored, WikiError
from tipbench.report.wording import plain

EDIT, CREATE, UPLOAD = 2, 4, 8
"""Permissions as `wiki.aclCheck` gives them, each with all below: dokuwiki.org/acl."""

NO_PAGE, LOCKED, SPAM = 121, 133, 134
"""Codes of faults: inc/Remote/ApiCore.php."""

SILENT = {"wiki.getPageInfo": NO_PAGE, "wiki.putPage": SPAM}
"""What a refusal by an empty answer means, which is all that DokuWiki 2022-07-31 gives in the place of a fault: the
only case, or the only one that is left once the right to write is checked and the lock is ours."""


class _Missing(Exception):
    """The page that was sought is not there."""


class DokuWiki(HttpWiki):
    """Without a token it is read as strangers may."""

    kind = "DokuWiki"
    markup = doku_text.DokuMarkup
    help = "give the address of the folder that holds doku.php, such as https://wiki.example.org/"
    marks = doku_text.MARKS

    def __init__(self, url: str, secret: Secret) -> None:
        """url: of the folder that holds doku.php. Raises WikiError where no DokuWiki answers there, or where it does
        not take the token."""
        super().__init__(re.sub(r"/(?:doku|index)\.php.*$", "/", url), secret)
        self._allowed: dict[str, int] = {}
        # a wrong password would pass for a stranger until something is written
        if secret.user and not self._call(self._url, "dokuwiki.login", secret.user, secret.token):
            raise self._error(
                f"{self._url} does not take user {secret.user} with this token (here it is the password): check "
                "TIPBENCH_USER and TIPBENCH_TOKEN"
            )

    def read(self, path: Path) -> Stored:
        id = self._name(path)
        try:
            info = self._call(self._page(path), "wiki.getPageInfo", id)
        except _Missing:
            return Stored(None)
        # in this order: a text newer than its revision is distinguished from what is there before writing
        return Stored(self._call(self._page(path), "wiki.getPage", id), str(self._within(info, "version")))

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        if not self._takes_files(path):
            return True
        namespace, file = self._name(path), self._file(path, name)
        listed = self._call(f"files of {self._page(path)}", "wiki.getAttachments", namespace, {"hash": True})
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return any(found.get("id") == file and found.get("hash") == digest for found in listed)

    @contextmanager
    def _ready(self, changes: Sequence[Change]) -> Iterator[None]:
        for change in changes:
            self._expect_allowed(change)
        locks = self._lock(lock=[self._name(change.path) for change in changes if change.text is not None])
        try:
            if locks["lockfail"]:
                raise self._error(_held(f"page {locks['lockfail'][0]} on {self._url}"))
            for change in changes:
                self._expect_as_read(change)
            yield
        finally:
            with suppress(WikiError):  # what went wrong before matters more, and locks end by themselves
                self._lock(unlock=locks["locked"])

    def _lock(self, lock: Sequence[str] = (), unlock: Sequence[str] = ()) -> Any:
        return self._call(self._url, "dokuwiki.setLocks", {"lock": list(lock), "unlock": list(unlock)})

    def _expect_allowed(self, change: Change) -> None:
        if self._permission(self._name(change.path)) < (EDIT if change.before.text is not None else CREATE):
            why = (
                f"user {self._secret.user}: ask an administrator for the right to create and edit pages there"
                if self._secret.user
                else "strangers: set TIPBENCH_USER and TIPBENCH_TOKEN"
            )
            raise self._error(f"{self._page(change.path)} is read-only for {why}. Nothing was written")

    def _upload(self, path: Path, name: str, content: bytes, summary: str) -> None:
        file = self._file(path, name)
        sent = xmlrpc.client.Binary(content)
        self._call(f"file {file} on {self._url}", "wiki.putAttachment", file, sent, {"ow": True})

    def _edit(self, change: Change, text: str, summary: str) -> None:
        self._expect_as_read(change)
        about = {"sum": summary, "minor": False}
        self._call(self._page(change.path), "wiki.putPage", self._name(change.path), text, about)

    def _takes_files(self, path: Path) -> bool:
        return self._permission(f"{self._name(path)}:any") >= UPLOAD

    def _permission(self, id: str) -> int:
        if id not in self._allowed:
            self._allowed[id] = int(self._call(f"page {id} on {self._url}", "wiki.aclCheck", id))
        return self._allowed[id]

    def _title(self, path: Path) -> str:
        return ":".join(map(_clean, path))

    def _file_title(self, path: Path, name: str) -> str:
        return f"{self._name(path)}:{_clean(name)}"

    def _call(self, what: str, method: str, *arguments: Any) -> Any:
        """Raises _Missing for a page that is not there, WikiError for all else that goes wrong."""
        sent = xmlrpc.client.dumps(arguments, method, encoding="utf-8").encode("utf-8", "replace")
        headers = {"Content-Type": "text/xml"}
        response = self._send(what, "POST", "lib/exe/xmlrpc.php", data=sent, headers=headers)
        try:
            (answer,), _ = xmlrpc.client.loads(response.content.strip())
            fault = xmlrpc.client.Fault(SILENT.get(method, 0), "refused, and the wiki does not say why")
            if answer != {}:
                return answer
        except xmlrpc.client.Fault as given:
            fault = given
        except (ExpatError, xmlrpc.client.Error, ValueError, TypeError):
            raise (self._not_one() if response.ok else self._refusal(what, response)) from None
        if fault.faultCode == NO_PAGE and response.ok:
            raise _Missing
        raise self._error(self._why(what, response.status_code, fault))

    def _why(self, what: str, status: int, fault: xmlrpc.client.Fault) -> str:
        if "not enabled" in fault.faultString:
            return f"{self._url}: its XML-RPC is off; an administrator sets `remote` and `remoteuser` in its settings"
        if status == 401:
            return f"{what}: the wiki lets only users that log in do that; check TIPBENCH_USER and TIPBENCH_TOKEN"
        if status == 403:
            return (
                f"{what}: the wiki does not let user {self._secret.user} do that; an administrator adds it to "
                "`remoteuser` and to the access rules"
            )
        if fault.faultCode == LOCKED:
            return _held(what)
        if fault.faultCode == SPAM:
            return f"{what}: the wiki's list of blocked words (conf/wordblock.conf) refuses this page"
        return f"{what}: {fault.faultString}{f' (fault {fault.faultCode})' if fault.faultCode else ''}"


def _held(what: str) -> str:
    return (
        f"{what} is locked: somebody else is editing it, or has left its form open (the page's edit form says who). "
        "Locks end after 15 minutes by default: publish again then. Nothing was written"
    )


def _clean(part: str) -> str:
    """Part of an id, such as DokuWiki leaves alone whatever its settings: a-z, 0-9, and single . - _ between them."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", plain(part)) if not unicodedata.combining(c)).lower()
    return re.sub(r"([._-])[._-]+", r"\1", re.sub("[^a-z0-9._-]", "-", bare)).strip("._-") or "unnamed"
