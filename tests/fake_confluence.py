"""A stand-in for Confluence Cloud on 127.0.0.1, stricter than the real one is said to be.

It is no Confluence and was never compared with a live one. Written from Atlassian's documentation: "The Confluence
Cloud REST API v2" (pages, spaces, attachments, content properties), "The Confluence Cloud REST API" v1 (content -
attachments), "Rate limiting", "Basic auth for REST APIs" and "Confluence Storage Format" with its macros' pages; and
from what users of it report of titles, versions and rewritten bodies. Where they leave a choice open, this one refuses.

What it checks: credentials, content types, names of fields and of query parameters, versions (409), titles unique in a
space whatever their capitals, parents, `X-Atlassian-Token` and forms of uploads, and of bodies: that they are XML, that
every element, attribute, macro and parameter is known and stands where it may. What it stores differs from what it was
sent, as a Confluence's does: attributes sorted and added, named entities, ids of macros, no blanks between blocks.
"""

from __future__ import annotations

import base64
import email
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html.entities import codepoint2name, name2codepoint
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.dom import Node, minidom
from xml.parsers.expat import ExpatError

from tests.published import TOKEN

USER = "robot@example.org"
WHEN = "2026-11-22T00:00:00.000Z"

INLINE = {"strong", "em", "u", "s", "del", "sub", "sup", "small", "big", "code", "a", "span", "br"}
BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote", "ul", "ol", "table", "hr", "div"}
INLINE_MACROS, BLOCK_MACROS = {"anchor", "status"}, {"code", "expand", "info", "note", "tip", "warning", "toc"}
INSIDE_INLINE = INLINE | {"ac:link", "ac:image", "inline macro"}
INSIDE_BLOCK = INSIDE_INLINE | BLOCKS | {"block macro"}
CHILDREN: dict[str, set[str]] = {
    **dict.fromkeys(INLINE - {"br"} | {"p", "h1", "h2", "h3", "h4", "h5", "h6", "pre"}, INSIDE_INLINE),
    **dict.fromkeys(("blockquote", "div", "li", "td", "th", "ac:rich-text-body"), INSIDE_BLOCK),
    "br": set(), "hr": set(), "ul": {"li"}, "ol": {"li"}, "table": {"colgroup", "tbody", "thead"},
    "colgroup": {"col"}, "col": set(), "tbody": {"tr"}, "thead": {"tr"}, "tr": {"td", "th"},
    "ac:structured-macro": {"ac:parameter", "ac:rich-text-body", "ac:plain-text-body"},
    "ac:parameter": set(), "ac:plain-text-body": set(), "ac:plain-text-link-body": set(),
    "ac:link-body": INSIDE_INLINE, "ac:link": {"ri:page", "ri:attachment", "ac:plain-text-link-body", "ac:link-body"},
    "ac:image": {"ri:attachment", "ri:url"}, "ri:page": set(), "ri:attachment": set(), "ri:url": set(),
}  # fmt: skip
WITH_TEXT = INSIDE_BLOCK - {"ul", "ol", "table", "hr", "br", "ac:link", "ac:image"} | {
    "li", "td", "th", "ac:parameter", "ac:plain-text-body", "ac:plain-text-link-body", "ac:link-body",
    "ac:rich-text-body",
}  # fmt: skip
ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"}, "p": {"style", "local-id"}, "span": {"style", "class"}, "col": {"style"},
    "table": {"class", "style", "data-layout", "ac:local-id"}, "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"}, "ac:parameter": {"ac:name"}, "ac:link": {"ac:anchor"},
    "ac:structured-macro": {"ac:name", "ac:schema-version", "ac:macro-id", "ac:local-id"},
    "ac:image": {"ac:alt", "ac:width", "ac:height", "ac:align", "ac:border", "ac:title", "ac:thumbnail"},
    "ri:page": {"ri:content-title", "ri:space-key", "ri:version-at-save"},
    "ri:attachment": {"ri:filename", "ri:version-at-save"}, "ri:url": {"ri:value"},
}  # fmt: skip
REQUIRED = {"a": "href", "ac:structured-macro": "ac:name", "ac:parameter": "ac:name", "ri:page": "ri:content-title",
            "ri:attachment": "ri:filename", "ri:url": "ri:value"}  # fmt: skip
