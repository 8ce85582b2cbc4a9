"""What the parent and its workers agree on: the only module of this room that `engine` may import.

A message is one line of JSON on a Unix socket. A request is {"id", "command", "arguments"}. Its answer is
{"id", "answer"} or {"id", "failed"}, a `Reason` as plain JSON. Ids are random: the pair runs in the same process as
the worker's end, so anything may be written into its descriptor, and only the worker knows what the next answer must
begin with.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Mapping
from typing import Any

OUTPUT_LIMIT = 16 << 20
"""Bytes a worker may print before it is a failure; a flood would fill the disk."""

STACK_SIGNAL = signal.SIGUSR1
"""The signal at which a worker prints the stack of each of its threads."""

ANSWER_LIMIT = 1 << 20
"""Bytes of an answer: thousands of times the longest of the guides' pairs."""

REQUEST_LIMIT = 4 * ANSWER_LIMIT
"""Bytes of a request, which may hold two answers."""

CONNECTION_LOST = 74
"""Exit code of a worker that can no longer read requests or send answers (EX_IOERR of sysexits.h)."""

COMMANDS = (
    "build",
    "warm",
    "block",
    "observe",
    "work",
    "engaged",
    "results",
    "compare",
    "measure_memory",
    "job_card",
    "trained",
)

FIELDS = {"id", "command", "arguments"}


class Unreadable(Exception):
    """What was received is no message of the other end; the text says why."""


class Unsendable(Exception):
    """What is to be sent cannot be written as JSON, or is too long; the text says which."""


def encode(message: Mapping[str, Any], limit: int) -> bytes:
    """The line that is sent. Raises Unsendable."""
    try:
        line = json.dumps(message).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise Unsendable(f"cannot be written as JSON: {error}") from None
    if len(line) > limit:
        raise Unsendable(f"takes {len(line) >> 10} KiB as JSON, above the limit of {limit >> 10}")
    return line


def decode(line: bytes) -> dict[str, Any]:
    """The message of a line. Raises Unreadable."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise Unreadable(f"{quoted(line)} is no message")
    return message


def quoted(line: bytes | bytearray) -> str:
    """The beginning of a line, printable."""
    return repr(bytes(line[:60]))[1:]


class Requests:
    """The end of the process that answers: a worker's, or that of the server which forks workers."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._lines = connected.makefile("rb")
        self._id: Any = None

    def receive(self) -> tuple[str, dict[str, Any]] | None:
        """Wait for the next request: (command, arguments); None once the other end is closed.

        Raises Unreadable, and OSError where the descriptor was closed or replaced.
        """
        line = self._lines.readline(REQUEST_LIMIT)
        if not line:
            return None
        message = decode(line)
        if message.keys() != FIELDS:
            raise Unreadable(f"{quoted(line)} is no request")
        self._id = message["id"]
        return message["command"], message["arguments"]

    def reply(self, **answer: Any) -> None:
        """Answer the request received last: `answer`, or `failed`. Raises Unsendable and OSError."""
        self._socket.sendall(encode({"id": self._id, **answer}, ANSWER_LIMIT))

    def close(self) -> None:
        self._lines.close()
        self._socket.close()
