"""Confluence Cloud, through its REST API. Experimental: never tried on a live one, but on a server of the tests' own
that was written after the same documentation: "The Confluence Cloud REST API v2", and v1 for attachments.

Confluence stores a page in words of its own (entities, attributes, ids of macros), so what is read back never equals
what was written. Therefore a property of each page, which people do not see, holds two digests: of the region as
rendered and of the region as Confluence stored it. Where both fit, nothing has changed, and `render` gives the region
as `read` found it.

Titles are unique in a space, so a page is titled by its whole path:
"Benchmarks: amd-epyc-zen4-2c-24g: 2026-11-21-0e1f8a67".
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from html.entities import name2codepoint
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.dom import Node, minidom
from xml.parsers.expat import ExpatError

import requests

from tipbench.publish import storage_text
from tipbench.publish.http_wiki import HttpWiki
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Conflict, Path, Stored, WikiError, WikiPage

SETTLING_S = (0.5, 1.0, 2.0, 4.0)
"""Waits until a page that was just written is there for readers."""

PROPERTY = "tipbench"
"""Key of the property with the digests, of pages and of attachments."""

VOLATILE = ("ac:local-id", "ac:macro-id", "local-id", "ri:version-at-save")
"""Attributes that Confluence writes anew whenever anybody saves a page, as the package markdown-to-confluence has
found."""

MARK = re.compile(
    r'<ac:structured-macro\b(?=[^>]*\bac:name="anchor")[^>]*>\s*'
    r'<ac:parameter ac:name="">tipbench-(?P<which>begin|end)</ac:parameter>\s*</ac:structured-macro>'
)
MARKED_PARAGRAPH = re.compile(
    rf"<p\b(?P<attributes>[^>]*)>(?P<before>(?:(?!</?p\b).)*?){MARK.pattern}(?P<after>(?:(?!</?p\b).)*?)</p>",
    re.DOTALL,
)
ENTITIES = "".join(f'<!ENTITY {name} "&#{code};">' for name, code in name2codepoint.items() if code > 62)
"""Those of HTML, which storage format has and XML has not; those below are XML's own."""


