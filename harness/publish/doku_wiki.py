"""DokuWiki, through its XML-RPC: pages are `benchmarks:machine:run`, figures lie in the namespace of their page's name.

Tried on DokuWiki 2022-07-31 with a user and a password. Without a user the token is sent as an API token
(`Authorization: Bearer`, from DokuWiki 2023 on); that was not tried.

XML-RPC by the standard library, carried by requests: the package `dokuwiki` puts the password into the address, from
where it gets into errors, takes no API token, waits without end for a server that hangs, and takes a refusal for an
empty answer.

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
from urllib.parse import urlsplit
from xml.parsers.expat import ExpatError

import requests
from requests.auth import HTTPBasicAuth

from tipbench.publish import doku_text
from tipbench.publish.png import shown_width
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Conflict, Path, Stored, WikiError, WikiPage
from tipbench.report.wording import plain

EDIT, CREATE, UPLOAD = 2, 4, 8
"""Permissions as `wiki.aclCheck` tells them, each with all below: dokuwiki.org/acl."""

NO_PAGE, LOCKED, SPAM = 121, 133, 134
"""Codes of faults: inc/Remote/ApiCore.php."""

SILENT = {"wiki.getPageInfo": NO_PAGE, "wiki.putPage": SPAM}
"""What a refusal by an empty answer means, which is all that DokuWiki 2022-07-31 gives in the place of a fault: the
only case, or the only one that is left once the right to write is checked and the lock is ours."""

TIMEOUT_S = 60

HELP = "give the address of the folder that holds doku.php, such as https://wiki.example.org/"


class _Missing(Exception):
    """The page that was asked for is not there."""


def open_wiki(url: str, secret: Secret) -> DokuWiki:
    """url: of the folder that holds doku.php. Raises WikiError where no DokuWiki answers there, or where it does not
    take the token. Without a token it is asked anonymously."""
    return DokuWiki(url, secret)


class DokuWiki:
    """A DokuWiki as `tipbench.publish.wiki.Wiki` has it. Not to be shared between threads."""

    marks = doku_text.MARKS

    def __init__(self, url: str, secret: Secret) -> None:
        self._url = re.sub(r"/(?:doku|index)\.php.*$", "", url).rstrip("/") + "/"
        self._secret = secret
        self._named: dict[str, object] = {}
        self._allowed: dict[str, int] = {}
        self._session = requests.Session()
        self._session.headers.update({"Content-Type": "text/xml", "User-Agent": "tipbench"})
        if secret.user:
            self._session.auth = HTTPBasicAuth(secret.user.encode(), secret.token.encode())
            # a wrong password would pass for a stranger until something is written
            if not self._call(self._url, "dokuwiki.login", secret.user, secret.token):
                raise WikiError(
                    f"{self._url} does not take user {secret.user} with this token (here it is the password): "
                    "check TIPBENCH_USER and TIPBENCH_TOKEN"
                )
        elif secret.token:
            self._session.headers["Authorization"] = f"Bearer {secret.token}"

    def render(self, page: WikiPage) -> str:
        def file(name: str) -> tuple[str, int]:
            png = f"{name}.png"
            return self._file(page.path, png), shown_width(page.images.get(png, b""))

        return doku_text.render(page.page, self._id_of, file if self._takes_files(page.path) else None)

    def read(self, path: Path) -> Stored:
        id = self._id(path)
        try:
            info = self._call(self._page(id), "wiki.getPageInfo", id)
        except _Missing:
            return Stored(None)
        # in this order: a text newer than its revision is distinguished from what is there before writing
        return Stored(self._call(self._page(id), "wiki.getPage", id), str(info["version"]))

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        """True also where the wiki takes no files: then the page tells figures in words, and there is nothing to do."""
        if not self._takes_files(path):
            return True
        namespace, file = self._id(path), self._file(path, name)
        listed = self._call(
            f"the files of {namespace} on {self._url}", "wiki.getAttachments", namespace, {"hash": True}
        )
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return any(found.get("id") == file and found.get("hash") == digest for found in listed)

    def write(self, changes: Sequence[Change], summary: str) -> None:
        for change in changes:
            self._expect_allowed(change)
        with self._locked([self._id(change.path) for change in changes if change.text is not None]):
            for change in changes:
                self._expect_as_read(change)
            for change in changes:
                for name, content in change.images.items():
                    if not self.has_image(change.path, name, content):
                        file = self._file(change.path, name)
                        sent = xmlrpc.client.Binary(content)
                        self._call(f"file {file} on {self._url}", "wiki.putAttachment", file, sent, {"ow": True})
            for change in changes:
                if change.text is not None:
                    id = self._id(change.path)
                    self._expect_as_read(change)
                    self._call(self._page(id), "wiki.putPage", id, change.text, {"sum": summary, "minor": False})

    def _expect_as_read(self, change: Change) -> None:
        if self.read(change.path) != change.before:
            raise Conflict(f"{self._page(self._id(change.path))} was changed by somebody meanwhile")

    def _expect_allowed(self, change: Change) -> None:
        id = self._id(change.path)
        if self._permission(id) < (EDIT if change.before.text is not None else CREATE):
            why = (
                f"user {self._secret.user}: ask an administrator for the right to create and edit pages there"
                if self._secret.user
                else "strangers: set TIPBENCH_USER and TIPBENCH_TOKEN"
            )
            raise WikiError(f"{self._page(id)} is read-only for {why}. Nothing was written")

    @contextmanager
    def _locked(self, ids: Sequence[str]) -> Iterator[None]:
        """Raises WikiError where somebody holds one of the locks."""
        locks = self._call(self._url, "dokuwiki.setLocks", {"lock": list(ids), "unlock": []})
        try:
            if locks["lockfail"]:
                raise WikiError(_held(self._page(locks["lockfail"][0])))
            yield
        finally:
            with suppress(WikiError):  # what went wrong before matters more, and locks end by themselves
                self._call(self._url, "dokuwiki.setLocks", {"lock": [], "unlock": locks["locked"]})

    def _takes_files(self, path: Path) -> bool:
        return self._permission(f"{self._id(path)}:any") >= UPLOAD

    def _permission(self, id: str) -> int:
        if id not in self._allowed:
            self._allowed[id] = int(self._call(self._page(id), "wiki.aclCheck", id))
        return self._allowed[id]

    def _call(self, what: str, method: str, *arguments: Any) -> Any:
        """Raises _Missing for a page that is not there, WikiError for all else that goes wrong."""
        try:
            response = self._session.post(
                f"{self._url}lib/exe/xmlrpc.php",
                data=xmlrpc.client.dumps(arguments, method, encoding="utf-8").encode("utf-8", "replace"),
                timeout=TIMEOUT_S,
                allow_redirects=False,  # a redirected POST arrives as a GET
            )
            (answer,), _ = xmlrpc.client.loads(response.content.strip())
            if answer != {}:
                return answer
            raise xmlrpc.client.Fault(SILENT.get(method, 0), "refused, and the wiki does not say why")
        except xmlrpc.client.Fault as fault:
            if fault.faultCode == NO_PAGE and response.ok:
                raise _Missing from None
            why = self._refusal(what, response.status_code, fault)
        except requests.exceptions.SSLError:
            why = f"{self._url}: its certificate is not trusted here (REQUESTS_CA_BUNDLE names another file of roots)"
        except requests.Timeout:
            why = f"{what}: no answer within {TIMEOUT_S} s; publish again later"
        except requests.RequestException:
            why = f"{what}: nothing answers at {urlsplit(self._url).netloc}; is the address right, is it up?"
        except (ExpatError, xmlrpc.client.Error, ValueError, TypeError):
            why = self._no_wiki(response)
        raise WikiError(self._secret.hide(why)) from None

    def _refusal(self, what: str, status: int, fault: xmlrpc.client.Fault) -> str:
        if "not enabled" in fault.faultString:
            return f"{self._url}: its XML-RPC is off; an administrator sets `remote` and `remoteuser` in its settings"
        if status == requests.codes.unauthorized:
            return f"{what}: the wiki lets only users that log in do that; check TIPBENCH_USER and TIPBENCH_TOKEN"
        if status == requests.codes.forbidden:
            return (
                f"{what}: the wiki does not let user {self._secret.user} do that; an administrator adds it to "
                "`remoteuser` and to the access rules"
            )
        if fault.faultCode == LOCKED:
            return _held(what)
        if fault.faultCode == SPAM:
            return f"{what}: the wiki's list of blocked words (conf/wordblock.conf) refuses this page"
        return f"{what}: {plain(fault.faultString)}{f' (fault {fault.faultCode})' if fault.faultCode else ''}"

    def _no_wiki(self, response: requests.Response) -> str:
        if response.is_redirect:
            to = plain(response.headers.get("Location", "another address")).partition("?")[0]
            return f"{self._url} sends on to {to}: publish to that address; {HELP}"
        if not response.ok:
            return f"{self._url}: its web server answers {response.status_code}; {HELP}"
        return f"{self._url} answers, but not as a DokuWiki; {HELP}"

    def _id(self, path: Path) -> str:
        return self._unique(":".join(_clean(part) for part in path), path)

    def _id_of(self, key: str) -> str:
        return self._id(tuple(key.split("/")))

    def _file(self, path: Path, name: str) -> str:
        return self._unique(f"{self._id(path)}:{_clean(name)}", (*path, name, "file"))

    def _unique(self, id: str, meant: object) -> str:
        if self._named.setdefault(id, meant) != meant:
            raise WikiError(
                f"two different things would both be named {id} on {self._url}: publish one of them with another "
                "--public-name"
            )
        return id

    def _page(self, id: str) -> str:
        return f"page {id} on {self._url}"


def _held(what: str) -> str:
    return (
        f"{what} is locked: somebody else is editing it, or has left its form open (DokuWiki does not tell us who; the "
        "page's edit form does). Locks end after 15 minutes by default: publish again then. Nothing was written"
    )


def _clean(part: str) -> str:
    """Part of an id, such as DokuWiki leaves alone whatever its settings: a-z, 0-9, and single . - _ between them."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", plain(part)) if not unicodedata.combining(c)).lower()
    return re.sub(r"([._-])[._-]+", r"\1", re.sub("[^a-z0-9._-]", "-", bare)).strip("._-") or "unnamed"
