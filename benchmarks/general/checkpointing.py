"""Checkpoint activations: compute them again in the backward pass instead of keeping them.

Training keeps the intermediate results of the forward pass until the backward pass has used them; in
deep models they fill most of the memory. `torch.utils.checkpoint.checkpoint(block, x)` keeps only the
block's input, and runs the block's forward pass once more when its gradients are wanted.

Why people write the baseline: it is simply the model, and it is right as long as the memory lasts.

What to expect: a lower peak of memory, and *more* time a step, for one forward pass more: counted in
matrix products, 23 % more work in the GPT here, 32 % in the vision transformer. The verdict to look at is
the memory; the time is its price. What is bought with the memory is a larger batch or a larger model.

The variant `memory_budget` leaves the choice to torch.compile: of what a compiled block would keep (as much as
the eager one) it keeps the share BUDGET, and computes again what costs the fewest operations. Compiling
fuses operations too, so the variant's time is not the price of computing again alone.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._functorch import config
from torch.utils.checkpoint import checkpoint

from benchmarks.jobs.image_classification import image_classification
from benchmarks.jobs.language_model import GPT, language_model
from tipbench.tip.counts import saved_bytes
from tipbench.tip.job import Job, MacroPair
from tipbench.tip.needs import compiler, torchvision
from tipbench.tip.pair import Claim, Pair, Step, Tip, requires, variant
from tipbench.tip.process import within

TIP = Tip(
    id="checkpointing",
    title="Checkpoint activations to save memory",
    guide=("A1.7",),
    claim=Claim.LEANER,
    note="slower per step by design: it trades time for memory",
)

BUDGET = 0.5
"""Of what a compiled block would keep for its backward pass: 1 keeps it all, 0 its input alone."""


def checkpointing(blocks: Iterable[nn.Module]) -> None:
    """The tip, on the blocks that a model runs one after the other."""
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def gpt_blocks(job: Job) -> nn.ModuleList:
    assert isinstance(job.model, GPT)
    return job.model.blocks


def run(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What `block(x)` does, as a function that is compiled once for all blocks."""
    y: torch.Tensor = type(block).forward(block, x)
    return y


def pointwise_block(x: torch.Tensor) -> torch.Tensor:
    for _ in range(8):
        x = torch.sin(x)
    return x


class DeepPointwise(Pair):
    """Blocks of eight pointwise operations, each of which keeps its input for the backward pass."""

    sizes = {"blocks": 4, "elements": 2**18}
    on_gpu = {"elements": 2**25}
    halved = ("elements",)
    test_sizes = {"blocks": 4, "elements": 100}

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

    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full once compiled.
    tolerance = 1e-3
    sizes = {"layers": 6, "width": 128, "context": 128, "batch": 4}
    on_gpu = {"layers": 12, "width": 768, "context": 512, "batch": 8}
    test_sizes = {"layers": 3, "width": 16, "context": 16, "batch": 2}

    def job(self) -> Job:
        return language_model(self.device, activation=nn.GELU, **self.size)

    def apply(self, job: Job) -> None:
        checkpointing(gpt_blocks(job))

    @variant
    @requires(compiler())
    @within(partial(config.patch, activation_memory_budget=BUDGET))
    def memory_budget(self) -> Step:
        job = self.job()
        compiled = torch.compile(run)
        for block in gpt_blocks(job):
            block.forward = partial(compiled, block)
        return job.step

    def mechanism(self, step: Step) -> int:
        """bytes saved for the backward pass"""
        return saved_bytes(step)


class VisionTransformerTraining(MacroPair):
    """Training a small vision transformer on JPEG files, loading included. It has dropout.

    What is dropped the first time must be dropped again the second: `checkpoint` keeps the state of the
    random numbers, and brings it back.
    """

    needs = (torchvision(),)
    sizes = {"batch": 2, "pixels": 112}
    on_gpu = {"batch": 32, "pixels": 224}
    test_sizes = {"batch": 2, "pixels": 32}

    def job(self) -> Job:
        return image_classification(self.device, model="small_vit", train=True, **self.size)

    def apply(self, job: Job) -> None:
        encoder: Any = job.model.encoder
        checkpointing(encoder.layers)

    def mechanism(self, step: Step) -> int:
        """bytes saved for the backward pass"""
        return saved_bytes(step)
