"""Confluence Cloud by atlassian-python-api. Experimental: never tried on a live one, but on a server of the tests' own.

Confluence stores a page in words of its own (entities, ids of macros), so what is read back never equals what was
written. So the comment of the version that we write holds the digest of its text: where the newest version has it,
nobody has written since. Titles are unique in a space, so a page is titled by its path:
"Benchmarks: amd-epyc-zen4-2c-24g: 2026-11-23-c89c4793".
"""

from __future__ import annotations

import hashlib
import io
import re
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import quoteattr

import msgspec

from tipbench.publish import markup, web
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import SUMMARY, Conflict, Page, WikiError, unmarked

try:
    from atlassian import Confluence as Client
except ImportError:
    raise markup.missing() from None

MARK = re.compile(
    r'<p\b[^>]*>\s*<ac:structured-macro\b(?=[^>]*\bac:name="anchor")[^>]*>\s*'
    r'<ac:parameter ac:name="">tipbench</ac:parameter>\s*</ac:structured-macro>\s*</p>'
)
"""Our mark as Confluence stores it, with ids of its own."""


Answer = TypeVar("Answer")


class _Version(msgspec.Struct):
    """number: of a page; of an attachment nothing rests on it. message: the comment."""

    number: int = 0
    message: str | None = None


class _Storage(msgspec.Struct):
    value: str


class _Body(msgspec.Struct):
    storage: _Storage


