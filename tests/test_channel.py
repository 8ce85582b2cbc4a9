"""Requests and answers between the parent and a worker; a step that closes the connection is in `test_bad_luck.py`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tipbench.worker.protocol import ANSWER_LIMIT, Channel, Unreadable, Unsendable, readable


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel, and the socket of the other end."""
    ours, theirs = socket.socketpair()
    yield Channel(ours), theirs
    ours.close()
    theirs.close()


def test_messages_arrive_as_they_were_sent_and_in_their_order(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends[0], Channel(ends[1])
    messages: list[dict[str, Any]] = [
        {"command": "block", "arguments": {"steps": 3}},
        {"failed": {"detail": "é\n" * 1000}},
    ]
    for message in messages:
        channel.send(message, 5.0)
    assert [other.receive(), other.receive(5.0, readable)] == messages
    other.close()
    with pytest.raises(EOFError):
        channel.receive(5.0, readable)


def test_silence_ends_with_the_deadline_as_does_a_message_without_end(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    with pytest.raises(TimeoutError):
        channel.receive(0.05, readable)
    theirs.sendall(b'{"answer": ')
    with pytest.raises(Unreadable, match=r"did not end within 0\.05 s"):
        channel.receive(0.05, readable)


def test_what_is_no_message_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    ends[1].sendall(b"a library's own words\n")
    with pytest.raises(Unreadable, match="is no message"):
        ends[0].receive(5.0, readable)


def test_what_nobody_reads_ends_with_the_deadline(ends: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(TimeoutError):
        ends[0].send({"answer": "x" * (2 << 20)}, 0.05)


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (object(), "cannot be written as JSON"),
        ({("a", "b"): 1}, "cannot be written as JSON"),
        ("x" * ANSWER_LIMIT, "takes 1024 KiB"),
    ],
)
def test_an_unsendable_answer_says_what_it_is(ends: tuple[Channel, socket.socket], answer: Any, what: str) -> None:
    with pytest.raises(Unsendable, match=what):
        ends[0].send({"answer": answer}, limit=ANSWER_LIMIT)
