"""Requests and answers between the parent and a worker, whose step may write into any descriptor, or close it."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from tests.tiny import PAIRS, PROFILE, RULES
from tipbench.engine.channel import Channel, Closed, Late
from tipbench.engine.launcher import Launcher
from tipbench.engine.runner import Plan, run
from tipbench.machine.controls import controls
from tipbench.records.record import Record
from tipbench.suite.discover import discover
from tipbench.worker.protocol import ANSWER_LIMIT, Requests, Unreadable, Unsendable

# ---- the two ends ----


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """The parent's end, with one open request, and the socket of the other."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    channel.request("block", {"variant": "baseline", "steps": 3}, 5.0)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_a_request_and_its_answer_arrive_as_they_were_sent(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    requests = Requests(theirs)
    assert requests.receive() == ("block", {"variant": "baseline", "steps": 3})
    requests.reply(answer={"seconds": 0.25})
    assert channel.answer(5.0) == {"answer": {"seconds": 0.25}}
    channel.request("build", {}, 5.0)
    assert requests.receive() == ("build", {})
    requests.reply(failed={"code": "step-raised", "detail": "é\n" * 1000})
    assert channel.answer(5.0) == {"failed": {"code": "step-raised", "detail": "é\n" * 1000}}
    channel.close()
    assert requests.receive() is None
    requests.close()


def test_requests_that_are_open_at_once_are_answered_in_their_order(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    channel.request("warm", {}, 5.0)
    requests = Requests(theirs)
    for _ in range(2):
        received = requests.receive()
        assert received
        requests.reply(answer=received[0])
    assert [channel.answer(5.0)["answer"] for _ in range(2)] == ["block", "warm"]
    requests.close()


def test_an_answer_to_the_request_after_is_none(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    channel.request("warm", {}, 5.0)
    requests = Requests(theirs)
    for _ in range(2):
        requests.receive()
    requests.reply(answer=1)
    with pytest.raises(Unreadable, match="does not answer the request"):
        channel.answer(5.0)
    requests.close()


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"\xff\xfe\x00\n",
        b"null\n",
        b"1e999\n",
        b'{"answer": 1}\n',
        b'{"id": null, "answer": 1}\n',
        b'{"id": ID, "answer": 1, "more": 2}\n',
        b'{"id": ID, "failed": {}, "answer": 1}\n',
        b'{"id": ID}\n',
        b'{"id": ID, "answer": 1\n',
        b"[" * 100_000 + b"\n",
        b"9" * 100_000 + b"\n",
        b"x" * (ANSWER_LIMIT + 1),
    ],
)
def test_what_is_no_answer_is_refused(ends: tuple[Channel, socket.socket], line: bytes) -> None:
    channel, theirs = ends
    number = json.dumps(json.loads(theirs.recv(4096))["id"]).encode()
    sending = threading.Thread(target=theirs.sendall, args=(line.replace(b"ID", number),))
    sending.start()
    with pytest.raises(Unreadable):
        channel.answer(20.0)
    with suppress(OSError):
        theirs.shutdown(socket.SHUT_RDWR)
    sending.join()


def test_silence_ends_with_the_deadline_and_so_does_a_message_without_an_end(
    ends: tuple[Channel, socket.socket],
) -> None:
    channel, theirs = ends
    with pytest.raises(Late):
        channel.answer(0.05)
    channel.request("block", {}, 5.0)
    theirs.sendall(b"\x7f\xff\xff\xff")
    with pytest.raises(Unreadable, match=r"did not end within 0\.05 s"):
        channel.answer(0.05)


def test_a_closed_connection_is_no_answer(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    theirs.sendall(b'{"id": ')
    theirs.close()
    with pytest.raises(Closed):
        channel.answer(5.0)
    with pytest.raises(Closed):
        channel.request("block", {}, 5.0)


def test_a_request_that_nobody_reads_ends_with_the_deadline(ends: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(Late):
        ends[0].request("engaged", {"baseline": "x" * (2 << 20)}, 0.05)


@pytest.mark.parametrize("line", [b'{"seconds": 1}\n', b"garbage\n", b'{"id": 1'])
def test_what_is_no_request_is_refused(line: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(line)
        ours.shutdown(socket.SHUT_WR)
        requests = Requests(theirs)
        with pytest.raises(Unreadable):
            requests.receive()
        requests.close()


def contains_itself() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (object(), "cannot be written as JSON"),
        ({("a", "b"): 1}, "cannot be written as JSON"),
        (contains_itself(), "cannot be written as JSON"),
        ("x" * ANSWER_LIMIT, "takes 1024 KiB"),
    ],
)
def test_an_answer_that_cannot_be_sent_says_what_it_is(answer: Any, what: str) -> None:
    ours, theirs = socket.socketpair()
    requests = Requests(theirs)
    with ours, pytest.raises(Unsendable, match=what):
        requests.reply(answer=answer)
    requests.close()


# ---- steps that disturb it, in real workers ----

UNREADABLE = "unreadable answer"

FAILURES = {
    "WritesALine": (UNREADABLE, "1e-9"),
    "WritesAnAnswer": (UNREADABLE, "0123456789abcdef"),
    "WritesABeginning": (UNREADABLE, "sec"),
    "WritesNoEnd": (UNREADABLE, "did not end within 3 s"),
    "WritesMegabytes": (UNREADABLE, "longer than 1024 KiB"),
    "WritesBrackets": (UNREADABLE, "[[["),
    "Closes": (UNREADABLE, "closed"),
    "ClosesAndWaits": (UNREADABLE, "closed"),
    "ClosesAndOpens": (UNREADABLE, "closed"),
    "ClosesInARank": (UNREADABLE, "closed"),
    "ReturnsMegabytes": ("not storable", "what mechanism returned takes 2048 KiB"),
}
"""Pair -> (kind, part of the reason)."""

HOW = ["spawned", "forked"]


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Record]]:
    """By how its workers are started, every record of a run of all pairs, by the name of its class."""
    pairs = discover(PAIRS / "descriptors", "cpu").pairs

    def measured(how: str) -> dict[str, Record]:
        launcher = Launcher(PAIRS / "descriptors", controls(1))
        launcher._launches_with_server = 6 if how == "forked" else 0
        # Spawned workers import torch each: the good pair has five of them.
        chosen = [info for info in pairs if how == "forked" or info.pair != "Good"]
        try:
            found = run(chosen, launcher.start, Plan(PROFILE, RULES, seed=0, cores=1), lambda what: None)
            return {record.info.pair: record for record in found}
        finally:
            launcher.close()

    before = set(os.listdir("/proc/self/fd"))
    ways = ["spawned", "forked"]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(ways, pool.map(measured, ways), strict=True))
    assert len(os.listdir("/proc/self/fd")) <= len(before) + 1, "a connection was left open"
    return found


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pair", FAILURES)
def test_a_step_that_disturbs_the_connection_fails_by_name(
    records: dict[str, dict[str, Record]], pair: str, how: str
) -> None:
    kind, reason = FAILURES[pair]
    record = records[how][pair]
    assert (record.outcome, record.kind) == ("failed", kind), record.reason
    assert reason in record.reason
    if kind == UNREADABLE:
        assert record.reason.startswith("the worker's answer could not be read: ")


def test_the_run_goes_on_and_measures_the_next_pair(records: dict[str, dict[str, Record]]) -> None:
    assert records["forked"].keys() == {*FAILURES, "Good"}
    assert records["forked"]["Good"].outcome == "measured", records["forked"]["Good"].reason
