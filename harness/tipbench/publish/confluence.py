"""Confluence Cloud by atlassian-python-api. Experimental: never tried on a live one, but on a server of the tests' own.

Titles are unique in a space, so a page is titled by its path: "Benchmarks: amd-epyc-zen4-2c-24g: 2026-11-23-c89c4793".
All hang below one page of a person's, or the space's home.
"""

from __future__ import annotations

import io
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import quoteattr

from atlassian import Confluence as Client
from markdown_it import MarkdownIt

from tipbench.publish import web
from tipbench.publish.addresses import PAGE, Addresses
from tipbench.publish.web import Login
from tipbench.publish.wiki import MARK, SUMMARY, Page, Wiki, WikiError

PLACE = "rest/api/content"


class Confluence(Wiki):
    """One space of it."""

    mark = f"<p>{MARK} ({{digest}}).</p>"

    def __init__(self, url: str, login: Login) -> None:
        """url: `https://SITE.atlassian.net/wiki?space=KEY`, with `&parent=PAGE_ID` where the pages are to hang below
        another page than the space's home. Nothing is sent yet. Raises WikiError where the address is of no use."""
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self._url = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._space, self._parent = query.get("space", [""])[0], query.get("parent", [""])[0]
        if not self._space or not re.fullmatch(r"\d*", self._parent):
            raise WikiError(
                f"{self._url} lacks a space, or parent is no number: add ?space=KEY, the key in its pages' addresses, "
                "and parent as in .../pages/NUMBER/..."
            )
        if not login.token:
            raise WikiError(
                f"no token for {self._url}: set TIPBENCH_USER (the account's e-mail address) and TIPBENCH_TOKEN"
            )
        self._client: Any = Client(self._url, session=web.session(login), timeout=int(web.TIMEOUT_S))
        self._pages: dict[str, Any] = {}

    def render(self, page: Page) -> str:
        addresses = Addresses(
            lambda path, _: f"<ac:link><ri:page ri:content-title={quoteattr(_title(path))}/>",
            lambda name: f"<ac:image><ri:attachment ri:filename={quoteattr(name)}/></ac:image>",
        )
        return _storage(page.text, addresses)

    def read(self, path: str) -> str | None:
        """Confluence gives elements attributes of its own, which the first one of ours is to be without."""
        query = {"title": _title(path), "spaceKey": self._space, "expand": "body.storage,version"}
        try:
            listed = self._send(path, "GET", PLACE, params=query)["results"]
        except (LookupError, TypeError):
            raise WikiError(
                f"{self._url} does not answer as a Confluence: give https://SITE.atlassian.net/wiki?space=KEY"
            ) from None
        self._pages[path] = page = listed[0] if listed else None
        return re.sub(r"\A\s*<p\b[^>]*>\s*", "<p>", page["body"]["storage"]["value"]) if page else None

    def write(self, path: str, text: str) -> None:
        """Confluence refuses a version that is not the next one after that which was read."""
        page = self._pages.get(path) or self._make(path)
        body = {"storage": {"value": text, "representation": "storage"}}
        version = {"number": page["version"]["number"] + 1, "message": SUMMARY, "minorEdit": True}
        content = {"type": "page", "title": _title(path), "body": body, "version": version}
        self._send(path, "PUT", f"{PLACE}/{page['id']}", json=content)

    def attach(self, path: str, name: str, content: bytes) -> None:
        page = self._pages.get(path) or self._make(path)
        self._send(
            path,
            "PUT",
            f"{PLACE}/{page['id']}/child/attachment",
            data={"minorEdit": "true", "comment": SUMMARY},
            files={"file": (name, io.BytesIO(content), "image/png")},
            headers={"X-Atlassian-Token": "nocheck"},
        )

    def _make(self, path: str) -> Any:
        """A page with nothing but the mark; its files need it to be there."""
        body = {"storage": {"value": self.mark.format(digest="not written yet"), "representation": "storage"}}
        content: dict[str, Any] = {"type": "page", "title": _title(path), "space": {"key": self._space}, "body": body}
        content |= {"ancestors": [{"id": self._parent}]} if self._parent else {}
        self._pages[path] = self._send(path, "POST", PLACE, json=content)
        return self._pages[path]

    def _send(self, path: str, method: str, place: str, **more: Any) -> Any:
        """What Confluence answers."""
        with web.explain_errors(f"page {_title(path)} on {self._url}"):
            answer = self._client.request(method, place, advanced_mode=True, **more)
            answer.raise_for_status()
            return answer.json()


def _title(path: str) -> str:
    return path.replace("/", ": ")


def _storage(markdown: str, addresses: Addresses) -> str:
    """Storage format: XHTML, with elements of its own for pages and attachments."""
    parser = MarkdownIt("commonmark", {"xhtmlOut": True, "html": False}).enable("table")
    tokens = parser.parse(markdown)
    for token in tokens:
        open_links: list[str] = []
        for child in token.children or ():
            ends = ""
            if child.type == "link_open":
                address = str(child.attrs["href"])
                is_page = PAGE.fullmatch(address) is not None
                open_links.append("</ac:link-body></ac:link>" if is_page else "</a>")
                ends = f"{addresses.of(address)}<ac:link-body>" if is_page else ""
            elif child.type == "link_close":
                ends = open_links.pop()
            elif child.type == "image":
                ends = addresses.of(str(child.attrs["src"]))
            if ends:
                child.type, child.content, child.children, child.nesting = "html_inline", ends, None, 0
    return str(parser.renderer.render(tokens, parser.options, {}))
