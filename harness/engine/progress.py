"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from tipbench.records.record import PairInfo

FIRST_GUESS_S = {"micro": 30.0, "macro": 100.0}
"""Seconds a pair takes in the full profile on 2 cores, until this run has times of its own."""


class Progress:
    """Draws only when it is called, and it is called only between blocks and launches."""

    def __init__(self, pairs: Sequence[PairInfo], stream: TextIO | None = None) -> None:
        self.pairs = pairs
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.spent: dict[str, list[float]] = {}
        self.began = time.monotonic()

    def show(self, index: int, what: str) -> None:
        """Show that `what` of the pair at `index` begins."""
        if not self.live:
            return
        info = self.pairs[index]
        left = self._left(index)
        text = f"[{index + 1}/{len(self.pairs)}] {info.name}: {what}, about {_duration(left)} left"
        width = shutil.get_terminal_size().columns
        self.stream.write("\r\x1b[K" + text[: width - 1])
        self.stream.flush()

    def done(self, index: int, line: str, wall_s: float, measured: bool) -> None:
        """Leave `line` on the screen for the pair at `index`."""
        if measured:
            self.spent.setdefault(self.pairs[index].scale, []).append(wall_s)
        self.say(f"[{index + 1}/{len(self.pairs)}] {line}")

    def say(self, text: str) -> None:
        """Print a line above the live one."""
        self.stream.write(("\r\x1b[K" if self.live else "") + text + "\n")
        self.stream.flush()

    def _left(self, index: int) -> float:
        return sum(self._guess(info) for info in self.pairs[index:] if not info.reason)

    def _guess(self, info: PairInfo) -> float:
        seen = self.spent.get(info.scale)
        return sum(seen) / len(seen) if seen else FIRST_GUESS_S.get(info.scale, 60.0)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
