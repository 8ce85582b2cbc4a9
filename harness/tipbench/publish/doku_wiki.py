"""DokuWiki by its XML-RPC: pages are `benchmarks:machine:run`, figures lie in the namespace of their page's name.

Tried on DokuWiki 2022-07-31 with a user and a password.
"""

from __future__ import annotations

import xmlrpc.client
from typing import Any
from xml.parsers.expat import ExpatError

from tipbench.publish import web
from tipbench.publish.addresses import Addresses
from tipbench.publish.markup import wiki_markup
from tipbench.publish.web import Login
from tipbench.publish.wiki import MARK, SUMMARY, Page, Wiki, WikiError
from tipbench.tip.wording import plain

NO_PAGE = 121
"""Code of a fault: inc/Remote/ApiCore.php. DokuWiki 2022-07-31 also answers with an empty structure in its place."""


class DokuWiki(Wiki):
    """Without a token it is read as strangers may."""

    mark = f"//{MARK} ({{digest}}).//"

    def __init__(self, url: str, login: Login) -> None:
        """url: of the folder that holds doku.php. Raises WikiError where no DokuWiki answers there, or where it does
        not take the token."""
        self._url = web.folder(url)
        self._session = web.session(login)
        # A wrong password would pass for a stranger until something is written.
        if login.token and not self._call("", "dokuwiki.login", login.user, login.token):
            raise WikiError(
                f"{self._url} does not take user {plain(login.user)} with this token (here it is the password): check "
                "TIPBENCH_USER and TIPBENCH_TOKEN"
            )

    def render(self, page: Page) -> str:
        addresses = Addresses(
            lambda path, anchor: f":{_id(path)}{anchor}", lambda name: f":{self._file(page.path, name)}"
        )
        return wiki_markup(page.text, "dokuwiki", addresses)

    def read(self, path: str) -> str | None:
        return self._call(path, "wiki.getPage", _id(path)) or None

    def write(self, path: str, text: str) -> None:
        if not self._call(path, "wiki.putPage", _id(path), text, {"sum": SUMMARY, "minor": False}):
            raise WikiError(
                f"page {_id(path)} on {self._url} was refused: its list of blocked words (conf/wordblock.conf), or a "
                "plugin"
            )

    def attach(self, path: str, name: str, content: bytes) -> None:
        file = self._file(path, name)
        if not self._call(path, "wiki.putAttachment", file, xmlrpc.client.Binary(content), {"ow": True}):
            raise WikiError(f"{file} on {self._url} was refused: ask for the right to edit pages and add files there")

    def _file(self, path: str, name: str) -> str:
        return f"{_id(path)}:{name.lower()}"

    def _call(self, path: str, method: str, *arguments: Any) -> Any:
        """What the wiki answers; None for a page that is not there."""
        where = f"page {_id(path)} on {self._url}" if path else self._url
        with web.explain_errors(where):
            answer = self._session.post(
                f"{self._url}lib/exe/xmlrpc.php",
                data=xmlrpc.client.dumps(arguments, method).encode(),
                headers={"Content-Type": "text/xml"},
                timeout=web.TIMEOUT_S,
            )
            answer.raise_for_status()
        try:
            (value,), _ = xmlrpc.client.loads(answer.content)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode == NO_PAGE:
                return None
            why = f"{fault.faultString} (fault {fault.faultCode})"
            if "not enabled" in fault.faultString:
                why = "its XML-RPC is off; an administrator sets `remote` and `remoteuser` in its settings"
            elif "not allowed" in fault.faultString:
                why += ": set TIPBENCH_USER and TIPBENCH_TOKEN, or ask an administrator for the right to edit there"
            raise WikiError(plain(f"{where}: {why}")) from None
        except (xmlrpc.client.Error, ExpatError, ValueError, TypeError):
            raise WikiError(
                f"{where} does not answer as a DokuWiki: give the address of the folder that holds doku.php, such as "
                "https://wiki.example.org/"
            ) from None
        return value or None


def _id(path: str) -> str:
    """DokuWiki knows lower case alone."""
    return path.lower().replace("/", ":")
