"""What the parent and its workers agree on: the only module of this room that `engine` may import.

A message is one line of JSON on a Unix socket. A request is {"id", "command", "arguments"}. Its answer is
{"id", "answer"} or {"id", "failed"}, a `Reason` as plain JSON. Ids are random: the pair runs in the worker's process
and may write anything into its descriptor, but only the worker knows the id of the next answer.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Mapping
from typing import Any

EXIT_CODES = "exit-codes.json"
"""Name of the file in which torchrun leaves the exit codes of ranks that have failed."""

OUTPUT_LIMIT = 16 << 20
"""Bytes that a worker may print; with more it fails, as they would fill the disk."""

STACK_SIGNAL = signal.SIGUSR1
"""The signal at which a worker prints the stack of each of its threads."""

ANSWER_LIMIT = 1 << 20
"""Bytes that an answer may have: thousands of times the longest answer of the guides' pairs."""

REQUEST_LIMIT = 4 * ANSWER_LIMIT
"""Bytes that a request, which may hold two answers, may have."""

CONNECTION_LOST = 74
"""Exit code of a worker that can no longer read requests or send answers (EX_IOERR of sysexits.h)."""

COMMANDS = (
    "build",
    "warm",
    "block",
    "stretch",
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
    """What was received is no valid message; the text says why."""


class Unsendable(Exception):
    """What is to be sent cannot be written as JSON, or is too long; the text says which."""


def encode(message: Mapping[str, Any], limit: int) -> bytes:
    """The line to send. Raises Unsendable."""
    try:
        line = json.dumps(message).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise Unsendable(f"cannot be written as JSON: {error}") from None
    if len(line) > limit:
        raise Unsendable(f"takes {len(line) >> 10} KiB as JSON, above the limit of {limit >> 10}")
    return line


def decode(line: bytes) -> dict[str, Any]:
    """The message in a line. Raises Unreadable."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise Unreadable(f"{quoted(line)} is no message")
    return message


def quoted(line: bytes | bytearray) -> str:
    """The beginning of a line, in a printable form."""
    return repr(bytes(line[:60]))[1:]


class Requests:
    """The answering end of a connection: in a worker or in the fork server."""

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
        """Answer the latest request, with `answer` or `failed`. Raises Unsendable and OSError."""
        self._socket.sendall(encode({"id": self._id, **answer}, ANSWER_LIMIT))

    def close(self) -> None:
        self._lines.close()
        self._socket.close()
