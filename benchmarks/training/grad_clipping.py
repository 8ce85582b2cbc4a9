"""Clip gradients, all tensors at once.

`clip_grad_norm_(parameters, 1.0)` scales all gradients down together where their norm is above 1, so that
one bad batch cannot throw the weights far off. It is a cost in time, and buys stability.

The norm and the scaling need two operations for each gradient. `clip_grad_norm_` calls them tensor by
tensor from Python (`foreach=False`), or hands all tensors over at once. The second is what it does by
default, on CPUs as on CUDA GPUs; optimizers, in contrast, work tensor by tensor on CPUs by default.

Why people write the baseline: tensor by tensor was the only way before torch 2.0, and a loop over
`parameter.grad` of one's own still is. The baseline here is the old way on purpose.

What to expect: on a GPU nearly all launches of the clipping saved. On a CPU both ways run the same loops
inside, and only the calls from Python are saved: a part of the clipping where tensors are small, next to
nothing of a whole step. That some training diverges without clipping, which is what it is for, is not
measured here yet.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from benchmarks.jobs.language_model import language_model
from harness.job import Job, MacroPair
from harness.mechanism import operations
from harness.pair import Claim, Pair, Step, Tip

TIP = Tip(
    id="grad-clipping",
    title="Clip gradients, all tensors at once",
    guide=("B8",),
    claim=Claim.FASTER,
    status="default now (since torch 2.0)",
    note=(
        "Clipping itself costs time and buys stability; measured here is the faster way to clip, "
        "not yet what diverges without it. With a GradScaler call unscale_ first."
    ),
)

MAX_NORM = 1.0


def grad_clipping(job: Job, foreach: bool | None = None) -> None:
    """The tip, on any training job: clip between the backward pass and the optimizer's step."""
    assert job.optimizer is not None
    parameters = [parameter for group in job.optimizer.param_groups for parameter in group["params"]]

    def clip(*_: Any) -> None:
        clip_grad_norm_(parameters, MAX_NORM, foreach=foreach)

    job.optimizer.register_step_pre_hook(clip)


class SmallGradients(Pair):
    """Clipping five hundred small gradients, which are set anew before, all with one copy."""

    sizes = {"parameters": 500, "elements": 1000}
    tiny = {"parameters": 10, "elements": 100}

    def gradients(self) -> tuple[nn.ParameterList, torch.Tensor, torch.Tensor]:
        """(the parameters, the memory all their gradients lie in, what that holds before clipping)."""
        count, elements = self.size["parameters"], self.size["elements"]
        unclipped = torch.randn(count, elements, device=self.device)
        memory = torch.zeros_like(unclipped)
        model = nn.ParameterList([nn.Parameter(torch.zeros(elements, device=self.device)) for _ in range(count)])
        for parameter, gradient in zip(model.parameters(), memory, strict=True):
            parameter.grad = gradient
        return model, memory, unclipped

    def baseline(self) -> Step:
        model, memory, unclipped = self.gradients()
        parameters = list(model.parameters())

        def step() -> tuple[torch.Tensor, nn.Module]:
            memory.copy_(unclipped)
            return clip_grad_norm_(parameters, MAX_NORM, foreach=False), model

        return step

    def optimized(self) -> Step:
        model, memory, unclipped = self.gradients()
        parameters = list(model.parameters())

        def step() -> tuple[torch.Tensor, nn.Module]:
            memory.copy_(unclipped)
            return clip_grad_norm_(parameters, MAX_NORM), model

        return step

    def mechanism(self, step: Step) -> int:
        """operations dispatched"""
        return operations(step)


class GPTTraining(MacroPair):
    """Training a narrow GPT of twelve blocks, clipped in each step: many gradients, none of them large."""

    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    sizes = {"layers": 12, "width": 64, "context": 64, "batch": 2}
    tiny = {"layers": 1, "width": 16, "context": 8}

    def job(self) -> Job:
        return language_model(self.device, activation=nn.GELU, **self.size)

    def baseline(self) -> Step:
        job = self.job()
        grad_clipping(job, foreach=False)
        return job.step

    def apply(self, job: Job) -> None:
        grad_clipping(job)

    def mechanism(self, step: Step) -> int:
        """operations dispatched"""
        return operations(step)
