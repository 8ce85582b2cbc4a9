"""What wikis over HTTP share: a session that sends its token nowhere else, and what is said when a request fails."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from tipbench.publish.secret import Secret
from tipbench.publish.wiki import WikiError
from tipbench.tip.wording import plain

LOOPBACK = ("localhost", "127.0.0.1", "::1")

TIMEOUT_S = 60.0
"""Without a byte from the server."""

REMEDIES = {
    401: "it refuses the user or the token, which may have expired: set TIPBENCH_USER and TIPBENCH_TOKEN anew",
    403: "the user may not do that there, or the wiki is read-only: ask for the right to edit pages and add files",
    404: "it is not there, or this user may not see it: check the address",
    413: "a file or the page is larger than it takes",
    429: "too many requests: publish again in some minutes",
}
"""By the status of HTTP, what it means for a person."""


OF_ANOTHER_FORM = (LookupError, TypeError, ValueError, AttributeError)
"""What is raised where an answer is JSON or XML, and not what such a wiki answers."""


class Authorization(AuthBase):
    """The header of this name, or none: a person's .netrc puts no other in its place."""

    def __init__(self, header: bytes = b"") -> None:
        self._header = header

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._header:
            request.headers["Authorization"] = self._header  # type: ignore[assignment]  # bytes, for any character
        return request


def session(url: str, authorization: bytes = b"") -> requests.Session:
    """One that follows no redirect: the libraries would send the token on. url: of the wiki."""
    made = requests.Session()
    made.max_redirects = 0
    made.headers["User-Agent"] = "tipbench"
    made.auth = Authorization(authorization)
    # A token goes over plain HTTP to this machine alone, so to no proxy that the environment names.
    made.trust_env = not (url.startswith("http:") and is_on_this_machine(url))
    made.hooks["response"].append(_impatient)
    return made


def _impatient(response: requests.Response, **_: object) -> None:
    """Libraries wait as long as a server says, which may be for days."""
    response.headers["Retry-After"] = "0"


def is_on_this_machine(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK


@contextmanager
def explained(url: str, secret: Secret) -> Iterator[None]:
    """Errors of requests hold addresses, headers and tokens: none is chained to what is raised instead."""
    try:
        yield
    except requests.TooManyRedirects as error:
        to = error.response.headers.get("Location", "another address") if error.response is not None else ""
        why = f"it sends on to {to.partition('?')[0]}: publish to that address"
    except requests.exceptions.SSLError:
        why = "its certificate is not trusted here (REQUESTS_CA_BUNDLE names another file of roots)"
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        why = f"{REMEDIES.get(status, 'its server failed; publish again later')} (HTTP {status or error})"
    except requests.Timeout:
        why = f"no answer within {TIMEOUT_S:.0f} s; publish again later"
    except requests.ConnectionError:
        why = "nothing answers there; is the address right, is it up?"
    except requests.RequestException as error:  # of a body that is no JSON too
        why = f"it does not answer as such a wiki ({type(error).__name__}): a login page, or a proxy's?"
    else:
        return
    raise WikiError(plain(secret.hide(f"{url}: {why}"))) from None


def folder(url: str) -> str:
    """The address of a wiki's folder, with a slash at its end, also from the address of one of its programs."""
    return re.sub(r"/(?:api|doku|index)\.php.*$", "/", url).rstrip("/") + "/"


def safe(part: str) -> str:
    """Part of a page's or a file's name: no character that is markup, or that a wiki would change."""
    return re.sub(r"[^\w.()+-]+", "-", unicodedata.normalize("NFC", plain(part))).strip("._") or "unnamed"
