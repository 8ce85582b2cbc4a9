"""Requests to a worker, or to the server that forks workers, and their answers, within a deadline.

The other end shares its process with a pair's code, which may write into any descriptor. An answer that is to another
request, too long or incomplete at the deadline is an error; the parent never waits longer.
"""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tipbench.worker.protocol import ANSWER_LIMIT, REQUEST_LIMIT, Unreadable, decode, encode, quoted

Wait = Callable[[socket.socket, float], bool]
"""Sleeps until a socket can be read, at most so many seconds; returns whether it can. May raise Closed."""


class Closed(Exception):
    """The other end has ended or closed the connection."""


class Late(Exception):
    """Nothing was received within the deadline."""


def readable(source: socket.socket, seconds: float) -> bool:
    """Sleep until `source` can be read; False after `seconds`."""
    return bool(select.select([source], [], [], max(0.0, seconds))[0])


class Channel:
    """The parent's end of one connection."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._received = bytearray()
        self._ids: deque[str] = deque()

    def request(self, command: str, arguments: Mapping[str, Any], seconds: float) -> None:
        """Send a request; `answer` waits for its answer. Raises Closed and Late."""
        number = secrets.token_hex(8)
        line = encode({"id": number, "command": command, "arguments": arguments}, REQUEST_LIMIT)
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(line)
        except TimeoutError:
            raise Late from None
        except OSError:
            raise Closed from None
        self._ids.append(number)

    def answer(self, seconds: float, wait: Wait = readable) -> dict[str, Any]:
        """Sleep until the oldest open request is answered: {"answer"}, or {"failed"}, a `Reason` as plain JSON.

        Raises Closed, Late, and Unreadable.
        """
        line = self._line(seconds, wait)
        message = decode(line)
        if message.pop("id", None) != self._ids.popleft() or message.keys() not in ({"answer"}, {"failed"}):
            raise Unreadable(f"{quoted(line)} does not answer the request")
        return message

    def close(self) -> None:
        self._socket.close()

    def _line(self, seconds: float, wait: Wait) -> bytes:
        """The next line, with its end."""
        end = time.monotonic() + seconds
        while not (length := self._received.find(b"\n") + 1):
            if len(self._received) >= ANSWER_LIMIT:
                raise Unreadable(f"it is longer than {ANSWER_LIMIT >> 10} KiB")
            if not wait(self._socket, end - time.monotonic()):
                if self._received:
                    raise Unreadable(f"it began with {quoted(self._received)} and did not end within {seconds:g} s")
                raise Late
            try:
                more = self._socket.recv(1 << 16)
            except OSError:
                more = b""
            if not more:
                raise Closed
            self._received += more
        line = bytes(self._received[:length])
        del self._received[:length]
        return line
