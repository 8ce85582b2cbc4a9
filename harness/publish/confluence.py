"""Confluence Cloud as a wiki to publish to; the package markdown-to-confluence speaks with it.

Of that package its API session is used, its parser of storage format and its list of what Confluence rewrites at
will; not its Markdown converter and synchronizer. They replace whole pages and so lose what people wrote around our
region, they name files on disk, and their Markdown has so many extensions (emoji, mathematics, directives) that
foreign text would turn into markup: `storage_text` renders the page itself. The session is opened without the
package's `ConfluenceAPI`, which knows no timeout, waits as long as a server says, and fills in from the environment.

Confluence stores a page in words of its own (entities, attributes, ids of macros), so what is read back never equals
what was written. Therefore a property of each page, which people do not see, holds two digests: of the region as
rendered and of the region as Confluence stored it. Where both fit, nothing has changed, and `render` gives the region
as `read` found it.

Titles are unique in a space, so a page is titled by its whole path:
"Benchmarks: amd-epyc-zen4-2c-24g: 2026-11-21-0e1f8a67".
Never tried on a live Confluence: the tests' server was written after Atlassian's documentation.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import requests

from tipbench.publish import storage_text
from tipbench.publish.patience import patient_session
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Conflict, Path, Stored, WikiError, WikiPage
from tipbench.report.wording import plain

if TYPE_CHECKING:
    from md2conf.api_types import ConfluenceAttachment, ConfluencePage
    from md2conf.api_v2 import ConfluenceSessionV2

SETTLING_S = (0.5, 1.0, 2.0, 4.0)
"""Waits until a page that was just written is there for readers."""

PROPERTY = "tipbench"
"""Key of the property with the digests, of pages and of attachments."""

MARK = re.compile(
    r'<ac:structured-macro\b(?=[^>]*\bac:name="anchor")[^>]*>\s*'
    r'<ac:parameter ac:name="">tipbench-(?P<which>begin|end)</ac:parameter>\s*</ac:structured-macro>'
)
MARKED_PARAGRAPH = re.compile(
    rf"<p\b(?P<attributes>[^>]*)>(?P<before>(?:(?!</?p\b).)*?){MARK.pattern}(?P<after>(?:(?!</?p\b).)*?)</p>",
    re.DOTALL,
)


def open_wiki(url: str, secret: Secret) -> Confluence:
    """url: `https://SITE.atlassian.net/wiki?space=KEY`, with `&parent=PAGE_ID` where the tree is to hang below
    another page than the space's home. With a user the token is sent as a password, without one as a bearer.

    Nothing is sent yet. Raises WikiError where the address, the token or the package is of no use.
    """
    try:
        from md2conf.api_v2 import ConfluenceSessionV2
        from md2conf.options_api import ConfluenceSessionOptions
    except ImportError:
        raise WikiError("Confluence needs one more package: pip install 'tipbench[confluence]'") from None
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    host, space, parent = parts.hostname or "", query.get("space", [""])[0], query.get("parent", [""])[0]
    if not re.fullmatch(r"~?[A-Za-z0-9_.:-]+", space):
        raise WikiError(f"no space is named for Confluence at {host}: add ?space=KEY, the key in its pages' addresses")
    if parent and not parent.isdecimal():
        raise WikiError("parent is the number in the parent page's address: .../pages/NUMBER/...")
    if not secret.token:
        raise WikiError(f"no token for {host}: set TIPBENCH_USER (the account's e-mail address) and TIPBENCH_TOKEN")
    if not secret.token.isascii() or not secret.token.isprintable() or " " in secret.token:
        raise WikiError(f"the token for {host} holds a character that no token has: was it copied whole?")
    site = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}/"
    api = ConfluenceSessionV2(
        patient_session(secret),
        options=ConfluenceSessionOptions(),
        api_url=site,
        domain=host,
        base_path="/wiki/",
        space_key=space,
    )
    return Confluence(api, secret, host, space, parent)


def title_of(key: str) -> str:
    """The title of the page with this key: no other page of the space may have it."""
    return key.replace("/", ": ")


class Confluence:
    """A space of a Confluence; see `Wiki`. A page is read before it is rendered: only then can `render` tell that it
    is there already.

    A page with one of our titles that lies elsewhere in the space and has no marks is not ours and is refused; one
    with marks is ours wherever people moved it. A renamed page is no longer ours.
    """

    marks = (f"<p>{storage_text.anchor('tipbench-begin')}</p>", f"<p>{storage_text.anchor('tipbench-end')}</p>")

    def __init__(self, api: ConfluenceSessionV2, secret: Secret, host: str, space: str, parent: str) -> None:
        self._api = api
        self._secret = secret
        self._host = host
        self._space = space
        self._given_parent = parent
        self._standing: dict[Path, tuple[object, str]] = {}  # the property's value, and the region as it was read
        self._ids: dict[Path, str] = {}
        self._attached: dict[Path, dict[str, ConfluenceAttachment]] = {}  # of each page since it was read

    def render(self, page: WikiPage) -> str:
        region = storage_text.render(page.page, title_of)
        vouched, standing = self._standing.get(page.path, (None, ""))
        return standing if vouched == _digests(region, standing) else region

    def read(self, path: Path) -> Stored:
        with self._telling(f"reading the page {_named(path)}"):
            self._standing.pop(path, None)
            self._attached.pop(path, None)
            page = self._find(path)
            return Stored(None) if page is None else Stored(self._as_shown(path, page), str(page.version.number))

    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        """By size and by the digest that was stored when we attached it: a person's replacement of equal size is
        taken for ours."""
        with self._telling(f"looking for {plain(name)} on the page {_named(path)}"):
            page_id = self._id(path)
            if page_id is None:
                return False
            if path not in self._attached:
                self._attached[path] = {one.title: one for one in self._api.get_attachments(page_id)}
            attached = self._attached[path].get(name)
            if attached is None or attached.fileSize != len(content):
                return False
            found = self._api.get_content_property_for_attachment(attached.id, PROPERTY)
            return found is not None and found.value == _digest(content)

    def write(self, changes: Sequence[Change], summary: str) -> None:
        """Confluence has no way to write several pages at once: they are written in turn. What a page hangs below,
        or is attached to, has to be there first: such a page is made with nothing but the marks and filled later.
        """
        bare: dict[Path, int] = {}
        for change in changes:
            with self._telling(f"writing the page {_named(change.path)}"):
                self._write(change, summary, bare)

    def _write(self, change: Change, summary: str, bare: dict[Path, int]) -> None:
        text = "\n".join(self.marks) if change.text is None else change.text
        version = bare.pop(change.path, 0) or int(change.before.revision or 0)
        if not version and not change.images:
            self._vouch(change.path, text, self._make(change.path, text, bare))
            return
        version = version or self._make(change.path, "\n".join(self.marks), bare)
        page_id = self._ids[change.path]
        for name, content in sorted(change.images.items()):
            self._attach(page_id, name, content)
        if change.text is not None:
            self._api.update_page(page_id, text, title=title_of("/".join(change.path)), version=version + 1,
                                  message=summary)  # fmt: skip
            self._vouch(change.path, text, version + 1)

    def _make(self, path: Path, text: str, bare: dict[Path, int]) -> int:
        """The version of a new page. bare: takes up those of the pages above it that had to be made."""
        above = path[:-1]
        if above and self._id(above) is None:
            bare[above] = self._make(above, "\n".join(self.marks), bare)
        title, parent = title_of("/".join(path)), self._ids[above] if above else self._top
        try:
            made = self._api.create_page(title=title, content=text, parent_id=parent, space_id=self._space_id)
        except requests.HTTPError as error:
            if error.response is None or error.response.status_code not in (400, 409):
                raise
            if self._api.page_exists(title, space_id=self._space_id) is not None:
                raise Conflict(f"somebody made the page {_named(path)} meanwhile") from None
            if "already exists" not in error.response.text:
                raise
            raise WikiError(
                f"the space {self._space} has a page {_named(path)} that this account cannot see, or that differs in "
                "capitals only: rename it, or ask for the permission to see it"
            ) from None
        self._ids[path] = made.id
        return self._settled(path, made.version.number).version.number

    def _attach(self, page_id: str, name: str, content: bytes) -> None:
        from md2conf.api_types import ConfluenceContentProperty

        self._api.upload_attachment(page_id, name, raw_data=content, force=True)
        attached = self._api.get_attachment_by_name(page_id, name)
        self._api.update_content_property_for_attachment(
            attached.id, ConfluenceContentProperty(PROPERTY, _digest(content))
        )

    def _settled(self, path: Path, version: int) -> ConfluencePage:
        """The page once it shows what was written, which can take a site some seconds: the proof that it was."""
        for wait_s in (*SETTLING_S, None):
            try:
                page = self._api.get_page(self._ids[path])
                if page.version.number >= version:
                    return page
            except requests.HTTPError as error:
                if error.response is None or error.response.status_code != 404:
                    raise
            if wait_s is not None:
                time.sleep(wait_s)
        raise WikiError(f"{self._host} took the page {_named(path)} but does not show it: look at it there")

    def _vouch(self, path: Path, text: str, version: int) -> None:
        """Remember how Confluence stores what was written as this version, unless somebody wrote on already."""
        from md2conf.api_types import ConfluenceContentProperty

        page = self._settled(path, version)
        written, stored = self._region(path, text), self._region(path, page.content)
        if page.version.number == version and written is not None and stored is not None:
            value = _digests(written[1].strip("\n"), _laid_out(path, stored[1]))
            self._api.update_content_properties_for_page(
                page.id, [ConfluenceContentProperty(PROPERTY, dict(value))], keep_existing=True
            )

    def _find(self, path: Path) -> ConfluencePage | None:
        from md2conf.api_types import ConfluenceStatus

        self._ids.pop(path, None)
        page_id = self._id(path)
        if page_id is None:
            return None
        page = self._api.get_page(page_id)
        if page.status is not ConfluenceStatus.CURRENT:
            raise WikiError(f"the page {_named(path)} of the space {self._space} is {page.status.value}: restore it, "
                            "or rename it")  # fmt: skip
        if not MARK.search(page.content) and page.parentId != self._id_above(path):
            raise WikiError(
                f"the space {self._space} has a page {_named(path)} elsewhere, which tipbench did not write; titles "
                "are unique in a space: rename that page, or publish to another space or below its parent"
            )
        return page

    def _as_shown(self, path: Path, page: ConfluencePage) -> str:
        """The page with plain marks and our region one block a line."""
        parts = self._region(path, page.content)
        if parts is None:
            return _plain_marks(path, page.content)
        region = _laid_out(path, parts[1])
        vouched = self._api.get_content_property_for_page(page.id, PROPERTY)
        self._standing[path] = (vouched.value if vouched is not None else None, region)
        return f"{parts[0]}{self.marks[0]}\n{region}\n{self.marks[1]}{parts[2]}"

    def _region(self, path: Path, text: str) -> tuple[str, str, str] | None:
        """Before, between and after the marks; None where they are not both there."""
        before, begun, rest = _plain_marks(path, text).partition(self.marks[0])
        region, ended, after = rest.partition(self.marks[1])
        return (before, region, after) if begun and ended else None

    def _id(self, path: Path) -> str | None:
        if path not in self._ids:
            found = self._api.page_exists(title_of("/".join(path)), space_id=self._space_id)
            if found is None:
                return None
            self._ids[path] = found
        return self._ids[path]

    def _id_above(self, path: Path) -> str | None:
        return self._id(path[:-1]) if len(path) > 1 else self._top

    @cached_property
    def _space_id(self) -> str:
        try:
            return self._api.space_key_to_id(self._space)
        except RuntimeError:
            raise WikiError(
                f"{self._host} shows no space {self._space}: look at its key, and whether this account may see it "
                "(who is not known by the token is shown nothing)"
            ) from None

    @cached_property
    def _top(self) -> str:
        return self._given_parent or self._api.get_homepage_id(self._space_id)

    @contextmanager
    def _telling(self, doing: str) -> Iterator[None]:
        """Errors of the network, the server and the package as errors for people, without the token.

        The package checks little of what it is answered, so what it stumbles over is no answer of a Confluence.
        """
        try:
            yield
        except WikiError:
            raise
        except requests.HTTPError as error:
            raise self._refusal(error.response, doing) from None
        except requests.JSONDecodeError:
            raise WikiError(f"{self._host} answers {doing} with something that is not Confluence's: a login page, or "
                            "a proxy's? Look at the address in a browser") from None  # fmt: skip
        except requests.RequestException as error:
            cause = getattr(error.args[0], "reason", error) if error.args else error  # without the pool's words
            why = "no answer in time" if isinstance(error, requests.Timeout) else self._secret.hide(plain(str(cause)))
            raise WikiError(f"{self._host} cannot be reached, {doing}: {why}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, ExceptionGroup) as error:
            raise WikiError(f"{self._host} answers {doing} in a form that is not Confluence's: "
                            f"{self._secret.hide(plain(str(error)))}") from None  # fmt: skip

    def _refusal(self, response: requests.Response, doing: str) -> WikiError:
        status, said = response.status_code, self._secret.hide(_said(response))
        remedies = {
            400: "it refuses what was sent",
            401: "it refuses the user or the token; a token can have expired: set TIPBENCH_USER (the account's e-mail "
            "address) and TIPBENCH_TOKEN anew",
            403: f"this account may not do that: ask for the permission to add and edit pages and attachments in the "
            f"space {self._space}, and look whether the page is restricted or the site read-only",
            404: "it, or the parent that was named, is not there, or this account may not see it: Confluence answers "
            "both alike. Only Confluence Cloud (its REST API v2) can be published to",
            409: "somebody wrote meanwhile",
            413: "an image or the page is larger than it takes",
            429: "too many requests; publish again in some minutes",
        }
        why = remedies.get(status, "it failed; publish again later")
        kind = Conflict if status == 409 else WikiError
        return kind(f"{self._host}, {doing}: {why} (HTTP {status}{f': {said}' if said else ''})")


def _plain_marks(path: Path, text: str) -> str:
    """Marks as `Confluence.marks` has them, each on a line of its own, and nothing in code that reads like one.

    What a person typed into a mark's paragraph, which looks empty, comes to stand outside our region.
    """

    def alone(found: re.Match[str]) -> str:
        typed = found["before"] + found["after"]
        paragraph = f"<p{found['attributes']}>{typed}</p>" if typed.strip() else ""
        if found["which"] == "begin":
            return paragraph + Confluence.marks[0]
        return Confluence.marks[1] + paragraph

    shown = MARKED_PARAGRAPH.sub(alone, storage_text.unmarked(text))
    if len(MARK.findall(shown)) != sum(map(shown.count, Confluence.marks)):
        raise WikiError(_MISPLACED.format(_named(path)))
    for mark in Confluence.marks:
        shown = re.sub(rf"\n*{re.escape(mark)}\n*", f"\n{mark}\n", shown)
    return shown.lstrip("\n")


def _laid_out(path: Path, region: str) -> str:
    """One block a line, without what changes whenever anybody saves the page, such as the ids of macros."""
    from md2conf.converter import get_volatile_attributes
    from md2conf.csf import ParseError, elements_from_string, elements_to_string

    try:
        root: Any = elements_from_string(region)
    except ParseError:
        raise WikiError(_MISPLACED.format(_named(path))) from None
    for element in root.iter("*"):
        for name in get_volatile_attributes():
            element.attrib.pop(name, None)
    for block in root:
        block.tail = f"{(block.tail or '').strip()}\n"
    return storage_text.unmarked(elements_to_string(root).strip()) if len(root) or root.text else ""


_MISPLACED = (
    "the anchors tipbench-begin and tipbench-end of the page {} no longer stand in paragraphs beside each other, so "
    "what is ours cannot be distinguished from what is not: put them back, or delete both and what is between them"
)


def _digests(rendered: str, stored: str) -> Mapping[str, str]:
    return {"rendered": _digest(rendered.encode()), "stored": _digest(stored.encode())}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _named(path: Path) -> str:
    return f'"{plain(title_of("/".join(path)))}"'


def _said(response: requests.Response) -> str:
    """What the server gives as its reason, in the forms of the REST APIs v2 and v1; empty for any other."""
    try:
        body = response.json()
        errors = body.get("errors") or [{"title": body.get("message")}]
        return plain("; ".join(str(one["title"]) for one in errors if one.get("title")))
    except (requests.JSONDecodeError, AttributeError, KeyError, TypeError):
        return ""
