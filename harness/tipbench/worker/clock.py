"""The seconds of a block, and the GPU's own readings meanwhile."""

from __future__ import annotations

import functools
import gc
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from time import perf_counter
from typing import Any

import torch

from tipbench.machine.gpu import GPU_READINGS
from tipbench.worker.disturbance import counters

# Bound before a pair's file is imported, as perf_counter above: if a pair replaces one of them, timing is unaffected.
_Event, _synchronize_cuda, _synchronize = torch.cuda.Event, torch.cuda.synchronize, torch.accelerator.synchronize


def seconds_to_finish(
    step: Callable[[], Any], count: int, device: torch.device, before: Callable[[], None] | None = None
) -> float:
    """Wall time of `count` steps until the device has finished them (s). The loop itself costs about 20 ns a step.

    before: called before every step, outside the clock; each step is then waited for.
    """
    times = repeat(None, count)
    if before is None:
        start = perf_counter()
        for _ in times:
            step()
        synchronize(device)
        return perf_counter() - start
    seconds = 0.0
    for _ in times:
        before()
        synchronize(device)
        start = perf_counter()
        step()
        synchronize(device)
        seconds += perf_counter() - start
    return seconds


def seconds_on_cuda(
    step: Callable[[], Any],
    count: int,
    before: Callable[[], None] | None = None,
    look: Callable[[], None] = lambda: None,
) -> float:
    """Time of `count` steps between two CUDA events, synchronised before they are read (s).

    before: called before every step; each step is then between two events of its own, and their times are added. look:
    called when all steps are enqueued, while the GPU still works on the last ones.
    """
    pieces, steps = (1, count) if before is None else (count, 1)
    # All are made beforehand: what the host does after an event is recorded may keep the GPU waiting.
    timed = [(_Event(enable_timing=True), repeat(None, steps), _Event(enable_timing=True)) for _ in range(pieces)]
    for start, times, end in timed:
        if before is not None:
            before()
        start.record()
        for _ in times:
            step()
        end.record()
    look()
    _synchronize_cuda()
    return sum(float(start.elapsed_time(end)) for start, _, end in timed) / 1000


EMPTYING_BYTES = 256 << 20
"""Bytes whose reading empties the L2 cache of any GPU so far: the largest has 126 MB."""


def emptying_l2(device: torch.device) -> Callable[[], None]:
    """A function that empties a GPU's L2 cache, by reading EMPTYING_BYTES.

    triton's do_bench writes instead. But written data stays in the cache until the timed step needs the space, and the
    step would then wait for it to be written back to memory.
    """
    scratch = torch.zeros(EMPTYING_BYTES // 4, device=device)
    total = torch.empty((), device=device)

    def empty() -> None:
        torch.sum(scratch, 0, out=total)

    return empty


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all work given to it."""
    if device.type != "cpu":
        _synchronize(device)


class Card:
    """The GPU that a worker computes on, as its driver reports it."""

    def __init__(self, device: torch.device) -> None:
        self._driver: tuple[Any, Any] | None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._driver = pynvml, _handle(pynvml, str(torch.cuda.get_device_properties(device).uuid))
        except Exception:  # no NVIDIA driver, as under ROCm, or one that lacks this card: nothing is reported
            self._driver = None

    def read(self) -> dict[str, int]:
        """The readings of `Launch.gpu` now; -1 for those that the driver does not report."""
        return {name: self._reading(name) for name in GPU_READINGS}

    def _reading(self, name: str) -> int:
        if self._driver is None:
            return -1
        try:
            return int(GPU_READINGS[name](*self._driver))
        except Exception:  # a refused reading must never look like a 0
            return -1


def _handle(nvml: Any, uuid: str) -> Any:
    """The driver's handle of a card or of a MIG instance; torch gives the same kind of name to both."""
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")


def all_cards(readings: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The readings of all ranks' cards as one: the first card's, with the clock events of all cards, because all ranks
    wait for the slowest."""
    reported = [card["clock_events"] for card in readings if card["clock_events"] >= 0]
    return {**readings[0], "clock_events": functools.reduce(operator.or_, reported) if reported else -1}


def time_block(
    step: Callable[[], Any],
    count: int,
    device: torch.device,
    begin: Callable[[], None],
    before: Callable[[], None] | None = None,
    card: Card | None = None,
    again: bool = False,
) -> dict[str, Any]:
    """The fields of `Launch` for one block: an untimed step, then `begin`, where ranks meet, then `count` timed steps.

    Python's garbage collector is off meanwhile: it would run in the blocks of whichever side allocated last.

    before: called before every step, outside the clock. card: the GPU, read while it still works. again: leave the
    untimed step out, because this process's last step was of the same variant.
    """
    disturbances = counters()
    readings: dict[str, int] = {}
    if not again:
        if before is not None:
            before()
        step()
        synchronize(device)
    collects = gc.isenabled()  # a variant's switch may have turned it off on purpose
    gc.disable()

    def look() -> None:
        if card is not None:
            readings.update(card.read())

    try:
        begin()
        if device.type == "cuda":
            seconds = seconds_on_cuda(step, count, before, look)
        else:
            seconds = seconds_to_finish(step, count, device, before)
    finally:
        if collects:
            gc.enable()
    since = {name: -1 if value < 0 else value - disturbances[name] for name, value in counters().items()}
    return {"seconds": seconds, **since, **({"gpu": readings} if card is not None else {})}


def warm_up(
    step: Callable[[], Any],
    device: torch.device,
    before: Callable[[], None] | None = None,
    limit: float = 20.0,
    slowest: Callable[[float], float] = lambda seconds: seconds,
) -> dict[str, float]:
    """Step until timings stop falling: until two chunks in a row do not improve the best by 2 %.

    A chunk lasts 5 ms, so that the clock's noise is not taken for an improvement. Returns "step_s", the best chunk's
    time per step (s), and "excess_s", the time beyond what the same steps take once warm (s).

    before: called before every step, outside the clock. limit: seconds after the first step, which may compile, until
    it stops in any case. slowest: of the seconds of a chunk those of the slowest rank, so that all ranks take the same
    number of steps: otherwise one waits for another that has finished.
    """

    def chunk(count: int) -> float:
        return slowest(seconds_to_finish(step, count, device, before))

    first = chunk(1)
    total, steps = first, 1
    best = total
    size, stale = 1, 0
    while stale < 2 and total - first < limit:
        size = max(size, min(10_000, round(0.005 / best)))
        spent = chunk(size)
        total, steps = total + spent, steps + size
        stale = 0 if spent / size < 0.98 * best else stale + 1
        best = min(best, spent / size)
    return {"step_s": best, "excess_s": max(0.0, total - steps * best)}
