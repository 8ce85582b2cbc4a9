"""The profile of a job ("job card"): size of its model, what a step computes and moves, and where its time goes."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tipbench.records.record import LOADING, PHASES
from tipbench.tip.counts import flops
from tipbench.tip.job import Job
from tipbench.tip.pair import Step

_FEWEST, _MOST = 2, 5
ENOUGH_S = 1.0
"""Steps are timed until ENOUGH_S seconds have passed, but at least _FEWEST and at most _MOST of them."""


def job_card(job: Job, step: Step) -> dict[str, float]:
    """{"parameters", "flops", "bytes"} of a step, and the median seconds of each of `PHASES`, by its name.

    bytes: as of `bytes_moved`.
    """
    step()  # so that operations are counted in a warm step
    counted = {"flops": flops(step), "bytes": bytes_moved(step)}
    parameters = sum(parameter.numel() for parameter in job.model.parameters())
    return {"parameters": parameters, **counted, **phases_of(job, step)}


def phases_of(job: Job, step: Step) -> dict[str, float]:
    """The median seconds of each of `PHASES` in a step, by its name.

    Everything before the model is called counts as loading, also zeroing gradients and copying to the device.
    Everything between the model's forward pass and the optimizer's step counts as backward, also the loss.
    """
    spent = dict.fromkeys(PHASES, 0.0)
    phase, since = LOADING, 0.0

    def enter(following: str) -> Callable[..., None]:
        def switch(*_: Any) -> None:
            nonlocal phase, since
            if job.device.type == "cuda":
                torch.cuda.synchronize(job.device)
            now = perf_counter()
            spent[phase] += now - since
            phase, since = following, now

        return switch

    def once() -> dict[str, float]:
        nonlocal since
        spent.update(dict.fromkeys(PHASES, 0.0))
        since = perf_counter()
        step()
        enter(LOADING)()
        return dict(spent)

    _, forward, backward, stepping = PHASES
    handles = [job.model.register_forward_pre_hook(enter(forward))]
    handles.append(job.model.register_forward_hook(enter(backward if job.optimizer else LOADING)))
    if job.optimizer is not None:
        handles.append(job.optimizer.register_step_pre_hook(enter(stepping)))
        handles.append(job.optimizer.register_step_post_hook(enter(LOADING)))
    try:
        once()  # untimed: with the new hooks, compiled code is compiled again
        timed: list[dict[str, float]] = []
        while len(timed) < _MOST and (len(timed) < _FEWEST or sum(sum(run.values()) for run in timed) < ENOUGH_S):
            timed.append(once())
    finally:
        for handle in handles:
            handle.remove()
    return {phase: median(run[phase] for run in timed) for phase in PHASES}


def bytes_moved(step: Step) -> int:
    """Bytes that the operations of one step read and write: each operation counts each tensor once, views count 0."""
    with _Traffic() as traffic:
        step()
    return int(traffic.bytes)


class _Traffic(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.bytes: int = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        if not operation.is_view:
            tensors = {id(leaf): leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)}
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        return result
