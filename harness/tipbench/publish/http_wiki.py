"""What all wikis over HTTP have in common: how requests are sent, what is said when one fails, unique names, and the
order in which a publication is written."""

from __future__ import annotations

import base64
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Change, Conflict, Path, Stored, WikiError, WikiPage
from tipbench.report.markup import Markup
from tipbench.report.wording import plain

TIMEOUT_S = 60.0
"""Without a byte from the server."""

WAITS_S = (5.0, 20.0, 40.0)
"""Before what came too fast is tried again, where the server names no time; usual limits count a minute's requests."""

LONGEST_WAIT_S = 40.0
"""Between two tries, whatever the server names."""

REFUSALS = {
    400: "it refuses what was sent",
    401: "it refuses the user or the token, which may have expired: set TIPBENCH_USER and TIPBENCH_TOKEN anew",
    403: "the user may not do that there, or the wiki is read-only: ask for the right to edit pages and add files",
    404: "it, or what it was to hang below, is not there, or this user may not see it",
    409: "somebody wrote meanwhile",
    413: "an image or the page is larger than it takes",
    429: "too many requests: publish again in some minutes",
}
"""By the status of HTTP, what it means for a person; any other has failed."""


class HttpWiki(ABC):
    """Implements `tipbench.publish.wiki.Wiki` but for what its methods without a body say. Not to be shared between
    threads.

    kind: what the wiki is called. help: what its address should be. markup: what its pages are written in.
    """

    kind: ClassVar[str]
    help: ClassVar[str]
    markup: ClassVar[type[Markup]]
    marks: tuple[str, str]

    def __init__(self, url: str, secret: Secret) -> None:
        """url: what all addresses of the wiki's interface begin with. With a user the token is sent as a password,
        without one as a bearer token; without a token nothing is. Raises WikiError where the token cannot be one."""
        self._url = f"{url.rstrip('/')}/"
        self._secret = secret
        self._meant: dict[str, object] = {}
        if not secret.token.isprintable():
            raise self._error(f"the token for {self._url} holds a character that no token has: was it copied whole?")
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "tipbench"
        self._session.auth = _Authorization(self._authorization())

    def _authorization(self) -> str:
        """The header of this name; empty for none."""
        if self._secret.user:
            return f"Basic {base64.b64encode(f'{self._secret.user}:{self._secret.token}'.encode()).decode()}"
        return f"Bearer {self._secret.token}" if self._secret.token else ""

    def render(self, page: WikiPage) -> str:
        def image(name: str) -> tuple[str, int]:
            png = f"{name}.png"
            return self._file(page.path, png), shown_width(page.images.get(png, b""))

        return self.markup(self._place, image if self._takes_files(page.path) else None).page(page.page)

    @abstractmethod
    def read(self, path: Path) -> Stored:
        """See `Wiki`."""

    @abstractmethod
    def has_image(self, path: Path, name: str, content: bytes) -> bool:
        """See `Wiki`. True also where the wiki takes no files: then the page describes figures in words."""

    def write(self, changes: Sequence[Change], summary: str) -> None:
        with self._ready(changes):
            for change in changes:
                for name, content in change.images.items():
                    if not self.has_image(change.path, name, content):
                        self._upload(change.path, name, content, summary)
            for change in changes:
                if change.text is not None:
                    self._edit(change, change.text, summary)

    @abstractmethod
    def _ready(self, changes: Sequence[Change]) -> AbstractContextManager[None]:
        """All is made ready for writing these, and it was seen that they can be written: what can be known beforehand
        leaves nothing half-published. Raises Conflict, WikiError."""

    @abstractmethod
    def _upload(self, path: Path, name: str, content: bytes, summary: str) -> None: ...

    @abstractmethod
    def _edit(self, change: Change, text: str, summary: str) -> None: ...

    @abstractmethod
    def _takes_files(self, path: Path) -> bool: ...

    def _expect_as_read(self, change: Change) -> None:
        if self.read(change.path) != change.before:
            raise Conflict(f"{self._page(change.path)} was changed by somebody meanwhile")

    # ---- names ----

    @abstractmethod
    def _title(self, path: Path) -> str:
        """What the wiki calls the page, of characters that it leaves alone."""

    @abstractmethod
    def _file_title(self, path: Path, name: str) -> str:
        """The same of an image of the page."""

    def _name(self, path: Path) -> str:
        return self._unique(self._title(path), path)

    def _file(self, path: Path, name: str) -> str:
        return self._unique(self._file_title(path, name), (path, name))

    def _place(self, key: str) -> str:
        return self._name(tuple(key.split("/")))

    def _page(self, path: Path) -> str:
        """What errors call the page."""
        return f"page {self._name(path)} on {self._url}"

    def _unique(self, name: str, meant: object) -> str:
        """Raises WikiError where the name already means another thing: what makes it safe makes some alike."""
        if self._meant.setdefault(name, meant) != meant:
            raise self._error(
                f"two different things would both be named {name} on {self._url}: publish one of them with another "
                "--public-name"
            )
        return name

    # ---- requests ----

    def _send(self, what: str, method: str, path: str, **more: Any) -> requests.Response:
        """The answer, which may be a refusal; too many requests are waited for. what: what errors begin with.

        Raises WikiError where none comes, and where it sends on to another address: a POST would arrive there as a
        GET, and the token might go elsewhere than it was meant for. Errors of requests hold the token: none is chained.
        """
        for wait_s in (*WAITS_S, None):
            try:
                response = self._session.request(
                    method, self._url + path, timeout=TIMEOUT_S, allow_redirects=False, **more
                )
            except requests.exceptions.SSLError:
                why = "its certificate is not trusted here (REQUESTS_CA_BUNDLE names another file of roots)"
                break
            except requests.Timeout:
                why = f"no answer within {TIMEOUT_S:.0f} s; publish again later"
                break
            except requests.RequestException:
                why = f"nothing answers at {urlsplit(self._url).netloc}; is the address right, is it up?"
                break
            if response.is_redirect:
                to = response.headers["Location"].partition("?")[0]
                raise self._error(f"{self._url} sends on to {to}: publish to that address; {self.help}")
            if response.status_code != 429 or wait_s is None:
                return response
            self._wait(response, wait_s)
        raise self._error(f"{what}: {why}")

    def _wait(self, response: requests.Response, otherwise_s: float) -> None:
        """As long as the server names, within limits."""
        named = response.headers.get("Retry-After", "")
        time.sleep(min(float(named) if named.isdecimal() else otherwise_s, LONGEST_WAIT_S))

    def _json(self, what: str, method: str, path: str, **more: Any) -> Any:
        """Raises Conflict, WikiError."""
        response = self._send(what, method, path, **more)
        if not response.ok:
            raise self._refusal(what, response, self._said(response))
        return self._parsed(response)

    def _parsed(self, response: requests.Response) -> Any:
        try:
            return response.json()
        except requests.JSONDecodeError:
            raise self._not_one() from None

    def _said(self, response: requests.Response) -> str:
        """What the wiki gives as its reason for a refusal; empty for none."""
        return ""

    def _refusal(self, what: str, response: requests.Response, said: str = "") -> WikiError:
        status = response.status_code
        why = REFUSALS.get(status, "its server failed; publish again later")
        why += f"; {self.help}" if status == 404 else ""
        kind = Conflict if status == 409 else WikiError
        return self._error(f"{what}: {why} (HTTP {status}{f': {plain(said)}' if said else ''})", kind)

    def _within(self, answer: Any, *way: str | int) -> Any:
        """What an answer holds there. Raises WikiError where it holds nothing: then it is no answer of such a wiki."""
        try:
            for step in way:
                answer = answer[step]
        except (LookupError, TypeError):
            raise self._not_one() from None
        return answer

    def _not_one(self) -> WikiError:
        return self._error(f"{self._url} answers, but not as a {self.kind}: a login page, or a proxy's? {self.help}")

    def _error(self, why: str, kind: type[WikiError] = WikiError) -> WikiError:
        return kind(plain(self._secret.hide(why)))


class _Authorization(AuthBase):
    """As `auth` of a session, so that a person's .netrc puts no other in its place."""

    def __init__(self, header: str) -> None:
        self._header = header.encode()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._header:
            request.headers["Authorization"] = self._header  # type: ignore[assignment]  # bytes, for any character
        return request


def shown_width(png: bytes) -> int:
    """How wide a figure is to be shown, in dots; 0 where the file does not say. Its header comes first in a PNG.

    Figures are drawn for dense screens: tipbench.report.figures has 192 pixels an inch, browsers have 96 dots."""
    is_png = png.startswith(b"\x89PNG\r\n\x1a\n") and png[12:16] == b"IHDR"
    return int.from_bytes(png[16:20]) // 2 if is_png else 0