class _Page(msgspec.Struct):
    """A page without its text; the id is part of addresses."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A\d+\Z")]
    version: _Version


class _WholePage(_Page):
    body: _Body


class _Attachment(msgspec.Struct):
    version: _Version


class _Listed(msgspec.Struct, Generic[Answer]):
    results: list[Answer]


class Confluence:
    """Implements `tipbench.publish.wiki.Wiki`, for one space. A page is read before it is rendered: only then can
    `render` see that it is there already."""

    mark = (
        '<p><ac:structured-macro ac:name="anchor"><ac:parameter ac:name="">tipbench</ac:parameter>'
        "</ac:structured-macro></p>"
    )

    def __init__(self, url: str, secret: Secret) -> None:
        """url: `https://SITE.atlassian.net/wiki?space=KEY`, with `&parent=PAGE_ID` where the tree is to hang below
        another page than the space's home. Nothing is sent yet. Raises WikiError where the address is of no use."""
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self._url = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._space, self._parent = query.get("space", [""])[0], query.get("parent", [""])[0]
        if not re.fullmatch(r"~?[A-Za-z0-9_.:-]+", self._space) or not re.fullmatch(r"\d*", self._parent):
            raise WikiError(
                f"{self._url} lacks a space, or parent is no number: add ?space=KEY, the key in its pages' addresses, "
                "and parent as in .../pages/NUMBER/..."
            )
        if not secret.token:
            raise WikiError(f"no token for {self._url}: set TIPBENCH_USER (the account's e-mail address) and "
                            "TIPBENCH_TOKEN")  # fmt: skip
        self._secret = secret
        # Their retries wait as long as the server says.
        self._client: Any = Client(
            self._url,
            session=web.session(self._url, secret.header),
            timeout=int(web.TIMEOUT_S),
            retry_with_header=False,
        )
        self._pages: dict[str, _Page] = {}
        self._unchanged: dict[str, tuple[str, str]] = {}

    def render(self, page: Page) -> str:
        def file(name: str) -> str:
            width = markup.width(page.files.get(name, b""))
            shown = f' ac:width="{width}"' if width else ""
            return f"<ac:image{shown}><ri:attachment ri:filename={quoteattr(name)}/></ac:image>"

        def address(path: str, anchor: str) -> str:
            return f"<ac:link><ri:page ri:content-title={quoteattr(_title(path))}/>"

        text = markup.storage(page.text, markup.Addresses(address, file))
        digest, stored = self._unchanged.get(page.path, ("", ""))
        return stored if digest == _digest(text) else text

    def read(self, path: str) -> str | None:
        self._unchanged.pop(path, None)
        page = self._page(path)
        if page is None:
            return None
        text = MARK.sub(f"\n{self.mark}\n", page.body.storage.value).lstrip("\n")
        message = re.search(r"[0-9a-f]{64}", page.version.message or "")
        if message:
            self._unchanged[path] = (message[0], unmarked(text, self.mark, _title(path)).strip())
        return text

    def write(self, path: str, text: str, base: str | None) -> None:
        """Confluence refuses a version that is not the next one after that which was read, and a title that exists."""
        body = {"storage": {"value": text, "representation": "storage"}}
        message = f"{SUMMARY} {_digest(unmarked(text, self.mark, path))}"
        page = self._pages.get(path) or self._make(path)
        version = {"number": page.version.number + 1, "message": message, "minorEdit": True}
        content = {"type": "page", "title": _title(path), "body": body, "version": version}
        self._send(path, "PUT", f"rest/api/content/{page.id}", Any, json=content)

    def has(self, path: str, name: str, content: bytes) -> bool:
        """By size and the digest in the comment of our upload."""
        page = self._page(path)
        if page is None:
            return False
        query = {"filename": name, "expand": "version"}
        place = f"rest/api/content/{page.id}/child/attachment"
        listed = self._send(path, "GET", place, _Listed[_Attachment], params=query).results
        return any(_digest(content) in (entry.version.message or "") for entry in listed)

    def attach(self, path: str, name: str, content: bytes) -> None:
        page = self._pages.get(path) or self._make(path)
        self._send(
            path,
            "PUT",
            f"rest/api/content/{page.id}/child/attachment",
            Any,
            data={"minorEdit": "true", "comment": f"{SUMMARY} {_digest(content)}"},
            files={"file": (name, io.BytesIO(content), "image/png")},
            headers={"X-Atlassian-Token": "nocheck"},
        )

    def finish(self) -> None:
        """All is sent at once."""

    def _make(self, path: str) -> _Page:
        """A page with nothing but the mark; files and pages below it need it to be there."""
        above = path.rpartition("/")[0]
        parent = self._parent
        if above:
            parent = (self._pages.get(above) or self._page(above) or self._make(above)).id
        content: dict[str, Any] = {"type": "page", "title": _title(path), "space": {"key": self._space}}
        content["body"] = {"storage": {"value": self.mark, "representation": "storage"}}
        content |= {"ancestors": [{"id": parent}]} if parent else {}
        page = self._send(path, "POST", "rest/api/content", _Page, json=content)
        self._pages[path] = page
        return page

    def _page(self, path: str) -> _WholePage | None:
        query = {"title": _title(path), "spaceKey": self._space, "expand": "body.storage,version"}
        listed = self._send(path, "GET", "rest/api/content", _Listed[_WholePage], params=query).results
        self._pages.pop(path, None)
        if not listed:
            return None
        self._pages[path] = listed[0]
        return listed[0]

    def _send(self, path: str, method: str, place: str, kind: type[Answer], **more: Any) -> Answer:
        """What Confluence answers, which must be of this form."""
        where = f"page {_title(path)} on {self._url}"
        with web.explained(where, self._secret):
            answer = self._client.request(method, place, advanced_mode=True, **more)
            if answer.status_code == 409 or (answer.status_code == 400 and "already exists" in answer.text):
                raise Conflict(f"{where} was changed by somebody meanwhile")
            answer.raise_for_status()
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except ValueError:  # no JSON, or of another form
            raise WikiError(
                f"{self._url} does not answer as a Confluence: give https://SITE.atlassian.net/wiki?space=KEY"
            ) from None


def _title(path: str) -> str:
    return path.replace("/", ": ")


def _digest(content: str | bytes) -> str:
    raw = content.strip().encode() if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()
