"""An HTTP session that has a timeout and waits, within limits, where a server asks it to come back later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3 import Retry

from tipbench.publish.secret import Secret

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

TIMEOUT_S = 60.0
"""Without a byte from the server."""

TRIES = 4
LONGEST_WAIT_S = 30.0
"""Between two tries, whatever the server asks for."""


def patient_session(secret: Secret) -> requests.Session:
    """With a user the token is sent as a password, without one as a bearer token."""
    session = requests.Session()
    session.auth = HTTPBasicAuth(secret.user.encode(), secret.token.encode()) if secret.user else _Bearer(secret.token)
    for scheme in ("https://", "http://"):
        session.mount(scheme, _Patient())
    return session


class _Bearer(AuthBase):
    """As `auth` of a session, so that a .netrc does not put another in its place."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _Bounded(Retry):
    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        wait = super().get_retry_after(response)
        return None if wait is None else min(wait, LONGEST_WAIT_S)


class _Patient(HTTPAdapter):
    """Waits and asks again where there were too many requests; otherwise a refusal is one."""

    def __init__(self) -> None:
        super().__init__(
            max_retries=_Bounded(
                TRIES - 1, connect=0, read=False, status_forcelist=(429,), allowed_methods=None, backoff_factor=1,
                raise_on_status=False,
            )
        )  # fmt: skip

    def send(
        self, request: requests.PreparedRequest, stream: bool = False, timeout: Any = None, *args: Any, **kwargs: Any
    ) -> requests.Response:
        return super().send(request, stream, timeout or TIMEOUT_S, *args, **kwargs)
