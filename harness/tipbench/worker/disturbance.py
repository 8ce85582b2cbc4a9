"""What took cores away from a block: the kernel's counters before it and after it."""

from __future__ import annotations

import functools
import resource
from dataclasses import dataclass
from pathlib import Path

from tipbench.machine.proc import cgroup_files


@dataclass(frozen=True)
class Disturbance:
    """Counters of what takes cores away; -1 where the platform does not report it. Units as in `Launch`."""

    steal_ticks: int
    throttled_us: int
    pressure_us: int
    switches: int

    @classmethod
    def read(cls, root: Path = Path("/")) -> Disturbance:
        return cls(
            _field(root / "proc/stat", "cpu ", 8),
            _throttled(root),
            _field(root / "proc/pressure/cpu", "some", -1),
            resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
        )

    def since(self, earlier: Disturbance) -> dict[str, int]:
        """What was counted after `earlier`, by name."""
        return {
            name: -1 if value < 0 else value - before
            for (name, value), before in zip(vars(self).items(), vars(earlier).values(), strict=True)
        }


def _field(path: Path, prefix: str, index: int) -> int:
    """The integer in a line of a /proc file; `total=123` counts as 123."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith(prefix):
                return int(line.split()[index].rpartition("=")[2])
    except (OSError, IndexError, ValueError):
        pass
    return -1


@functools.cache
def _cpu_stat(root: Path) -> Path | None:
    """Where the kernel counts this process's throttling; looked up once, as a block's border must be short."""
    return next(cgroup_files(root, "cpu", ("cpu.stat",)), None)


def _throttled(root: Path) -> int:
    file = _cpu_stat(root)
    if file is None:
        return -1
    found = _field(file, "throttled_usec", 1)
    if found >= 0:
        return found
    found = _field(file, "throttled_time", 1)  # cgroup v1 counts nanoseconds
    return found // 1000 if found >= 0 else -1
