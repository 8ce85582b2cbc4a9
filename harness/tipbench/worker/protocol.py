"""What the parent and its workers agree on: the only module of this room that `engine` may import.

A message is one line of JSON on a Unix socket. A request is {"command", "arguments"}, its answer {"answer"} or
{"failed"}, a `Reason` as plain JSON. Requests are answered in their order.
"""

from __future__ import annotations

import json
import math
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

EXIT_CODES_FILE = "exit-codes.json"
"""Name of the file in which torchrun leaves the exit codes of ranks that have failed."""

OUTPUT_LIMIT = 16 << 20
"""Bytes that a worker may print; with more it fails, as they would fill the disk."""

STACK_SIGNAL = signal.SIGUSR1
"""The signal at which a worker prints the stack of each of its threads."""

ANSWER_LIMIT = 1 << 20
"""Bytes that an answer may have: thousands of times the longest answer of the guides' pairs."""

CONNECTION_LOST = 74
"""Exit code of a worker that can no longer read requests or send answers (EX_IOERR of sysexits.h)."""


class Unreadable(Exception):
    """What was received is no message; the text says why."""


class Unsendable(Exception):
    """What is to be sent cannot be written as JSON, or is too long; the text says which."""


def readable(source: socket.socket, seconds: float) -> bool:
    """Sleep until `source` can be read; False after `seconds`."""
    return bool(select.select([source], [], [], max(0.0, seconds))[0])


class Channel:
    """One end of a connection: the parent's, a worker's, or the fork server's."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._received = b""

    def send(self, message: Mapping[str, Any], seconds: float | None = None, limit: float = math.inf) -> None:
        """Send a message of at most `limit` bytes. Raises Unsendable, TimeoutError after so many seconds, and OSError
        once the other end has closed the connection, or this one's descriptor was closed or replaced."""
        try:
            line = json.dumps(message).encode() + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise Unsendable(f"cannot be written as JSON: {error}") from None
        if len(line) > limit:
            raise Unsendable(f"takes {len(line) >> 10} KiB as JSON, above the limit of {int(limit) >> 10}")
        self._socket.settimeout(seconds)
        self._socket.sendall(line)

    def receive(
        self, seconds: float = math.inf, wait: Callable[[socket.socket, float], bool] = lambda *_: True
    ) -> dict[str, Any]:
        """The next message. wait: sleeps until a socket can be read, at most so many seconds, and says whether it can.

        Raises EOFError once the other end has closed the connection, TimeoutError if nothing comes, Unreadable, and
        OSError as `send` does.
        """
        end = time.monotonic() + seconds
        while b"\n" not in self._received:
            if not wait(self._socket, end - time.monotonic()):
                if self._received:
                    raise Unreadable(f"it began with {self._received[:60]!r} and did not end within {seconds:g} s")
                raise TimeoutError
            more = self._socket.recv(1 << 16)
            if not more:
                raise EOFError
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        try:
            return dict(json.loads(line))
        except (TypeError, ValueError):
            raise Unreadable(f"{line[:60]!r} is no message") from None

    def close(self) -> None:
        self._socket.close()
