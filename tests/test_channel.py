"""Requests and answers between the parent and a worker, whose step may close any descriptor."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tiny import LIMITS, PAIRS, RULES
from tipbench.engine.launcher import Launcher
from tipbench.engine.plan import Plan
from tipbench.engine.runner import run
from tipbench.machine.controls import controls
from tipbench.records.record import Record
from tipbench.suite.discover import discover
from tipbench.worker.protocol import ANSWER_LIMIT, Channel, Unreadable, Unsendable, readable

# ---- the two ends ----


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


def test_silence_ends_with_the_deadline_and_so_does_a_message_without_an_end(
    ends: tuple[Channel, socket.socket],
) -> None:
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
def test_an_answer_that_cannot_be_sent_says_what_it_is(
    ends: tuple[Channel, socket.socket], answer: Any, what: str
) -> None:
    with pytest.raises(Unsendable, match=what):
        ends[0].send({"answer": answer}, limit=ANSWER_LIMIT)


# ---- steps that disturb it, in real workers ----

FAILURES = {
    "Closes": ("unreadable answer", "the worker's answer could not be read: its connection was closed"),
    "ClosesInARank": ("unreadable answer", "the worker's answer could not be read: its connection was closed"),
    "ReturnsMegabytes": ("not storable", "what mechanism returned takes 2048 KiB"),
}
"""Pair -> (kind, beginning of the reason)."""


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    """By the name of its class, the record of each pair in one run."""
    launcher = Launcher(PAIRS / "descriptors", controls(1))
    before = set(os.listdir("/proc/self/fd"))
    plan = Plan(LIMITS, RULES, seed=0, cores=1)
    try:
        found = run(discover(PAIRS / "descriptors", "cpu").pairs, launcher.start, plan, lambda what: None)
        records = {record.info.pair: record for record in found}
    finally:
        launcher.close()
    assert len(os.listdir("/proc/self/fd")) <= len(before) + 1, "a connection was left open"
    return records


@pytest.mark.parametrize("pair", FAILURES)
def test_a_step_that_disturbs_the_connection_fails_by_name(records: dict[str, Record], pair: str) -> None:
    kind, reason = FAILURES[pair]
    record = records[pair]
    assert (record.outcome, record.kind) == ("failed", kind), record.reason
    assert record.reason.removeprefix("optimized: ").startswith(reason)


def test_the_run_goes_on_and_measures_the_next_pair(records: dict[str, Record]) -> None:
    assert records.keys() == {*FAILURES, "Good"}
    assert records["Good"].outcome == "measured", records["Good"].reason
