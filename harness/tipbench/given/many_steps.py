"""What many steps in a row show of a job and a few do not: that its memory grows, or that its steps get slower."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import psutil
import torch

from tipbench.given.survey import SLOPE_PARTS

LEAST_STEPS, ENOUGH_STEPS, MOST_STEPS, WHILE_S = 64, 200, 1000, 3.0
"""Steps that show anything; that are run; and that are run at most, as each may keep tensors, within WHILE_S (s)."""

SLOWER = 1.2
"""Ratio of the last steps to the first ones from which on they get slower."""

GROWTH_BYTES, GROWTH = 1 << 20, 0.002
"""What each later quarter adds to the memory at least, in bytes and as a share of it, where it grows."""


def run_many_steps(step: Callable[[], Any], end: float) -> dict[str, Any]:
    """{"steps", "slower", "grows"} of Survey; nothing from fewer than LEAST_STEPS. end: as of `time.perf_counter`."""
    times, held, enough = list[float](), list[int](), perf_counter() + WHILE_S
    while len(times) < MOST_STEPS and perf_counter() < (end if len(times) < ENOUGH_STEPS else min(end, enough)):
        began = perf_counter()
        step()
        times.append(perf_counter() - began)
        held.append(_held())
    if len(times) < LEAST_STEPS:
        return {}
    quarter = len(times) // 4
    return {"steps": len(times), "slower": _slower(times), "grows": _grows(held, quarter)}


def _held() -> int:
    """Bytes that this process holds: of a GPU if it uses one, as tensors."""
    return torch.cuda.memory_allocated() if torch.cuda.is_initialized() else psutil.Process().memory_info().rss


def _slower(times: list[float]) -> float:
    """How many times as long the last of SLOPE_PARTS takes as the first; 0 where steps do not get slower."""
    part = len(times) // SLOPE_PARTS
    medians = [median(times[start : start + part]) for start in range(0, SLOPE_PARTS * part, part)]
    rises = all(later > earlier for earlier, later in pairwise(medians))
    return medians[-1] / medians[0] if rises and medians[-1] > SLOWER * medians[0] else 0.0


def _grows(held: list[int], quarter: int) -> float:
    """Bytes a step, after the first quarter; 0 where memory stays level, or comes to rest."""
    ends = [held[number * quarter - 1] for number in (1, 2, 3, 4)]
    added = [later - earlier for earlier, later in pairwise(ends)]
    least = max(GROWTH_BYTES, GROWTH * ends[0])
    grows = min(added) >= least and added[-1] >= added[0] / 2
    return (ends[-1] - ends[0]) / (3 * quarter) if grows else 0.0
