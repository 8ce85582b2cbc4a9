"""What a step needs in memory, read in a pass of its own."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.autograd.profiler import profile, record_function

STEPS = 3
"""Enough for an optimizer's state to exist and for caches to be full."""

LAST_STEP = "tipbench: the last step"
"""What the profiler calls the step by which the steady state is judged."""


def process_peaks(
    step: Callable[[], Any], device: torch.device, before: Callable[[], None] = lambda: None
) -> dict[str, int]:
    """Bytes over STEPS steps: the process's resident peak, its tree's share, the GPUs' peaks, `before` each step.

    Of several GPUs that one process computes on, as DataParallel does, the sum of what each peaks at: so it is of
    the same kind as the sum over ranks. A missing key means that the platform does not report it.
    """
    cards = range(torch.cuda.device_count()) if device.type == "cuda" else ()
    for card in cards:
        torch.cuda.reset_peak_memory_stats(card)
    reset = _reset_resident_peak()
    for _ in range(STEPS):
        before()
        step()
    found = {}
    if reset:
        found["resident_peak"] = _status_bytes("VmHWM")
    tree = _tree_bytes()
    if tree is not None:
        found["tree"] = tree
    if device.type == "cuda":
        # Cards that this process has nothing on are left alone: asking what is free makes a context there, which
        # takes memory itself.
        used = [card for card in cards if torch.cuda.max_memory_reserved(card)]
        for card in used:
            torch.cuda.synchronize(card)
        found["allocated_peak"] = sum(map(torch.cuda.max_memory_allocated, used))
        found["reserved_peak"] = sum(map(torch.cuda.max_memory_reserved, used))
        found["device_used"] = sum(total - free for free, total in map(torch.cuda.mem_get_info, used))
    return found


def least_tensor_peaks(build: Callable[[], Callable[[], Any]], times: int) -> dict[str, int]:
    """`tensor_peaks`, the least of several readings.

    What another thread releases the profiler does not see, and goes on counting. A process group's own thread is at
    times the last that holds what DDP sends around when it is built: of eight readings of a GPT in two processes two
    had its 18.8 MiB of parameters too much from the build on. So a reading may be too large, and never too small.
    """
    readings = [tensor_peaks(build) for _ in range(times)]
    return {kind: min(reading[kind] for reading in readings) for kind in readings[0] if all(readings)}


def tensor_peaks(build: Callable[[], Callable[[], Any]]) -> dict[str, int]:
    """Exact peaks of live CPU tensor bytes: "tensor_peak" from the building to the end of STEPS steps, "steady_peak"
    in the last of them, when what is only built, compiled or converted once is gone.

    The profiler reports every allocation and release, so the running sum is exact as long as it
    watches from the start. Empty where the variant itself runs a profiler: torch allows one at a time.
    """
    if torch._C._autograd._profiler_enabled():
        # One more would end the variant's own, and torch 2.11 then raises where the variant leaves it.
        return {}
    gc.collect()
    try:
        with profile(profile_memory=True) as watched:
            step = build()
            for _ in range(STEPS - 1):
                step()
            with record_function(LAST_STEP):
                step()
            # A profiler started by the step ends this one, without an error.
            watching = torch._C._autograd._profiler_enabled()
    except RuntimeError as error:
        if "rofiler" in str(error):
            return {}
        raise
    result = watched.kineto_results
    if result is None or not watching:
        return {}
    events = result.events()
    begun = next(event.start_ns() for event in events if event.name() == LAST_STEP)
    changes = sorted(
        (event.start_ns(), event.nbytes())
        for event in events
        if event.name() == "[memory]" and event.device_type().name == "CPU"
    )
    live = peak = steady = 0
    for when, change in changes:
        live += change
        peak = max(peak, live)
        steady = max(steady, live) if when >= begun else live
    return {"tensor_peak": peak, "steady_peak": steady}


def _reset_resident_peak() -> bool:
    """Make VmHWM start again from now (Linux: 5 into clear_refs); False where that is refused."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status_bytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _tree_bytes() -> int | None:
    """What this process and its children hold beside mapped files, which depend on who else maps them.

    Of the proportional set size, so pages they share are counted once.
    """
    total = 0
    for pid in [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            return None
        held = re.findall(r"^Pss_(?:Anon|Shmem):\s+(\d+) kB", text, re.MULTILINE)
        if not held:  # before Linux 5.4
            return None
        total += sum(map(int, held)) * 1024
    return total
