"""Checkpoint activations: compute them again in the backward pass instead of keeping them.

Training keeps the intermediate results of the forward pass until the backward pass has used them; in
deep models they fill most of the memory. `torch.utils.checkpoint.checkpoint(block, x)` keeps only the
block's input, and runs the block's forward pass once more when its gradients are wanted.

Why people write the baseline: it is simply the model, and it is right as long as the memory lasts.

What to expect: a lower peak of memory, and *more* time a step, up to a third. The verdict to look at is
the memory; the time is its price. What is bought with the memory is a larger batch or a larger model.
"""

from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.jobs.language_model import GPT, language_model
from harness.job import Job, MacroPair
from harness.mechanism import saved_bytes
from harness.pair import Claim, Pair, Step, Tip

TIP = Tip(
    id="checkpointing",
    title="Checkpoint activations to save memory",
    guide=("A1.7",),
    claim=Claim.LEANER,
    note="slower per step by design: it trades time for memory",
)


def checkpointing(job: Job) -> None:
    """The tip, on any job whose model has `blocks`."""
    assert isinstance(job.model, GPT)
    for block in job.model.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def pointwise_block(x: torch.Tensor) -> torch.Tensor:
    for _ in range(8):
        x = torch.sin(x)
    return x


class DeepPointwise(Pair):
    """Blocks of eight pointwise operations, each of which keeps its input for the backward pass."""

    sizes = {"blocks": 4, "elements": 2**19}
    tiny = {"blocks": 4, "elements": 100}

    def inputs(self) -> torch.Tensor:
        return torch.randn(self.size["elements"], device=self.device, requires_grad=True)

    def baseline(self) -> Step:
        x = self.inputs()

        def step() -> tuple[torch.Tensor, torch.Tensor]:
            y = x
            for _ in range(self.size["blocks"]):
                y = pointwise_block(y)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            return y.detach(), gradient

        return step

    def optimized(self) -> Step:
        x = self.inputs()

        def step() -> tuple[torch.Tensor, torch.Tensor]:
            y = x
            for _ in range(self.size["blocks"]):
                y = checkpoint(pointwise_block, y, use_reentrant=False)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            return y.detach(), gradient

        return step

    def mechanism(self, step: Step) -> int:
        """bytes saved for the backward pass"""
        return saved_bytes(step)


class GPTTraining(MacroPair):
    """Training a GPT of six blocks, so that the activations outweigh parameters and optimizer state."""

    sizes = {"layers": 6, "width": 128, "context": 128, "batch": 8}
    tiny = {"layers": 3, "width": 16, "context": 16, "batch": 2}

    def job(self) -> Job:
        return language_model(self.device, activation=nn.GELU, **self.size)

    def apply(self, job: Job) -> None:
        checkpointing(job)

    def mechanism(self, step: Step) -> int:
        """bytes saved for the backward pass"""
        return saved_bytes(step)