PARAMETERS: dict[str, set[str]] = {
    "anchor": {""}, "status": {"colour", "title", "subtle"}, "expand": {"title"}, "toc": {"maxLevel", "minLevel"},
    "code": {"language", "title", "linenumbers", "collapse", "theme"},
    **{name: {"title", "icon"} for name in ("info", "note", "tip", "warning")},
}  # fmt: skip
VALUES = {
    ("status", "colour"): {"Grey", "Red", "Yellow", "Green", "Blue", "Purple"},
    ("code", "language"): {
        "actionscript3", "applescript", "bash", "c#", "cpp", "css", "coldfusion", "delphi", "diff", "erl", "groovy",
        "xml", "java", "jfx", "js", "php", "perl", "text", "powershell", "py", "ruby", "sql", "sass", "scala", "vb",
        "yml",
    },
}  # fmt: skip
BODY = {"code": "ac:plain-text-body", **dict.fromkeys(("expand", "info", "note", "tip", "warning"),
                                                       "ac:rich-text-body")}  # fmt: skip


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, title: str) -> None:
        super().__init__(title)
        self.status = status


def parsed(storage: str) -> minidom.Element:
    """The body below one root, its entities resolved. Raises Refused where it is no XML."""
    entities = "".join(f'<!ENTITY {name} "&#{code};">' for name, code in name2codepoint.items() if code > 62)
    spaces = 'xmlns:ac="ac" xmlns:ri="ri"'
    try:
        whole = f"<!DOCTYPE root [{entities}]><root {spaces}>{storage}</root>".encode()
        root = minidom.parseString(whole).documentElement
    except (ExpatError, UnicodeEncodeError) as error:
        raise Refused(400, f"Error parsing xhtml: {error}") from None
    assert root is not None
    return root


def checked(storage: str) -> minidom.Element:
    root = parsed(storage)
    _check(root, INSIDE_BLOCK, "the page", text=False)
    return root


def _check(element: Any, allowed: set[str], where: str, text: bool) -> None:
    for node in element.childNodes:
        if node.nodeType in (Node.TEXT_NODE, Node.CDATA_SECTION_NODE):
            if node.data.strip() and not text:
                raise Refused(400, f"text where none may stand, in {where}: {node.data[:40]!r}")
            raw = where in ("ac:plain-text-body", "ac:plain-text-link-body")
            if raw != (node.nodeType == Node.CDATA_SECTION_NODE):
                raise Refused(400, f"CDATA {'missing' if raw else 'out of place'} in {where}")
            continue
        if node.nodeType != Node.ELEMENT_NODE:
            raise Refused(400, f"neither element nor text in {where}")
        name = node.tagName
        kind = name
        if name == "ac:structured-macro":
            kind = "inline macro" if node.getAttribute("ac:name") in INLINE_MACROS else "block macro"
            _check_macro(node)
        if kind not in allowed:
            raise Refused(400, f"{name} may not stand in {where}")
        unknown = set(node.attributes.keys()) - ATTRIBUTES.get(name, set())
        if unknown or (name in REQUIRED and not node.hasAttribute(REQUIRED[name])):
            raise Refused(400, f"attributes of {name}: {sorted(node.attributes.keys())}")
        if name == "a" and not re.match("https?://", node.getAttribute("href")):
            raise Refused(400, f"no address: {node.getAttribute('href')!r}")
        _check(node, CHILDREN[name], name, name in WITH_TEXT)


def _check_macro(macro: Any) -> None:
    name = macro.getAttribute("ac:name")
    if name not in PARAMETERS:
        raise Refused(400, f"unknown macro: {name!r}")
    bodies = []
    if name == "expand" and [node for node in macro.getElementsByTagName(macro.tagName)
                             if node.getAttribute("ac:name") == name]:  # fmt: skip
        raise Refused(400, "an expand macro within another")
    for child in macro.childNodes:
        if child.nodeType == Node.ELEMENT_NODE and child.tagName == "ac:parameter":
            key, value = child.getAttribute("ac:name"), text_of(child)
            if key not in PARAMETERS[name] or value not in VALUES.get((name, key), {value}):
                raise Refused(400, f"parameter {key!r} of the macro {name}: {value!r}")
        elif child.nodeType == Node.ELEMENT_NODE:
            bodies.append(child.tagName)
    if bodies != ([BODY[name]] if name in BODY else []):
        raise Refused(400, f"bodies of the macro {name}: {bodies}")


