"""What took cores away from a block: the kernel's counters before and after it."""

from __future__ import annotations

import functools
from pathlib import Path

from tipbench.machine.proc import cgroup_files


def counters(root: Path = Path("/")) -> dict[str, int]:
    """Counters of what takes cores away; -1 where the platform does not report it.

    steal_ticks: time stolen by the hypervisor, all cores (clock ticks of 1/100 s). throttled_us: time for which the
    cgroup was throttled (µs). pressure_us: time for which some task waited for a core (µs).
    """
    return {
        "steal_ticks": _field(root / "proc/stat", "cpu ", 8),
        "throttled_us": _throttled(root),
        "pressure_us": _field(root / "proc/pressure/cpu", "some", -1),
    }


def _field(path: Path, prefix: str, index: int) -> int:
    """The integer in one line of a /proc file (`total=123` reads as 123); -1 where there is none."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith(prefix):
                return int(line.split()[index].rpartition("=")[2])
    except (OSError, IndexError, ValueError):
        pass
    return -1


@functools.cache
def _cpu_stat(root: Path) -> Path | None:
    """The file in which the kernel counts this process's throttling. Cached, since reading between blocks must be
    quick."""
    return next(cgroup_files(root, "cpu", ("cpu.stat",)), None)


def _throttled(root: Path) -> int:
    file = _cpu_stat(root)
    if file is None:
        return -1
    microseconds = _field(file, "throttled_usec", 1)
    if microseconds >= 0:
        return microseconds
    nanoseconds = _field(file, "throttled_time", 1)  # cgroup v1
    return nanoseconds // 1000 if nanoseconds >= 0 else -1
