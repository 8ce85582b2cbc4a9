"""The token a wiki is written with: where it comes from, and that nothing ever shows it."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from tipbench.publish.wiki import WikiError
from tipbench.tip.wording import plain

SERVICE = "tipbench"
"""The keyring's service; the user name there is the wiki's host: `keyring set tipbench wiki.example.org`."""

HIDDEN = "***"


@dataclass(frozen=True)
class Secret:
    """What a wiki is written with.

    Attributes:
        user: empty where the wiki needs none.
        token: a token or password, empty where there is none.
    """

    user: str
    token: str = field(repr=False)

    @property
    def header(self) -> bytes:
        """`Authorization` in HTTP: of user and password, of a token alone, or empty."""
        return b"Basic " + self._basic if self.user else b"Bearer " + self.token.encode() if self.token else b""

    @property
    def _basic(self) -> bytes:
        return base64.b64encode(f"{self.user}:{self.token}".encode())

    def hide(self, text: str) -> str:
        """The text without the token, however a URL or an Authorization header would spell it: servers and
        libraries quote requests in their errors."""
        if not self.token:
            return text
        for spelt in (
            self._basic.decode(),
            quote(self.token, safe=""),
            quote_plus(self.token),
            quote(self.token),
            self.token,
        ):
            text = text.replace(spelt, HIDDEN)
        return text


def find(host: str, user: str = "") -> Secret:
    """The token for a host (`name` or `name:port`): TIPBENCH_TOKEN, else the keyring's, else none.

    user: the one that the target names; else TIPBENCH_USER. Raises WikiError where one of them cannot be sent, or the
    keyring fails.
    """
    user = user or os.environ.get("TIPBENCH_USER", "")
    token = os.environ.get("TIPBENCH_TOKEN", "").strip() or _from_keyring(host)
    # A line break would begin another header, or another line of what git asks for; libraries repeat it in errors.
    for what, text in (
        ("the user, of --to or TIPBENCH_USER,", user),
        ("the token, of TIPBENCH_TOKEN or the keyring,", token),
    ):
        if not text.isprintable():
            raise WikiError(f"{what} holds a line break or another control character: set it anew")
    return Secret(user, token)


def _from_keyring(host: str) -> str:
    # Slow to import, and needed only where the environment tells nothing. The first use loads what the settings name.
    import keyring
    from keyring.errors import KeyringError

    try:
        return keyring.get_password(SERVICE, host) or ""
    except KeyringError:  # none is installed or unlocked here, as on most servers: then there is no token
        return ""
    except Exception as error:  # of whatever program a person's settings name as their keyring
        raise WikiError(
            f"the keyring cannot be read ({type(error).__name__}: {plain(str(error))}): set TIPBENCH_TOKEN, or "
            f"PYTHON_KEYRING_BACKEND=keyring.backends.null.Keyring to go on without one"
        ) from None
