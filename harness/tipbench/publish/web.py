"""What wikis over HTTP share: a session that sends its token nowhere else, and what is said when a request fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import requests

from tipbench.publish.wiki import WikiError
from tipbench.tip.wording import plain

TIMEOUT_S = 60.0
"""Without a byte from the server."""

REMEDIES = {
    401: "it refuses the user or the token, which may have expired: set TIPBENCH_USER and TIPBENCH_TOKEN anew",
    403: "the user may not do that there, or the wiki is read-only: ask for the right to edit pages and add files",
    404: "it is not there, or this user may not see it: check the address",
    409: "somebody changed it meanwhile: publish again",
    413: "a file or the page is larger than it takes",
    429: "too many requests: publish again in some minutes",
}
"""By the status of HTTP, what it means for a person."""


@dataclass(frozen=True)
class Login:
    """Who writes to a wiki over HTTP; both are empty for a stranger. token: or a password."""

    user: str = ""
    token: str = field(default="", repr=False)


def session(login: Login) -> requests.Session:
    """One that follows no redirect: a form with a password would be sent on."""
    made = requests.Session()
    made.max_redirects = 0
    made.headers["User-Agent"] = "tipbench"
    if login.token:
        made.auth = (login.user.encode(), login.token.encode())  # type: ignore[assignment]  # bytes, for any character
    return made


@contextmanager
def explain_errors(where: str) -> Iterator[None]:
    """Errors of requests hold addresses and headers: none is chained to what is raised instead."""
    try:
        yield
    except requests.TooManyRedirects as error:
        to = error.response.headers.get("Location", "another address") if error.response is not None else ""
        why = f"it sends on to {to.partition('?')[0]}: publish to that address"
    except requests.exceptions.SSLError:
        why = "its certificate is not trusted here (REQUESTS_CA_BUNDLE names another file of roots)"
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        why = f"{REMEDIES.get(status, 'its server failed; publish again later')} (HTTP {status})"
    except (requests.ConnectionError, requests.Timeout):
        why = "nothing answers there; is the address right, is it up?"
    except requests.RequestException as error:  # of a body that is no JSON too
        why = f"it does not answer as such a wiki ({type(error).__name__}): a login page, or a proxy's?"
    else:
        return
    raise WikiError(plain(f"{where}: {why}")) from None


def folder(url: str) -> str:
    """The address of a wiki's folder, with a slash at its end, also from the address of one of its programs."""
    return re.sub(r"/(?:api|doku|index)\.php.*$", "/", url).rstrip("/") + "/"
