"""The card of a job: how large its model is, what a step computes and moves, and where its time goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

FEWEST, MOST = 2, 5
ENOUGH_S = 1.0
"""Steps that are timed: until so many seconds have passed, but no fewer and no more than these."""


def job_card(job: Job, step: Step) -> dict[str, float]:
    """{"parameters", "flops", "bytes"} and, by the names in `PHASES`, the median seconds of a step.

    bytes: what the operations of a step read and write, each tensor once an operation. The count of operations has a
    warm step before it.
    """
    step()
    counted = {"flops": flops(step), "bytes": bytes_moved(step)}
    parameters = sum(parameter.numel() for parameter in job.model.parameters())
    return {"parameters": parameters, **counted, **phases_of(job, step)}


def phases_of(job: Job, step: Step) -> dict[str, float]:
    """By the names in `PHASES`, the median seconds of a step."""
    with _phases(job) as seconds:
        seconds(step)  # what is compiled is compiled anew, as it has hooks now
        timed: list[dict[str, float]] = []
        while len(timed) < MOST and (len(timed) < FEWEST or sum(sum(one.values()) for one in timed) < ENOUGH_S):
            timed.append(seconds(step))
    return {phase: median(one[phase] for one in timed) for phase in PHASES}


def bytes_moved(step: Step) -> int:
    """Bytes that the operations of one step read and write, each tensor once an operation; views move nothing."""
    with _Traffic() as traffic:
        step()
    return int(traffic.bytes)


class _Traffic(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.bytes: int = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = operation(*args, **(kwargs or {}))
        if not operation.is_view:
            tensors = {id(one): one for one in tree_leaves((args, kwargs, found)) if isinstance(one, torch.Tensor)}
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        return found


@contextmanager
def _phases(job: Job) -> Iterator[Callable[[Step], dict[str, float]]]:
    """Hands out what steps once, and answers the seconds of each phase.

    All that comes before the model is called is loading, also putting gradients aside and copying to the device. What
    comes between the model's forward pass and the optimizer's step is backward, the loss included.
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

    _, forward, backward, stepping = PHASES
    handles = [job.model.register_forward_pre_hook(enter(forward))]
    handles.append(job.model.register_forward_hook(enter(backward if job.optimizer else LOADING)))
    if job.optimizer is not None:
        handles.append(job.optimizer.register_step_pre_hook(enter(stepping)))
        handles.append(job.optimizer.register_step_post_hook(enter(LOADING)))

    def once(step: Step) -> dict[str, float]:
        nonlocal since
        spent.update(dict.fromkeys(PHASES, 0.0))
        since = perf_counter()
        step()
        enter(LOADING)()
        return dict(spent)

    try:
        yield once
    finally:
        for handle in handles:
            handle.remove()