class Confluence(HttpWiki):
    """A space of a Confluence. A page is read before it is rendered: only then can `render` see that it is there
    already.

    A page with one of our titles that lies elsewhere in the space and has no marks is not ours and is refused; one
    with marks is ours wherever people moved it. A renamed page is no longer ours.
    """

    kind = "Confluence"
    markup = storage_text.Storage
    help = "only Confluence Cloud can be published to: confluence+https://SITE.atlassian.net/wiki?space=KEY"
    marks = (f"<p>{storage_text.anchor('tipbench-begin')}</p>", f"<p>{storage_text.anchor('tipbench-end')}</p>")

    def __init__(self, url: str, secret: Secret) -> None:
        """url: `https://SITE.atlassian.net/wiki?space=KEY`, with `&parent=PAGE_ID` where the tree is to hang below
        another page than the space's home. Nothing is sent yet. Raises WikiError where the address or the token is
        of no use."""
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        super().__init__(f"{parts.scheme}://{parts.netloc}{parts.path}", secret)
        self._key, self._parent = query.get("space", [""])[0], query.get("parent", [""])[0]
        if not re.fullmatch(r"~?[A-Za-z0-9_.:-]+", self._key):
            raise self._error(f"no space is named for {self._url}: add ?space=KEY, the key in its pages' addresses")
        if self._parent and not self._parent.isdecimal():
            raise self._error("parent is the number in the parent page's address: .../pages/NUMBER/...")
        if not secret.token:
            raise self._error(f"no token for {self._url}: set TIPBENCH_USER (the account's e-mail address) and "
                              "TIPBENCH_TOKEN")  # fmt: skip
        self._session.headers["Accept"] = "application/json"
        self._standing: dict[Path, tuple[object, str]] = {}  # the property's value, and the region as it was read
        self._ids: dict[Path, str] = {}

    def render(self, page: WikiPage) -> str:
        region = super().render(page)
        vouched, standing = self._standing.get(page.path, (None, ""))
        return standing if vouched == _digests(region, standing) else region

    def read(self, path: Path) -> Stored:
        self._standing.pop(path, None)
        self._ids.pop(path, None)
        id = self._id(path)
        if id is None:
            return Stored(None)
        page = self._get(path, id)
        status, text = self._within(page, "status"), self._text(page)
        if status != "current":
            raise self._error(f"{self._page(path)} is {status}: restore it, or rename it")
        if not MARK.search(text) and self._within(page, "parentId") != self._above(path):
            raise self._error(
                f"{self._page(path)} lies elsewhere in the space {self._key}, and tipbench did not write it; titles "
                "are unique in a space: rename that page, or publish to another space or below its parent"
            )
        return Stored(self._as_shown(path, id, text), str(self._version(page)))

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        """By size and by the digest that was stored when we attached it: a person's replacement of equal size is
        taken for ours."""
        id = self._id(path)
        if id is None:
            return False
        query = {"filename": self._file(path, name)}
        attached = self._results(self._page(path), f"api/v2/pages/{id}/attachments", query)
        if not attached or attached[0].get("fileSize") != len(content):
            return False
        held = self._property(f"attachments/{self._within(attached, 0, 'id')}")
        return held is not None and held.get("value") == _digest(content)

    @contextmanager
    def _ready(self, changes: Sequence[Change]) -> Iterator[None]:
        """What a page hangs below, or is attached to, has to be there first: pages are made with nothing but the marks
        and filled later."""
        for change in changes:
            self._expect_as_read(change)
        new = {change.path for change in changes if change.before.text is None}
        above = {change.path[:depth] for change in changes for depth in range(1, len(change.path))}
        for path in sorted(new | above, key=lambda path: (len(path), path)):
            # One that was not there when it was read is made, which fails where somebody was faster, not looked up.
            if path in new or self._id(path) is None:
                self._make(path)
        yield

    def _make(self, path: Path) -> None:
        wanted = {"spaceId": self._space["id"], "status": "current", "parentId": self._above(path)}
        response = self._send(self._page(path), "POST", "api/v2/pages", json={
            **wanted, "title": self._name(path), "body": _storage("\n".join(self.marks)),
        })  # fmt: skip
        if response.status_code in (400, 409):
            if self._id(path) is not None:
                raise Conflict(f"somebody made the {self._page(path)} meanwhile")
            if "already exists" in response.text:
                raise self._error(
                    f"the space {self._key} has a {self._page(path)} that this account cannot see, or that differs in "
                    "capitals only: rename it, or ask for the permission to see it"
                )
        if not response.ok:
            raise self._refusal(self._page(path), response, self._said(response))
        self._ids[path] = str(self._within(self._parsed(response), "id"))
        self._settled(path, 1)

    def _edit(self, change: Change, text: str, summary: str) -> None:
        id, version = self._ids[change.path], int(change.before.revision or 1) + 1
        self._json(self._page(change.path), "PUT", f"api/v2/pages/{id}", json={
            "id": id, "status": "current", "title": self._name(change.path), "body": _storage(text),
            "version": {"number": version, "message": summary, "minorEdit": True},
        })  # fmt: skip
        self._vouch(change.path, text, version)

    def _upload(self, path: Path, name: str, content: bytes, summary: str) -> None:
        what = f"file {name} of {self._page(path)}"
        answer = self._json(
            what, "PUT", f"rest/api/content/{self._ids[path]}/child/attachment", data={"minorEdit": "true"},
            files={"file": (name, content, "image/png")}, headers={"X-Atlassian-Token": "nocheck"},
        )  # fmt: skip
        self._remember(f"attachments/{self._within(answer, 'results', 0, 'id')}", _digest(content))

    def _settled(self, path: Path, version: int) -> Any:
        """The page once it shows what was written, which can take a site some seconds: the proof that it was."""
        for wait_s in (*SETTLING_S, None):
            place = f"api/v2/pages/{self._ids[path]}"
            response = self._send(self._page(path), "GET", place, params={"body-format": "storage"})
            if response.ok and self._version(page := self._parsed(response)) >= version:
                return page
            if response.status_code not in (200, 404):
                raise self._refusal(self._page(path), response, self._said(response))
            if wait_s is not None:
                time.sleep(wait_s)
        raise self._error(f"{self._page(path)} was taken but is not shown: look at it there")

    def _vouch(self, path: Path, text: str, version: int) -> None:
        """Remember how Confluence stores what was written as this version, unless somebody wrote on already."""
        page = self._settled(path, version)
        written, stored = self._region(path, text), self._region(path, self._text(page))
        if self._version(page) == version and written is not None and stored is not None:
            value = _digests(written[1].strip("\n"), self._laid_out(path, stored[1]))
            self._remember(f"pages/{self._ids[path]}", value)

    # ---- our region ----

    def _as_shown(self, path: Path, id: str, text: str) -> str:
        """The page with plain marks and our region one block a line."""
        parts = self._region(path, text)
        if parts is None:
            return self._plain_marks(path, text)
        region = self._laid_out(path, parts[1])
        vouched = self._property(f"pages/{id}")
        self._standing[path] = (vouched.get("value") if vouched else None, region)
        return f"{parts[0]}{self.marks[0]}\n{region}\n{self.marks[1]}{parts[2]}"

    def _region(self, path: Path, text: str) -> tuple[str, str, str] | None:
        """Before, between and after the marks; None where they are not both there."""
        before, begun, rest = self._plain_marks(path, text).partition(self.marks[0])
        region, ended, after = rest.partition(self.marks[1])
        return (before, region, after) if begun and ended else None

    def _plain_marks(self, path: Path, text: str) -> str:
        """Marks as `marks` has them, each on a line of its own, and nothing in code that reads like one.

        What a person typed into a mark's paragraph, which looks empty, comes to be outside our region.
        """

        def alone(found: re.Match[str]) -> str:
            typed = found["before"] + found["after"]
            paragraph = f"<p{found['attributes']}>{typed}</p>" if typed.strip() else ""
            return paragraph + self.marks[0] if found["which"] == "begin" else self.marks[1] + paragraph

        shown = MARKED_PARAGRAPH.sub(alone, storage_text.unmarked(text))
        if len(MARK.findall(shown)) != sum(map(shown.count, self.marks)):
            raise self._misplaced(path)
        for mark in self.marks:
            shown = re.sub(rf"\n*{re.escape(mark)}\n*", f"\n{mark}\n", shown)
        return shown.lstrip("\n")

    def _laid_out(self, path: Path, region: str) -> str:
        """One block a line, without what changes whenever anybody saves the page, such as the ids of macros."""
        document = f'<!DOCTYPE root [{ENTITIES}]><root xmlns:ac="ac" xmlns:ri="ri">{region}</root>'
        try:
            root: Any = minidom.parseString(document.encode()).documentElement
        except ExpatError:
            raise self._misplaced(path) from None
        for element in root.getElementsByTagName("*"):
            for name in filter(element.hasAttribute, VOLATILE):
                element.removeAttribute(name)
        blocks = (node.toxml().strip() for node in root.childNodes if node.nodeType != Node.COMMENT_NODE)
        return storage_text.unmarked("\n".join(filter(None, blocks)))

    def _misplaced(self, path: Path) -> WikiError:
        return self._error(
            f"the anchors tipbench-begin and tipbench-end of the {self._page(path)} are no longer in paragraphs beside "
            "each other, so what is ours cannot be distinguished from what is not: put them back, or delete both and "
            "what is between them"
        )

    # ---- names ----

    def _title(self, path: Path) -> str:
        return ": ".join(path)

    def _file_title(self, path: Path, name: str) -> str:
        return name

    def _unique(self, name: str, meant: object) -> str:
        return name  # a name's characters stay as they are, so none becomes another's

    def _takes_files(self, path: Path) -> bool:
        return True

    # ---- the API ----

    def _get(self, path: Path, id: str) -> Any:
        return self._json(self._page(path), "GET", f"api/v2/pages/{id}", params={"body-format": "storage"})

    def _text(self, page: Any) -> str:
        return str(self._within(page, "body", "storage", "value"))

    def _version(self, page: Any) -> int:
        number = self._within(page, "version", "number")
        if not isinstance(number, int):
            raise self._not_one()
        return number

    def _id(self, path: Path) -> str | None:
        if path not in self._ids:
            query = {"title": self._name(path), "space-id": self._space["id"]}
            found = self._results(self._page(path), "api/v2/pages", query)
            if not found:
                return None
            self._ids[path] = str(self._within(found, 0, "id"))
        return self._ids[path]

    def _above(self, path: Path) -> str | None:
        return self._id(path[:-1]) if len(path) > 1 else self._parent or self._space["homepageId"]

    @cached_property
    def _space(self) -> Mapping[str, str]:
        found = self._results(self._url, "api/v2/spaces", {"keys": self._key})
        if not found:
            raise self._error(
                f"{self._url} shows no space {self._key}: look at its key, and whether this account may see it (who "
                "is not known by the token is shown nothing)"
            )
        return {name: str(self._within(found, 0, name)) for name in ("id", "homepageId")}

    def _property(self, holder: str) -> Any:
        """Ours, of a page or an attachment; None where it has none."""
        found = self._results(self._url, f"api/v2/{holder}/properties", {"key": PROPERTY})
        return found[0] if found else None

    def _remember(self, holder: str, value: object) -> None:
        held, place, wanted = self._property(holder), f"api/v2/{holder}/properties", {"key": PROPERTY, "value": value}
        if held is None:
            self._json(self._url, "POST", place, json=wanted)
        else:
            version = {"number": self._version(held) + 1}
            self._json(self._url, "PUT", f"{place}/{self._within(held, 'id')}", json={**wanted, "version": version})

    def _results(self, what: str, place: str, query: Mapping[str, str]) -> list[Any]:
        found = self._within(self._json(what, "GET", place, params=query), "results")
        if not isinstance(found, list):
            raise self._not_one()
        return found

    def _said(self, response: requests.Response) -> str:
        """In the forms of the REST APIs v2 and v1."""
        try:
            body = response.json()
            errors = body.get("errors") or [{"title": body.get("message")}]
            return "; ".join(str(one["title"]) for one in errors if one.get("title"))
        except (requests.JSONDecodeError, AttributeError, KeyError, TypeError):
            return ""


def _storage(text: str) -> Mapping[str, str]:
    return {"representation": "storage", "value": text}


def _digests(rendered: str, stored: str) -> Mapping[str, str]:
    return {"rendered": _digest(rendered.encode()), "stored": _digest(stored.encode())}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