def text_of(node: Any) -> str:
    """All text below a node of the DOM."""
    if node.nodeType in (Node.TEXT_NODE, Node.CDATA_SECTION_NODE):
        return str(node.data)
    return "".join(map(text_of, node.childNodes))


def _named(text: str) -> str:
    """Every character that HTML 4 has a name for by its name, as Confluence likes it."""
    return "".join(f"&{codepoint2name[ord(c)]};" if ord(c) in codepoint2name else c for c in text)


@dataclass
class Version:
    body: str
    message: str
    minor: bool


@dataclass
class Property:
    id: str
    key: str
    value: Any
    version: int = 1


@dataclass
class Attachment:
    id: str
    title: str
    content: bytes
    media: str
    uploads: int = 1
    properties: dict[str, Property] = field(default_factory=dict)


@dataclass
class StoredPage:
    """hidden: nobody but its owner may see it. locked: nobody but its owner may change it."""

    id: str
    title: str
    parent: str | None
    versions: list[Version]
    status: str = "current"
    hidden: bool = False
    locked: bool = False
    stale: int = 0
    properties: dict[str, Property] = field(default_factory=dict)
    attachments: dict[str, Attachment] = field(default_factory=dict)

    @property
    def body(self) -> str:
        return self.versions[-1].body


@dataclass
class Fault:
    """What happens to the next requests that fit: an answer, or something that somebody does just before."""

    method: str
    path: str
    times: int
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    first: Callable[[], object] | None = None


