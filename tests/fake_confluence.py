"""A stand-in for Confluence Cloud on 127.0.0.1: its REST API v1 for pages and attachments, and no more of it.

It is no Confluence and was never compared with a live one. It checks credentials, versions (409), titles unique in a
space (400), `X-Atlassian-Token`, and that bodies are XML. What it stores differs from what it was sent, as a
Confluence's does: ids of paragraphs, named entities, no blanks between blocks.
"""

from __future__ import annotations

import base64
import email
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.entities import name2codepoint
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.dom import minidom
from xml.parsers.expat import ExpatError

from tests import servers
from tests.published import TOKEN

USER = "robot@example.org"

ENTITIES = "".join(f'<!ENTITY {name} "&#{code};">' for name, code in name2codepoint.items() if code > 62)


class RefusedRequest(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class StoredPage:
    id: str
    title: str
    body: str
    version: int = 1
    uploads: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "version": {"number": self.version},
            "body": {"storage": {"value": self.body}},
        }


class FakeConfluence:
    """One space, KEY."""

    def __init__(self) -> None:
        self.url = ""
        self.pages: dict[str, StoredPage] = {}
        self.is_read_only = False
        self.lock = threading.Lock()

    def save(self, title: str, text: str) -> None:
        """A person saves a page, or makes it."""
        page = self.pages.setdefault(title, StoredPage(str(len(self.pages) + 1), title, "", version=0))
        page.body, page.version = _as_stored(text), page.version + 1

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes, headers: Any) -> dict[str, Any]:
        if headers["Authorization"] != "Basic " + base64.b64encode(f"{USER}:{TOKEN}".encode()).decode():
            raise RefusedRequest(401, "who are you?")
        if method != "GET" and self.is_read_only:
            raise RefusedRequest(403, "read-only")
        id, below = (re.findall(r"content/(\d+)(?:/child/(\w+))?$", path) or [("", "")])[0]
        page = next((page for page in self.pages.values() if page.id == id), None)
        if id and page is None:
            raise RefusedRequest(404, "no such page")
        if page is not None and below == "attachment":
            return self._attach(page, body, headers)
        if method == "GET":
            listed = [page for page in self.pages.values() if page.title == query["title"]]
            return {"results": [page.as_json() for page in listed if query["spaceKey"] == "KEY"]}
        sent = json.loads(body)
        text = _as_stored(sent["body"]["storage"]["value"])
        if page is None:
            if sent["title"].lower() in map(str.lower, self.pages):
                raise RefusedRequest(400, "A page with this title already exists")
            page = StoredPage(str(len(self.pages) + 1), sent["title"], text)
            self.pages[page.title] = page
            return page.as_json()
        if sent["version"]["number"] != page.version + 1:
            raise RefusedRequest(409, "Version must be incremented")
        page.body, page.version = text, page.version + 1
        return page.as_json()

    def _attach(self, page: StoredPage, body: bytes, headers: Any) -> dict[str, Any]:
        if headers["X-Atlassian-Token"] != "nocheck":
            raise RefusedRequest(403, "XSRF check failed")
        content = b"Content-Type: " + headers["Content-Type"].encode() + b"\n\n" + body
        form: Any = email.message_from_bytes(content).get_payload()
        assert [part.get_filename() for part in form if part.get_filename()] == ["speedups.png"]
        page.uploads += 1
        return {"results": []}


def _as_stored(text: str) -> str:
    try:
        minidom.parseString(f'<!DOCTYPE r [{ENTITIES}]><r xmlns:ac="a" xmlns:ri="r">{text}</r>'.encode())
    except ExpatError as error:
        raise RefusedRequest(400, f"Error parsing xhtml: {error}") from None
    text = re.sub("<p>", '<p local-id="c0ffee">', text)
    return re.sub(r">\s*\n\s*<", "><", text).replace("\u00e9", "&eacute;")


@contextmanager
def running() -> Iterator[FakeConfluence]:
    site = FakeConfluence()

    class Handler(servers.Handler):
        def answer(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            body = self.body()
            try:
                with site.lock:
                    status, answer = 200, site.answer(self.command, parts.path, query, body, self.headers)
            except RefusedRequest as error:
                status, answer = error.status, {"message": str(error)}
            self.reply(status, json.dumps(answer).encode(), {})

    with servers.answering(Handler) as url:
        site.url = f"{url}/wiki"
        yield site
