"""DokuWiki by its XML-RPC: pages are `benchmarks:machine:run`, figures lie in the namespace of their page's name.

Tried on DokuWiki 2022-07-31 with a user and a password. Without a user the token is sent as an API token
(`Authorization: Bearer`, from DokuWiki 2023 on); that was not tried.

DokuWiki compares no revisions when it writes. So we hold its lock while we compare what is there with what was read,
and write. A lock keeps other users out, but not another publisher with our own user: that leaves some milliseconds.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import ssl
import unicodedata
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.parsers.expat import ExpatError

from tipbench.publish import markup, web
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import SUMMARY, Conflict, Page, WikiError
from tipbench.tip.wording import plain

EDIT, CREATE, UPLOAD = 2, 4, 8
"""Permissions as `wiki.aclCheck` gives them, each with all below it: dokuwiki.org/acl."""

NO_PAGE = 121
"""Code of a fault: inc/Remote/ApiCore.php. DokuWiki 2022-07-31 also answers with an empty structure in its place."""


class _Plain(xmlrpc.client.Transport):
    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.get_host_info(host)[0], timeout=web.TIMEOUT_S)


class _Encrypted(xmlrpc.client.SafeTransport):
    def make_connection(self, host: Any) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.get_host_info(host)[0], timeout=web.TIMEOUT_S)


class DokuWiki:
    """Implements `tipbench.publish.wiki.Wiki`. Without a token it is read as strangers may."""

    mark = "//This page is written by tipbench: changes are lost at the next publishing.//"

    def __init__(self, url: str, secret: Secret) -> None:
        """url: of the folder that holds doku.php. Raises WikiError where no DokuWiki answers there, or where it does
        not take the token."""
        self._url = web.folder(url)
        self._secret = secret
        headers = [("Authorization", secret.header.decode("latin-1"))] if secret.header else []
        # xmlrpc.client follows no redirect, so the token goes nowhere else.
        self._transport = (_Encrypted if self._url.startswith("https:") else _Plain)(headers=headers)
        self._server = xmlrpc.client.ServerProxy(f"{self._url}lib/exe/xmlrpc.php", self._transport)
        # A wrong password would pass for a stranger until something is written.
        if secret.user and not self._call("", "dokuwiki.login", secret.user, secret.token):
            raise WikiError(
                f"{self._url} does not take user {plain(secret.user)} with this token (here it is the password): check "
                "TIPBENCH_USER and TIPBENCH_TOKEN"
            )
        self._permissions: dict[str, int] = {}

    def render(self, page: Page) -> str:
        def file(name: str) -> str:
            width = markup.width(page.files.get(name, b""))
            takes_files = self._takes_files(page.path)
            return f":{self._file(page.path, name)}{f'?{width}' if width else ''}" if takes_files else ""

        def address(path: str, anchor: str) -> str:
            return f":{self._id(path)}{anchor and '#'}{anchor}"

        return markup.converted(page.text, "dokuwiki", markup.Addresses(address, file))

    def read(self, path: str) -> str | None:
        info = self._call(path, "wiki.getPageInfo", self._id(path))
        return str(self._call(path, "wiki.getPage", self._id(path))) if info else None

    def write(self, path: str, text: str, base: str | None) -> None:
        id = self._id(path)
        if self._permission(id) < (CREATE if base is None else EDIT):
            user = f"user {plain(self._secret.user)}" if self._secret.user else "strangers"
            raise WikiError(
                f"{self._where(path)} is read-only for {user}: set TIPBENCH_USER and TIPBENCH_TOKEN, or ask an "
                "administrator for the right to create and edit pages there"
            )
        locks = self._call(path, "dokuwiki.setLocks", {"lock": [id], "unlock": []})
        with self._explained(self._where(path)):
            is_locked = bool(locks["lockfail"])
        if is_locked:
            raise WikiError(
                f"{self._where(path)} is locked: somebody else is editing it, or has left its form open. Locks end "
                "after 15 minutes by default: publish again then"
            )
        try:
            if self.read(path) != base:
                raise Conflict(f"{self._where(path)} was changed by somebody meanwhile")
            if not self._call(path, "wiki.putPage", id, text, {"sum": SUMMARY, "minor": False}):
                raise WikiError(
                    f"{self._where(path)} was refused: its list of blocked words (conf/wordblock.conf), or a plugin"
                )
        finally:
            self._call(path, "dokuwiki.setLocks", {"lock": [], "unlock": [id]})

    def has(self, path: str, name: str, content: bytes) -> bool:
        if not self._takes_files(path):
            return True
        file = self._file(path, name)
        listed = self._call(path, "wiki.getAttachments", self._id(path), {"hash": True}) or []
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        with self._explained(self._where(path)):
            return any(entry.get("id") == file and entry.get("hash") == digest for entry in listed)

    def attach(self, path: str, name: str, content: bytes) -> None:
        file = self._file(path, name)
        if not self._call(path, "wiki.putAttachment", file, xmlrpc.client.Binary(content), {"ow": True}):
            raise WikiError(f"{file} of {self._where(path)} was refused, and the wiki does not say why")

    def finish(self) -> None:
        """All is sent at once."""

    def _takes_files(self, path: str) -> bool:
        return self._permission(f"{self._id(path)}:any") >= UPLOAD

    def _permission(self, id: str) -> int:
        if id not in self._permissions:
            with self._explained(self._where("")):
                self._permissions[id] = int(self._call("", "wiki.aclCheck", id) or 0)
        return self._permissions[id]

    def _id(self, path: str) -> str:
        return ":".join(map(_clean, path.split("/")))

    def _file(self, path: str, name: str) -> str:
        return f"{self._id(path)}:{_clean(name)}"

    def _where(self, path: str) -> str:
        return f"page {self._id(path)} on {self._url}" if path else self._url

    def _call(self, path: str, method: str, *arguments: Any) -> Any:
        """What the wiki answers; None for a page that is not there."""
        with self._explained(self._where(path)):
            try:
                return getattr(self._server, method)(*arguments) or None
            except xmlrpc.client.Fault as fault:
                if fault.faultCode != NO_PAGE:
                    raise
                return None
            except http.client.HTTPException:  # of a connection that the server closed between two requests
                self._transport.close()
                return getattr(self._server, method)(*arguments) or None

    @contextmanager
    def _explained(self, where: str) -> Iterator[None]:
        try:
            yield
            return
        except xmlrpc.client.Fault as fault:
            why = f"{fault.faultString} (fault {fault.faultCode})"
            if "not enabled" in fault.faultString:
                why = "its XML-RPC is off; an administrator sets `remote` and `remoteuser` in its settings"
        except xmlrpc.client.ProtocolError as error:
            why = f"{web.REMEDIES.get(error.errcode, 'its server failed; publish again later')} (HTTP {error.errcode})"
            if error.errcode in (301, 302, 303, 307, 308):
                why = f"it sends on to {error.headers.get('Location', 'another address')}: publish to that address"
        except ssl.SSLError:
            why = "its certificate is not trusted here (SSL_CERT_FILE names another file of roots)"
        except TimeoutError:
            why = f"no answer within {web.TIMEOUT_S:.0f} s; publish again later"
        except (xmlrpc.client.Error, ExpatError, http.client.HTTPException, *web.OF_ANOTHER_FORM):
            why = (
                "it does not answer as a DokuWiki: give the address of the folder that holds doku.php, such as "
                "https://wiki.example.org/"
            )
        except OSError:
            why = "nothing answers there; is the address right, is it up?"
        raise WikiError(plain(self._secret.hide(f"{where}: {why}"))) from None


def _clean(part: str) -> str:
    """Part of an id, such as DokuWiki leaves alone whatever its settings: a-z, 0-9, and single . - _ between them."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", plain(part)) if not unicodedata.combining(c)).lower()
    return re.sub(r"([._-])[._-]+", r"\1", re.sub("[^a-z0-9._-]", "-", bare)).strip("._-") or "unnamed"