class FakeConfluence:
    """One site with one space, KEY, and its home page. lag: reads of a page that come too early after a write."""

    def __init__(self) -> None:
        self.pages: dict[str, StoredPage] = {}
        self.requests: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.lag = 0
        self.url = ""
        self._last = 100
        self.home = self.add("Home", "<p>Welcome</p>", parent=None)

    # ---- what people do ----

    def add(self, title: str, body: str, parent: str | None) -> StoredPage:
        page = StoredPage(self._id(), title, parent, [])
        page.versions.append(Version(self._stored(body, 1), "", minor=False))
        self.pages[page.id] = page
        return page

    def edit(self, title: str, change: Callable[[str], str]) -> None:
        """A person opens the page, changes it and saves it."""
        page = self.page(title)
        body = self._stored(change(page.body), len(page.versions) + 1)
        page.versions.append(Version(body, "", minor=False))

    def page(self, title: str) -> StoredPage:
        (found,) = [page for page in self.pages.values() if page.title == title]
        return found

    def titles(self) -> set[str]:
        return {page.title for page in self.pages.values()} - {"Home"}

    def versions(self) -> dict[str, int]:
        return {page.title: len(page.versions) for page in self.pages.values() if page is not self.home}

    def uploads(self) -> dict[str, int]:
        every = ((page, one) for page in self.pages.values() for one in page.attachments.values())
        return {f"{page.title}/{one.title}": one.uploads for page, one in every}

    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.requests if method != "GET"]

    def fail(self, method: str, path: str, status: int, times: int = 1, body: str = "", **headers: str) -> None:
        headers.setdefault("Content_Type", "application/json")
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(method, path, times, status, told, body))

    def meanwhile(self, method: str, path: str, first: Callable[[], object]) -> None:
        self.faults.append(Fault(method, path, 1, first=first))

    # ---- storing ----

    def _id(self) -> str:
        self._last += 1
        return str(self._last)

    def _stored(self, body: str, version: int) -> str:
        return "".join(self._written(node, version) for node in checked(body).childNodes)

    def _written(self, node: Any, version: int) -> str:
        if node.nodeType == Node.TEXT_NODE:
            among_blocks = node.parentNode.tagName in ("root", "table", "tbody", "tr", "ul", "ol", "ac:rich-text-body")
            return "" if among_blocks and not node.data.strip() else _named(node.data)
        if node.nodeType == Node.CDATA_SECTION_NODE:
            if node is not node.parentNode.firstChild:
                return ""
            whole = text_of(node.parentNode).replace("]]>", "]]]]><![CDATA[>")
            return f"<![CDATA[{whole}]]>"
        name = node.tagName
        attributes = dict(node.attributes.items())
        if name == "ac:structured-macro":
            attributes.setdefault("ac:schema-version", "1")
            attributes.setdefault("ac:macro-id", f"00000000-0000-4000-8000-{int(self._id()):012}")
        elif name in ("ri:page", "ri:attachment"):
            attributes["ri:version-at-save"] = str(version)
        elif name == "table":
            attributes.setdefault("class", "wrapped")
        elif name == "p":
            attributes.setdefault("local-id", f"p{self._id()}")
        told = "".join(f' {key}="{_named(value)}"' for key, value in sorted(attributes.items()))
        inside = "".join(self._written(child, version) for child in node.childNodes)
        return f"<{name}{told}>{inside}</{name}>" if inside else f"<{name}{told} />"

    # ---- the API ----

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        parts = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        expected = base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()
        if headers.get("Authorization") not in (f"Basic {expected}", f"Bearer {TOKEN}"):
            raise Refused(401, "Unauthorized")
        if method == "GET" and headers.get("Accept") != "application/json":
            raise Refused(406, "Not Acceptable")
        for verb, pattern, handle, takes in self._routes():
            found = re.fullmatch(pattern, parts.path)
            if verb != method or found is None:
                continue
            if set(query) - (takes if isinstance(takes, set) else set()):
                raise Refused(400, f"unknown query parameters {sorted(query)}")
            return 200, handle(*found.groups(), query if isinstance(takes, set) else takes(headers, body))
        raise Refused(404, "Not Found")

    def _routes(self) -> list[tuple[str, str, Callable[..., Any], Any]]:
        """Method, path, who answers, and what is taken: query parameters, or the body read by a function."""
        v2 = "/wiki/api/v2"
        properties = f"{v2}/(pages|attachments)/(\\w+)/properties"
        return [
            ("GET", f"{v2}/spaces", self._spaces, {"keys", "status"}),
            ("GET", f"{v2}/pages", self._listed, {"title", "space-id", "status"}),
            ("POST", f"{v2}/pages/?", self._create, _json),
            ("GET", f"{v2}/pages/(\\d+)", self._page, {"body-format"}),
            ("PUT", f"{v2}/pages/(\\d+)", self._update, _json),
            ("GET", f"{v2}/pages/(\\d+)/attachments", self._attachments, {"filename"}),
            ("GET", properties, self._properties, {"key"}),
            ("POST", properties, self._add_property, _json),
            ("PUT", f"{properties}/(\\d+)", self._change_property, _json),
            ("PUT", r"/wiki/rest/api/content/(\d+)/child/attachment", self._attach, _form),
        ]

    def _spaces(self, query: dict[str, str]) -> Any:
        return self._results([{"id": "7", "key": "KEY", "homepageId": self.home.id}] * (query.get("keys") == "KEY"))

    def _listed(self, query: dict[str, str]) -> Any:
        if query.get("space-id") != "7":
            return self._results([])
        return self._results([
            self._shown(page) for page in self.pages.values()
            if page.title == query.get("title") and page.status in ("current", "archived") and not page.hidden
        ])  # fmt: skip

    def _visible(self, page_id: str, to_write: bool = False) -> StoredPage:
        page = self.pages.get(page_id)
        if page is None or page.hidden:
            raise Refused(404, "Not Found")
        if to_write and page.status != "current":
            raise Refused(404, "Content is not current")
        if to_write and page.locked:
            raise Refused(403, "User is not permitted to edit this content")
        return page

    def _page(self, page_id: str, query: dict[str, str]) -> Any:
        page = self._visible(page_id)
        behind = page.stale > 0
        page.stale -= behind
        if behind and len(page.versions) == 1:
            raise Refused(404, "Not Found")
        storage = query.get("body-format") == "storage"
        return self._shown(page, behind, page.versions[-1 - behind].body if storage else None)

    def _shown(self, page: StoredPage, behind: bool = False, body: str | None = None) -> dict[str, Any]:
        number = len(page.versions) - behind
        about: dict[str, Any] = {
            "id": page.id, "status": page.status, "title": page.title, "spaceId": "7", "parentId": page.parent,
            "parentType": "page" if page.parent else None, "position": 1, "authorId": "a", "ownerId": "a",
            "createdAt": WHEN, "_links": {"webui": f"/spaces/KEY/pages/{page.id}"},
            "version": {"number": number, "minorEdit": page.versions[number - 1].minor, "createdAt": WHEN,
                        "message": page.versions[number - 1].message, "authorId": "a"},
        }  # fmt: skip
        return {**about, "body": {"storage": {"representation": "storage", "value": body}} if body is not None else {}}

    def _create(self, asked: dict[str, Any]) -> Any:
        _fields(asked, {"spaceId", "title", "body"}, {"status", "parentId"})
        if asked["spaceId"] != "7":
            raise Refused(404, "Space not found")
        title = asked["title"]
        if not isinstance(title, str) or not 0 < len(title.strip()) <= 255:
            raise Refused(400, "Title must be of 1 to 255 characters")
        if title.casefold() in {page.title.casefold() for page in self.pages.values() if page.status != "trashed"}:
            raise Refused(400, "A page with this title already exists: A page already exists with the same TITLE in "
                               "this space")  # fmt: skip
        self._visible(str(asked.get("parentId")))
        body = self._stored(_storage(asked["body"]), 1)
        page = StoredPage(self._id(), title, asked.get("parentId"), [Version(body, "", minor=False)], stale=self.lag)
        self.pages[page.id] = page
        return self._shown(page, body=body)

    def _update(self, page_id: str, asked: dict[str, Any]) -> Any:
        page = self._visible(page_id, to_write=True)
        _fields(asked, {"id", "status", "title", "body", "version"}, set())
        if asked["id"] != page_id or asked["status"] != "current" or asked["title"] != page.title:
            raise Refused(400, "id, status or title differ from the page's")
        version = _version(asked["version"], len(page.versions))
        body = self._stored(_storage(asked["body"]), version)
        message, minor = asked["version"].get("message"), bool(asked["version"].get("minorEdit"))
        page.versions.append(Version(body, message or "", minor))
        page.stale = self.lag
        return self._shown(page, body=body)

    # ---- properties and attachments ----

    def _holder(self, kind: str, holder_id: str, to_write: bool) -> dict[str, Property]:
        if kind == "pages":
            return self._visible(holder_id, to_write).properties
        for page in self.pages.values():
            if holder_id in page.attachments:
                self._visible(page.id, to_write)
                return page.attachments[holder_id].properties
        raise Refused(404, "Not Found")

    def _properties(self, kind: str, holder_id: str, query: dict[str, str]) -> Any:
        found = self._holder(kind, holder_id, to_write=False)
        return self._results([_as_json(one) for one in found.values() if query.get("key", one.key) == one.key])

    def _add_property(self, kind: str, holder_id: str, asked: dict[str, Any]) -> Any:
        found = self._holder(kind, holder_id, to_write=True)
        _fields(asked, {"key", "value"}, set())
        if asked["key"] in {one.key for one in found.values()} or len(json.dumps(asked["value"])) > 32 * 1024:
            raise Refused(400, "Property exists already or is too large")
        one = Property(self._id(), asked["key"], asked["value"])
        found[one.id] = one
        return _as_json(one)

    def _change_property(self, kind: str, holder_id: str, property_id: str, asked: dict[str, Any]) -> Any:
        found = self._holder(kind, holder_id, to_write=True)
        _fields(asked, {"key", "value", "version"}, set())
        one = found.get(property_id)
        if one is None or one.key != asked["key"]:
            raise Refused(404, "Not Found")
        one.version, one.value = _version(asked["version"], one.version), asked["value"]
        return _as_json(one)

    def _attachments(self, page_id: str, query: dict[str, str]) -> Any:
        page = self._visible(page_id)
        return self._results([
            {
                "id": one.id, "status": "current", "title": one.title, "pageId": page_id, "mediaType": one.media,
                "fileSize": len(one.content), "version": _numbered(one.uploads),
            }
            for one in page.attachments.values() if query.get("filename", one.title) == one.title
        ])  # fmt: skip

    def _attach(self, page_id: str, form: tuple[str, str, bytes]) -> Any:
        """Makes it, or a new version of the one of this name."""
        page = self._visible(page_id, to_write=True)
        name, media, content = form
        one = next((known for known in page.attachments.values() if known.title == name), None)
        if one is None:
            one = Attachment(f"att{self._id()}", name, content, media, uploads=0)
            page.attachments[one.id] = one
        one.content, one.media, one.uploads = content, media, one.uploads + 1
        return self._results([{"id": one.id, "title": name, "version": {"number": one.uploads}}])

    def _results(self, found: list[Any]) -> Any:
        return {"results": found, "_links": {"base": self.url}}


