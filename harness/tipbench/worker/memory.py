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
"""Steps that are run: enough for an optimizer's state to exist and for caches to be full."""

LAST_STEP = "tipbench: the last step"
"""Name of the last step, which shows the steady state, in the profiler."""


CONTEXT_BYTES = 3 << 29
"""Held on a GPU by a process beside torch's allocator, at most (bytes): its context, libraries and their workspaces;
0.7 to 1.3 GB were measured."""


def held_on_card(device: torch.device) -> int:
    """Bytes that this process holds of a GPU, of several where it holds most; 0 on a CPU."""
    cards = range(torch.cuda.device_count()) if device.type == "cuda" else ()
    return max((torch.cuda.max_memory_reserved(card) + CONTEXT_BYTES for card in cards), default=0)


def process_peaks(
    step: Callable[[], Any], device: torch.device, before: Callable[[], None] = lambda: None
) -> dict[str, int]:
    """Bytes over STEPS steps by the keys of `VariantRecord.memory`: of the process, its children and its GPUs.

    If one process computes on several GPUs, as DataParallel does, their peaks are added up, as those of ranks are. The
    platform does not report what is missing. before: called before each step.
    """
    cards = range(torch.cuda.device_count()) if device.type == "cuda" else ()
    for card in cards:
        torch.cuda.reset_peak_memory_stats(card)
    reset = _reset_resident_peak()
    for _ in range(STEPS):
        before()
        step()
    peaks = {}
    if reset:
        peaks["resident_peak"] = _status_bytes("VmHWM")
    tree = _tree_bytes()
    if tree is not None:
        peaks["tree"] = tree
    if device.type == "cuda":
        # Only cards that this process uses: querying the free memory of a card makes a context there, which itself
        # takes memory.
        used = [card for card in cards if torch.cuda.max_memory_reserved(card)]
        for card in used:
            torch.cuda.synchronize(card)
        peaks["allocated_peak"] = sum(map(torch.cuda.max_memory_allocated, used))
        peaks["reserved_peak"] = sum(map(torch.cuda.max_memory_reserved, used))
        peaks["device_used"] = sum(total - free for free, total in map(torch.cuda.mem_get_info, used))
    return peaks


def least_tensor_peaks(build: Callable[[], Callable[[], Any]], times: int) -> dict[str, int]:
    """The least of several readings of `tensor_peaks`.

    A reading may be too large, but never too small: the profiler misses what another thread releases, and a process
    group's thread is sometimes the last to hold what DDP broadcasts when it is built (harness/decisions.md, "Tensor
    peaks of ranks").
    """
    readings = [tensor_peaks(build) for _ in range(times)]
    return {kind: min(reading[kind] for reading in readings) for kind in readings[0] if all(readings)}


def tensor_peaks(build: Callable[[], Callable[[], Any]]) -> dict[str, int]:
    """Exact peaks of live CPU tensors (bytes): "tensor_peak" from the build to the end of STEPS steps, "steady_peak" in
    the last step, when what is built, compiled or converted only once is gone.

    The profiler reports every allocation and release from the start, so their running sum is exact. Empty where the
    variant itself runs a profiler: torch allows only one at a time.
    """
    if torch._C._autograd._profiler_enabled():
        # A second profiler would end the variant's own, and torch 2.11 then raises where the variant leaves it.
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
    """Reset VmHWM to the present size, by writing 5 to clear_refs; False where that is refused."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status_bytes(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    match = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _tree_bytes() -> int | None:
    """Bytes of this process and its children without mapped files, whose share depends on other processes; None where
    not reported.

    From the proportional set size, which counts shared pages once.
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
