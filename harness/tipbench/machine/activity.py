"""What disturbs measurements on this machine now."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tipbench.machine.proc import ROOT
from tipbench.tip.needs import available_cores

BUSY_PERCENT = 10.0
"""Percent of one core above which another process counts as busy."""

OCCUPIED = 0.3
"""Cores that other programs keep busy, from which on a machine counts as busy. However many cores there are: where all
threads of an operation wait for the slowest, one that shares its core holds up all of them. Evidence:
harness/decisions.md, "A busy machine"."""

WORKING = slice(1, 8)
"""Of a line "cpu0 ..." of /proc/stat: user, nice, system, idle, iowait, irq, softirq; in clock ticks."""

IDLE = slice(4, 6)


@dataclass(frozen=True)
class Usage:
    """Processor time until a moment, of the cores that this process may use.

    Attributes:
        when: seconds of the clock.
        busy_s: time for which these cores worked for anybody (s); None where the platform does not tell.
        own_s: time that this process and all that it has started took (s).
    """

    when: float
    busy_s: float | None
    own_s: float

    @classmethod
    def now(cls, root: Path = ROOT) -> Usage:
        return cls(time.monotonic(), _busy_s(root), _own_s())

    def others(self, earlier: Usage) -> float:
        """Cores that other programs kept busy since `earlier`, on average; -1 where that is unknown."""
        passed_s = self.when - earlier.when
        if self.busy_s is None or earlier.busy_s is None or passed_s <= 0:
            return -1.0
        others_s = self.busy_s - earlier.busy_s - (self.own_s - earlier.own_s)
        return round(max(0.0, others_s) / passed_s, 3)


def _busy_s(root: Path) -> float | None:
    ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    try:
        for line in (root / "proc/stat").read_text().splitlines():
            words = line.split()
            if words and words[0] in ours:
                ticks += sum(map(int, words[WORKING])) - sum(map(int, words[IDLE]))
    except (OSError, ValueError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Of processes that have ended too: their time is that of whoever waited for them."""
    me = psutil.Process()
    taken = 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):
            times = process.cpu_times()
            taken += times.user + times.system + times.children_user + times.children_system
    return taken


def describe_load(sample_s: float = 1.0) -> str:
    """`other programs keep 1.0 of 2 cores busy (python)`; empty on a machine that is not busy."""
    before = Usage.now()
    names = watch(sample_s)
    others = Usage.now().others(before)
    if others <= OCCUPIED:
        return ""
    listed = f" ({', '.join(dict.fromkeys(names[:4]))})" if names else ""
    return f"other programs keep {others:.1f} of {available_cores()} cores busy{listed}"


def mostly_beside(launches: Sequence[float]) -> str:
    """`other programs kept 1.0 cores busy in 23 of 25 launches`; empty unless it was so in most. launches: of each, the
    cores that others kept busy."""
    busy = [others for others in launches if others > OCCUPIED]
    if 2 * len(busy) <= len(launches):
        return ""
    cores = f"{statistics.fmean(busy):.1f} cores"
    return f"other programs kept {cores} busy in {len(busy)} of {len(launches)} launches"


def watch(seconds: float) -> list[str]:
    """Names of other processes that are busy while this sleeps for `seconds`, busiest first."""
    list(psutil.process_iter(["cpu_percent"]))  # which is that since the last call for the same process
    time.sleep(seconds)
    processes = [process.info for process in psutil.process_iter(["cpu_percent", "name", "pid"])]
    busy = [info for info in processes if (info["cpu_percent"] or 0.0) > BUSY_PERCENT and info["pid"] != os.getpid()]
    return [info["name"] for info in sorted(busy, key=lambda info: -info["cpu_percent"])]
