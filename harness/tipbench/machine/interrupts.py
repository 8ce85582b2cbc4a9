"""Ctrl-C, `kill`, and a terminal that closes end a command in the same way, and once."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING_S = 30.0
"""Seconds in which a command has ended all that it started."""


ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts() -> Iterator[None]:
    """All raise KeyboardInterrupt, but those that are ignored, as SIGHUP is under `nohup`: records are safe, what was
    started is ended, the way to go on is printed. A second signal within ENDING_S, as nothing seems to happen, would
    leave behind what the first has not ended yet."""
    last = -math.inf

    def interrupt(signum: int, frame: FrameType | None) -> None:
        nonlocal last
        if time.monotonic() - last > ENDING_S:
            last = time.monotonic()
            raise KeyboardInterrupt

    heard = [number for number in ENDED_BY if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
