"""How much memory and processor time this process may use, as its cgroups limit them."""

from __future__ import annotations

from pathlib import Path

import psutil

from tipbench.machine.proc import DENIED, ROOT, UNAVAILABLE, cgroup_files, read


def memory_bytes(root: Path = ROOT) -> int:
    """Memory this process can get: what is installed, or the lowest limit of its cgroups."""
    limits = [int(text) for path in cgroup_files(root, "memory", ("memory.max", "memory.limit_in_bytes"))
              if (text := read(path)).isdigit()]  # fmt: skip
    return min([psutil.virtual_memory().total, *limits])


def quota_cores(root: Path = ROOT) -> float | str:
    """Cores' worth of time the cgroups grant, the lowest if nested; "none" where nothing limits it."""
    quotas: list[float] = []
    readable = False
    for path in cgroup_files(root, "cpu", ("cpu.max", "cpu.cfs_quota_us")):
        words = read(path).split()
        period = words[1] if len(words) == 2 else read(path.with_name("cpu.cfs_period_us"))
        readable = readable or words[0] not in (UNAVAILABLE, DENIED)
        if words[0].isdigit() and period.isdigit():
            quotas.append(int(words[0]) / int(period))
    return min(quotas) if quotas else "none" if readable else UNAVAILABLE