def _json(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    if headers.get("Content-Type") != "application/json":
        raise Refused(415, "Unsupported Media Type")
    try:
        asked = json.loads(body)
    except ValueError:
        raise Refused(400, "no JSON") from None
    if not isinstance(asked, dict):
        raise Refused(400, "no object")
    return asked


def _form(headers: Mapping[str, str], body: bytes) -> tuple[str, str, bytes]:
    """Name, media type and content of the one file of a form."""
    if headers.get("X-Atlassian-Token") not in ("nocheck", "no-check"):
        raise Refused(403, "XSRF check failed")
    sent = email.message_from_bytes(f"Content-Type: {headers.get('Content-Type')}\r\n\r\n".encode() + body)
    parts: Any = sent.get_payload() if sent.get_content_type() == "multipart/form-data" else []
    if not isinstance(parts, list) or {part.get_param("name", header="content-disposition") for part in parts} - {
        "file", "comment", "minorEdit"
    }:  # fmt: skip
        raise Refused(400, "unknown field of the form")
    files = [part for part in parts if part.get_filename()]
    if len(files) != 1:
        raise Refused(400, "one file with a name is needed")
    return files[0].get_filename(), files[0].get_content_type(), files[0].get_payload(decode=True)


def _fields(asked: dict[str, Any], needed: set[str], possible: set[str]) -> None:
    if not needed <= set(asked) <= needed | possible:
        raise Refused(400, f"fields {sorted(asked)}, needed {sorted(needed)}")


def _storage(body: Any) -> str:
    inner = body.get("storage", body) if isinstance(body, dict) else {}
    if inner.get("representation") != "storage" or not isinstance(inner.get("value"), str):
        raise Refused(400, "body must be of the representation storage")
    return str(inner["value"])


def _version(asked: Any, current: int) -> int:
    _fields(asked, {"number"}, {"message", "minorEdit", "createdAt", "authorId"})
    if asked.get("createdAt") is not None or asked.get("authorId") is not None:
        raise Refused(400, "when and by whom is not the client's to say")
    if asked["number"] != current + 1:
        raise Refused(409, f"Version must be incremented when updating a page. Current Version: [{current}]. Provided "
                           f"version: [{asked['number']}]")  # fmt: skip
    return current + 1


def _as_json(one: Property) -> dict[str, Any]:
    return {"id": one.id, "key": one.key, "value": one.value, "version": _numbered(one.version)}


def _numbered(version: int) -> dict[str, Any]:
    return {"number": version, "createdAt": WHEN, "message": "", "minorEdit": False, "authorId": "a"}


@contextmanager
def running() -> Iterator[FakeConfluence]:
    """The site behind a real HTTP server, on a port of its own."""
    site, lock = FakeConfluence(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer in one packet: in two, the second would wait 40 ms for the client's word

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                status, headers, said = self._answer(body)
            sent = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # who asked has gone
                self.wfile.write(sent)
                self.wfile.flush()

        do_GET = do_POST = do_PUT = do_DELETE = _handle

        def _answer(self, body: bytes) -> tuple[int, Mapping[str, str], Any]:
            method, target = self.command, self.path
            site.requests.append((method, target))
            for fault in site.faults:
                if fault.times and fault.method == method and re.search(fault.path, target):
                    fault.times -= 1
                    if fault.first is not None:
                        fault.first()
                        break
                    return fault.status, fault.headers, fault.body.encode()
            as_json = {"Content-Type": "application/json"}
            try:
                status, said = site.answer(method, target, dict(self.headers.items()), body)
                return status, as_json, said
            except Refused as refused:
                if target.startswith("/wiki/rest/api"):
                    return refused.status, as_json, {"statusCode": refused.status, "message": str(refused)}
                error = {"status": refused.status, "code": "REFUSED", "title": str(refused), "detail": None}
                return refused.status, as_json, {"errors": [error]}

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.url = f"http://127.0.0.1:{server.server_port}/wiki"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
