"""What took cores away from a block: the kernel's counters before and after it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from tipbench.machine.proc import cgroup_files


@dataclass(frozen=True)
class Disturbance:
    """Counters of what takes cores away; -1 where the platform does not report it.

    Attributes:
        steal_ticks: time stolen by the hypervisor, all cores (clock ticks of 1/100 s).
        throttled_us: time for which the cgroup was throttled (µs).
        pressure_us: time for which some task waited for a core (µs).
    """

    steal_ticks: int
    throttled_us: int
    pressure_us: int

    @classmethod
    def read(cls, root: Path = Path("/")) -> Disturbance:
        return cls(
            _field(root / "proc/stat", "cpu ", 8),
            _throttled(root),
            _field(root / "proc/pressure/cpu", "some", -1),
        )

    def since(self, earlier: Disturbance) -> dict[str, int]:
        """The counts since `earlier`, by name."""
        return {
            name: -1 if value < 0 else value - before
            for (name, value), before in zip(vars(self).items(), vars(earlier).values(), strict=True)
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
