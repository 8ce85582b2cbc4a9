"""A noisy neighbour: a process that burns one core in random bursts and writes through a lot of memory.

It plays the other tenant of a shared machine. Bursts and pauses last 20 to 500 ms each, drawn
evenly from a seeded generator, so the core is busy half of the time; in a burst it adds up numbers and
rewrites 64 MiB, more than the caches hold. Started as `python tests/noise.py PARENT SEED`,
where PARENT is the process it must not outlive.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tipbench.errors import UserError
from tipbench.machine.controls import callers
from tipbench.machine.orphans import die_with_parent

LASTS_S = 0.02, 0.5
"""Shortest and longest burst, and pause, in seconds."""

TOUCHED = 64 << 20
"""Bytes rewritten again and again."""


class NoNoise(UserError):
    """The noisy neighbour is gone, so what is measured would not be what its file says."""


@contextmanager
def noise(seed: int) -> Iterator[Callable[[], None]]:
    """Have the machine disturbed. Yields, once it is, what raises NoNoise as soon as it no longer is."""
    with subprocess.Popen(
        [sys.executable, "-P", __file__, str(os.getpid()), str(seed)],
        env=callers(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the terminal's Ctrl-C goes to the parent, which ends it
    ) as process:

        def check() -> None:
            if process.poll() is not None:
                raise NoNoise(f"the noisy neighbour ended by itself, with exit code {process.returncode}")

        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                process.wait()
                check()
            yield check
        finally:
            process.kill()


def bursts(seed: int) -> Iterator[tuple[float, float]]:
    """(seconds of burst, seconds of pause), without end."""
    drawn = random.Random(seed)
    while True:
        yield drawn.uniform(*LASTS_S), drawn.uniform(*LASTS_S)


def burn(seconds: float, memory: bytearray) -> None:
    """Keep a core busy, and its way to memory."""
    end = time.monotonic() + seconds
    stretch = bytes(1 << 20)
    for start in itertools.cycle(range(0, len(memory), len(stretch))):
        if time.monotonic() >= end:
            return
        sum(range(5000))
        memory[start : start + len(stretch)] = stretch


def main(parent: str, seed: str) -> None:
    die_with_parent()
    memory = bytearray(TOUCHED)
    print("burning", flush=True)
    for burst, pause in bursts(int(seed)):
        # Looked at too: the parent may have gone before it could be watched, and only Linux watches.
        if os.getppid() != int(parent):
            return
        burn(burst, memory)
        time.sleep(pause)


if __name__ == "__main__":
    main(*sys.argv[1:])
