"""What the machine reaches at most, as a job would use it: rates that its steps are set against."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import nn

_WIDTH, _NUMBERS, _TIMES = 1024, 1 << 24, 5


def rates(model: nn.Module, device: torch.device) -> dict[str, float]:
    """{"peak_flops", "peak_bytes"} a second: of a product of two square matrices of the model's numbers, and of a copy
    that no cache holds."""
    kind = next((each.dtype for each in model.parameters() if each.is_floating_point()), torch.float32)
    left, right = torch.randn(2, _WIDTH, _WIDTH, device=device).to(kind)
    source = torch.zeros(_NUMBERS, device=device)
    copied = torch.empty_like(source)
    with torch.no_grad():
        product_s = _least_s(lambda: left @ right, device)
        copy_s = _least_s(lambda: copied.copy_(source), device)
    return {"peak_flops": 2 * _WIDTH**3 / product_s, "peak_bytes": 2 * source.nbytes / copy_s}


def card_busy(step: Callable[[], Any]) -> float:
    """Share of a step for which the kernels of a card run, by the profiler; they run one after the other."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profiler:
        began = perf_counter()
        step()
        torch.cuda.synchronize()
        taken_s = perf_counter() - began
    kernels = (event.time_range.elapsed_us() for event in profiler.events() if event.device_type.name == "CUDA")
    return float(min(1.0, sum(kernels) / 1e6 / taken_s))


def _least_s(step: Callable[[], Any], device: torch.device) -> float:
    times = []
    for _ in range(_TIMES):
        began = perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(perf_counter() - began)
    return min(times)
