"""What a person sees during a run: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import shutil
import sys
import time
from typing import TextIO

from tipbench.tip.wording import lines_of


class Progress:
    """Draws only when it is called, which happens only between blocks and launches.

    Attributes:
        pairs: number of pairs to be measured.
        stream: where it prints.
        live: whether the stream is a terminal.
        answered: number of pairs with an answer so far.
        budget_s: after so many seconds the time is up.
    """

    def __init__(self, pairs: int, budget_s: float = math.inf, stream: TextIO | None = None) -> None:
        self.pairs = pairs
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.answered = 0
        self.budget_s, self._began = budget_s, time.monotonic()

    def show(self, what: str) -> None:
        """Show what begins."""
        if not self.live:
            return
        left = self._began + self.budget_s - time.monotonic()
        time_left = "" if math.isinf(left) else f", {_clock(max(0.0, left))} left"
        text = lines_of(f"[{self.answered}/{self.pairs}{time_left}] {what}")
        width = shutil.get_terminal_size().columns
        self.stream.write("\r\x1b[K" + text[: width - 1])
        self.stream.flush()

    def answer(self, line: str) -> None:
        """Print an answer, and when it was found."""
        of = "" if math.isinf(self.budget_s) else f" of {_clock(self.budget_s)}"
        self.say(f"{_clock(time.monotonic() - self._began)}{of}  {line}")

    def done(self, line: str) -> None:
        """Print `line`, which stays on the screen, for a pair that has its answer."""
        self.answered += 1
        self.say(f"[{self.answered}/{self.pairs}] {line}")

    def say(self, text: str) -> None:
        """Print a line above the live one."""
        self.stream.write(("\r\x1b[K" if self.live else "") + lines_of(text) + "\n")
        self.stream.flush()


def _clock(seconds: float) -> str:
    """`2:05`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
