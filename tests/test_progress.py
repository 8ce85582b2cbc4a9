"""What is on the screen: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from tipbench.engine import progress as progressing
from tipbench.engine.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO) -> str:
    """What a terminal shows after all that was written: a carriage return starts the line anew."""
    return "\n".join(line.rpartition("\r\x1b[K")[2] for line in stream.getvalue().split("\n"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Its time moves when a test says so."""
    made = SimpleNamespace(now=1000.0)
    made.monotonic = lambda: made.now
    monkeypatch.setattr(progressing, "time", made)
    monkeypatch.setenv("COLUMNS", "200")
    return made


def test_elsewhere_than_on_a_terminal_only_what_is_found_is_a_line() -> None:
    stream = io.StringIO()
    progress = Progress(4, stream=stream)
    progress.show("checking 4 pairs")
    assert stream.getvalue() == ""
    progress.say("made-up.First: inconclusive 1.5x")
    progress.done("made-up.First: faster 1.5x")
    progress.done("made-up.Second: skipped")
    assert stream.getvalue().splitlines() == [
        "made-up.First: inconclusive 1.5x",
        "[1/4] made-up.First: faster 1.5x",
        "[2/4] made-up.Second: skipped",
    ]


def test_a_terminal_shows_what_is_being_done_how_many_are_answered_and_the_time_left(clock: SimpleNamespace) -> None:
    stream = Terminal()
    progress = Progress(4, 600.0, stream)
    clock.now += 15.0
    progress.show("made-up.Second: launch")
    assert shown(stream) == "[0/4, 9:45 left] made-up.Second: launch"
    progress.answer("use it: Do so")
    assert shown(stream) == "0:15 of 10:00  use it: Do so\n"
    stream = progress.stream = Terminal()
    progress.done("made-up.Second: faster")
    assert shown(stream) == "[1/4] made-up.Second: faster\n", "the live line gives way"
    clock.now += 700.0
    progress.show("made-up.First: launch")
    assert shown(stream).endswith("\n[1/4, 0:00 left] made-up.First: launch"), "what was begun ends"


def test_without_a_budget_no_time_is_left_to_tell(clock: SimpleNamespace) -> None:
    stream = Terminal()
    Progress(4, stream=stream).show("checking 4 pairs")
    assert shown(stream) == "[0/4] checking 4 pairs"


def test_the_live_line_never_wraps(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    Progress(4, 600.0, stream).show("a thing with a very long name")
    assert len(shown(stream)) == 29
