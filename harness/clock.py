"""What is read off a block: seconds, and what disturbed the machine meanwhile."""

from __future__ import annotations

import functools
import gc
import operator
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from harness.machine import GPU_READINGS, cgroup_files

# Bound before a pair's file is imported, as perf_counter above: a pair that replaces one times nothing by it.
_Event, _synchronize_cuda, _synchronize = torch.cuda.Event, torch.cuda.synchronize, torch.accelerator.synchronize


def seconds_on_cpu(step: Callable[[], Any], count: int) -> float:
    """Wall seconds of `count` consecutive steps. `repeat` keeps the loop's own cost near 20 ns a step."""
    times = repeat(None, count)
    start = perf_counter()
    for _ in times:
        step()
    return perf_counter() - start


def seconds_on_cuda(step: Callable[[], Any], count: int) -> float:
    """Seconds between two CUDA events around `count` steps, synchronised before they are read."""
    start, end = _Event(enable_timing=True), _Event(enable_timing=True)
    times = repeat(None, count)
    start.record()
    for _ in times:
        step()
    end.record()
    _synchronize_cuda()
    return float(start.elapsed_time(end)) / 1000


EMPTYING_BYTES = 256 << 20
"""Writing so much empties the L2 cache of any GPU so far: the largest has 126 MB. As triton's do_bench does."""


def seconds_on_cuda_cold(step: Callable[[], Any], count: int, scratch: torch.Tensor) -> float:
    """Seconds of `count` steps, each between two CUDA events of its own, after `scratch` has been overwritten."""
    events = [(_Event(enable_timing=True), _Event(enable_timing=True)) for _ in range(count)]
    for start, end in events:
        scratch.zero_()
        start.record()
        step()
        end.record()
    _synchronize_cuda()
    return sum(float(start.elapsed_time(end)) for start, end in events) / 1000


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all work given to it."""
    if device.type != "cpu":
        _synchronize(device)


ENERGY = "millijoules"
"""The reading that counts since the driver was loaded: only differences say something."""

ENERGY_S = 2.0
"""Seconds over which energy is counted: drivers bring its counter up to date every 20 to 100 ms."""


@dataclass(frozen=True)
class Disturbance:
    """Counters of what takes cores away; -1 where the platform does not tell. Units as in `Launch`."""

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


class Card:
    """The GPU that a worker computes on, as its driver sees it. Never tried on a GPU so far."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._asked: tuple[Any, Any] | None
        try:
            import pynvml

            pynvml.nvmlInit()
            uuid = torch.cuda.get_device_properties(device).uuid
            self._asked = pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except Exception:  # no NVIDIA driver, as under ROCm, or one that knows no such card: nothing is told
            self._asked = None

    def read(self) -> dict[str, int]:
        """The readings of `Launch.gpu` now, -1 where the driver does not tell."""
        return {name: self._reading(name) for name in GPU_READINGS if name != ENERGY}

    def _reading(self, name: str) -> int:
        if self._asked is None:
            return -1
        try:
            return int(GPU_READINGS[name](*self._asked))
        except Exception:  # whatever is refused is told as such, and never as a 0
            return -1

    def joules_a_step(self, step: Callable[[], Any], step_s: float) -> float | None:
        """Energy of one step, over steps of ENERGY_S seconds together; None where the driver does not tell."""
        synchronize(self.device)
        before = self._reading(ENERGY)
        if before < 0:
            return None
        count = max(1, round(ENERGY_S / step_s))
        for _ in repeat(None, count):
            step()
        synchronize(self.device)
        after = self._reading(ENERGY)
        return None if after < 0 else (after - before) / 1000 / count


def together(readings: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The readings of all ranks' cards as one: the first card's, but what held any clock back.

    All ranks wait for the slowest.
    """
    told = [card["clock_events"] for card in readings if card["clock_events"] >= 0]
    return {**readings[0], "clock_events": functools.reduce(operator.or_, told) if told else -1}


def time_block(
    step: Callable[[], Any],
    count: int,
    device: torch.device,
    begin: Callable[[], None],
    scratch: torch.Tensor | None = None,
) -> dict[str, Any]:
    """Time one block: an untimed step first, then `begin` (ranks meet there), then `count` steps.

    Python's garbage collector waits outside: it would fall on whichever side allocated last.
    scratch: EMPTYING_BYTES on a GPU whose L2 cache is to be emptied before every step.
    Returns the fields of `Launch` for one block.
    """
    before = Disturbance.read()
    step()
    synchronize(device)
    collects = gc.isenabled()  # a variant's switch may have turned it off on purpose
    gc.disable()
    try:
        begin()
        if device.type != "cuda":
            seconds = seconds_on_cpu(step, count)
        elif scratch is None:
            seconds = seconds_on_cuda(step, count)
        else:
            seconds = seconds_on_cuda_cold(step, count, scratch)
    finally:
        if collects:
            gc.enable()
    return {"seconds": seconds, **Disturbance.read().since(before)}


def warm_up(step: Callable[[], Any], device: torch.device, limit: float = 20.0) -> dict[str, float]:
    """Step until timings stop falling: two chunks in a row without a new best by 2 %.

    A chunk is as many steps as last 5 ms, so that the clock's noise is no "new best".
    Returns "step_s", the best chunk's seconds a step, and "excess_s", the seconds spent beyond what
    the same steps take once warm. Ends after `limit` seconds in any case.
    """

    def chunk(count: int) -> float:
        start = perf_counter()
        for _ in repeat(None, count):
            step()
        synchronize(device)
        return perf_counter() - start

    total, steps = chunk(1), 1
    best = total
    size, stale = 1, 0
    while stale < 2 and total < limit:
        size = max(size, min(10_000, round(0.005 / best)))
        spent = chunk(size)
        total, steps = total + spent, steps + size
        stale = 0 if spent / size < 0.98 * best else stale + 1
        best = min(best, spent / size)
    return {"step_s": best, "excess_s": max(0.0, total - steps * best)}
