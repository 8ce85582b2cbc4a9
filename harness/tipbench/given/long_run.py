"""What many steps in a row show of a job and a few do not: that its memory grows, or that its steps get slower."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import psutil
import torch

MOST_STEPS, LEAST_STEPS = 200, 60
"""Steps that are run, and of which at least so many show anything."""

SLOWER = 1.2
"""Ratio of the last quarter's steps to the first quarter's from which on they get slower."""

GROWTH_BYTES, GROWTH = 1 << 20, 0.002
"""What each later quarter adds to the memory at least, in bytes and as a share of it, where it grows."""


def run_many(step: Callable[[], Any], end: float) -> dict[str, Any]:
    """{"steps", "slower", "grows"} of Survey, from up to MOST_STEPS steps; nothing from fewer than LEAST_STEPS. end: as
    `time.perf_counter` has it."""
    times, held = list[float](), list[int]()
    while len(times) < MOST_STEPS and perf_counter() < end:
        began = perf_counter()
        step()
        times.append(perf_counter() - began)
        held.append(_held())
    if len(times) < LEAST_STEPS:
        return {}
    quarter = len(times) // 4
    return {"steps": len(times), "slower": _slower(times, quarter), "grows": _grows(held, quarter)}


def _held() -> int:
    """Bytes that this process holds: of a GPU if it uses one, as tensors."""
    return torch.cuda.memory_allocated() if torch.cuda.is_initialized() else psutil.Process().memory_info().rss


def _slower(times: list[float], quarter: int) -> float:
    """How many times as long the last quarter's steps take as the first's; 0 where they do not get slower."""
    medians = [median(times[start : start + quarter]) for start in range(0, 4 * quarter, quarter)]
    rises = all(later > earlier for earlier, later in pairwise(medians))
    return medians[-1] / medians[0] if rises and medians[-1] > SLOWER * medians[0] else 0.0


def _grows(held: list[int], quarter: int) -> float:
    """Bytes a step, after the first quarter; 0 where memory stays level, or comes to rest."""
    ends = [held[number * quarter - 1] for number in (1, 2, 3, 4)]
    added = [later - earlier for earlier, later in pairwise(ends)]
    least = max(GROWTH_BYTES, GROWTH * ends[0])
    grows = min(added) >= least and added[-1] >= added[0] / 2
    return (ends[-1] - ends[0]) / (3 * quarter) if grows else 0.0
