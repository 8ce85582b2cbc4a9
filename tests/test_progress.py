"""What is on the screen: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from tests.made_up import NO_GPU, info
from tipbench.engine.progress import Progress

PAIRS = [info("First"), info("Second", scale="macro"), info("Third", why=NO_GPU), info("Fourth")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO) -> str:
    """What a terminal shows after all that was written: a carriage return starts the line anew."""
    return "\n".join(line.rpartition("\r\x1b[K")[2] for line in stream.getvalue().split("\n"))


def test_elsewhere_than_on_a_terminal_only_finished_pairs_are_lines() -> None:
    stream = io.StringIO()
    progress = Progress(PAIRS, stream)
    progress.show(0, "check")
    assert stream.getvalue() == ""
    progress.done(0, "made-up.First: faster 1.5x", 10.0, measured=True)
    assert stream.getvalue() == "[1/4] made-up.First: faster 1.5x\n"


def test_a_terminal_shows_what_is_being_done_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    progress = Progress(PAIRS, stream)
    progress.show(1, "launch 3")
    # One macro pair and the fourth, micro: the third is skipped and takes no time.
    assert shown(stream) == "[2/4] made-up.Second: launch 3, about 2 min 10 s left"
    progress.done(1, "made-up.Second: faster", 10.0, measured=True)
    assert shown(stream) == "[2/4] made-up.Second: faster\n", "the live line gives way"
    monkeypatch.setenv("COLUMNS", "30")
    progress.show(3, "a thing with a very long name")
    assert len(shown(stream).splitlines()[-1]) == 29, "and never wraps"


def test_guesses_are_replaced_by_what_pairs_of_the_scale_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    progress = Progress(PAIRS, stream)
    progress.done(0, "", 10.0, measured=True)
    progress.done(1, "", 20.0, measured=False)  # failed: says nothing about how long a macro pair takes
    progress.show(1, "check")
    assert shown(stream).endswith("about 1 min 50 s left")
