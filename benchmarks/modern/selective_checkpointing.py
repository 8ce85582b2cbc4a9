"""Checkpoint selectively: keep what is dear to compute again.

Checkpointing a block keeps its input alone and repeats all of its forward pass in the backward pass. The
dear part of that are a few matrix products, whose results are no larger than the many cheap ones around
them. Selective checkpointing keeps the results of these, and computes only the rest again.

Why people write the baseline: `checkpoint(block, x)` is what the guides say.

What to expect: time between that of checkpointing and that of none, and memory between the two as well.
In eager mode each operation of the block passes through Python, which costs more than it saves where
operations are small.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from benchmarks.jobs.language_model import TrainGPT, gpt_blocks
from tipbench.tip.words import Claim, Job, Pair, Sizes, Step, Tip, falls, flops

TIP = Tip(
    id="selective-checkpointing",
    title="Checkpoint selectively",
    do="checkpoint(..., context_fn=create_selective_checkpoint_contexts)",
    when="memory is short",
    guide=("M8",),
    claim=Claim.FASTER,
    mechanism=falls("floating-point operations of matrix products", flops),
    note="compared with checkpointing everything, not with none: faster for some of the memory",
)

DEAR = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
"""The operations of linear layers."""


def whole(block: Callable[..., Any]) -> Callable[..., Any]:
    return partial(checkpoint, block, use_reentrant=False)


def selective(block: Callable[..., Any]) -> Callable[..., Any]:
    keep = partial(create_selective_checkpoint_contexts, DEAR)
    return partial(checkpoint, block, use_reentrant=False, context_fn=keep)


def selective_checkpointing(job: Job) -> None:
    """The tip, on any job whose model is a GPT."""
    for block in gpt_blocks(job):
        block.forward = selective(block.forward)


def whole_checkpointing(job: Job) -> None:
    """The same, of every operation."""
    for block in gpt_blocks(job):
        block.forward = whole(block.forward)


class Perceptrons(Pair):
    """Blocks of a linear layer and eight pointwise operations, forward and backward."""

    sizes = Sizes(
        dict(blocks=4, batch=256, width=512),
        gpu=dict(batch=8192, width=2048),
        test=dict(blocks=2, batch=4, width=8),
    )

    def step_with(self, wrapped: Callable[..., Callable[..., Any]]) -> Step:
        width = self.size["width"]
        layers = [nn.Linear(width, width, device=self.device) for _ in range(self.size["blocks"])]
        model = nn.ModuleList(layers)
        x = torch.randn(self.size["batch"], width, device=self.device)

        def block(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = layer(x)
            for _ in range(8):
                y = torch.sin(y)
            return y

        blocks = [wrapped(partial(block, layer)) for layer in layers]

        def step() -> tuple[torch.Tensor, nn.Module]:
            model.zero_grad()
            y = x
            for each in blocks:
                y = each(y)
            loss = y.square().mean()
            loss.backward()
            return loss.detach(), model

        return step

    def baseline(self) -> Step:
        return self.step_with(whole)

    def optimized(self) -> Step:
        return self.step_with(selective)


class GPTTraining(TrainGPT, untuned=whole_checkpointing, apply=selective_checkpointing):
    """Training a small GPT, every block checkpointed: wholly, or all but its linear layers."""

    sizes = Sizes(
        dict(layers=4, width=128, context=128, batch=4),
        gpu=dict(layers=12, width=768, context=512, batch=8),
        test=dict(layers=2, width=16, context=16, batch=2),
    )
