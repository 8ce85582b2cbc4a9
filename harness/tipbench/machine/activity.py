"""What disturbs measurements on this machine now."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import psutil

from tipbench.machine.limits import throttling
from tipbench.machine.proc import DENIED, ROOT, UNAVAILABLE, read
from tipbench.machine.processor import governor

BUSY = 10.0
"""Percent of one core above which another process counts as busy."""


def state(root: Path = ROOT, sample_s: float = 0.5) -> dict[str, Any]:
    """What disturbs measurements now; sleeps `sample_s` seconds to watch steal and busy processes.

    - load: runnable processes, mean of a minute
    - cpu_pressure_percent: share of the last 10 s in which some task waited for a core
    - steal_percent: share of all cores' time that the hypervisor took
    - governor: the frequency governor
    - throttled_periods, throttled_s: since the cgroup began
    - free_bytes: memory that is available
    - busy_processes: how many other processes use more than 10 % of a core
    """
    stolen, busy = watch(sample_s)
    periods, seconds = throttling(root)
    return {
        "load": load(),
        "cpu_pressure_percent": cpu_pressure(root),
        "steal_percent": stolen,
        "governor": governor(root),
        "throttled_periods": periods,
        "throttled_s": seconds,
        "free_bytes": psutil.virtual_memory().available,
        "busy_processes": len(busy),
    }


def load() -> float | str:
    """Processes running or waiting to run, mean of the last minute."""
    try:
        return psutil.getloadavg()[0]
    except OSError:
        return UNAVAILABLE


def cpu_pressure(root: Path = ROOT) -> float | str:
    """Percent of the last 10 s in which some task waited for a core."""
    text = read(root / "proc/pressure/cpu")
    mean = re.search(r"^some avg10=([\d.]+)", text, re.MULTILINE)
    return float(mean[1]) if mean else DENIED if text == DENIED else UNAVAILABLE


def watch(seconds: float = 0.5) -> tuple[float | str, list[str]]:
    """Percent of all cores' time stolen by the hypervisor while this sleeps for `seconds`, and the
    names of other processes that were busy meanwhile, busiest first."""
    processes = [process for process in psutil.process_iter() if process.pid != os.getpid()]
    for process in processes:
        _percent(process)
    try:
        steal = getattr(psutil.cpu_times_percent(interval=seconds), "steal", UNAVAILABLE)  # old kernels count none
    except OSError:
        steal = UNAVAILABLE
    used = {process: _percent(process) for process in processes}
    busy = sorted((process for process in processes if used[process] > BUSY), key=lambda process: -used[process])
    return steal, [_process_name(process) for process in busy]


def _percent(process: psutil.Process) -> float:
    """Percent of one core since the last call for the same object; 0 for a process that is gone."""
    try:
        return process.cpu_percent()
    except psutil.Error:
        return 0.0


def _process_name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "a process that has ended"
