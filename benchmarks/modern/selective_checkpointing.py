"""Checkpoint selectively: keep what is dear to compute again.

Checkpointing a block keeps its input alone and repeats all of its forward pass in the backward pass. The
dear part of that are a few matrix products. Selective checkpointing keeps their results, and computes only
the rest again.

Why people write the baseline: `checkpoint(block, x)` around every block is what the guides say.

What to expect: less time than the baseline, for some of the memory that it saves. Four ways are compared,
each with the baseline:

| variant | kept for the backward pass | computed again |
|---|---|---|
| baseline | the blocks' inputs | everything |
| `optimized` | the blocks' inputs and results of linear layers, about half of all | all but linear layers |
| `every_second` | everything of every second block: about half of all, too | every second block |
| `none` | everything | nothing |

So `optimized` must beat `every_second`, which needs about the same memory and one line less. And it must not be
compared with `none`, the fastest, where the memory lasts. In eager mode each operation of a selectively
checkpointed block passes through Python, which costs more than it saves where operations are small.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="selective-checkpointing",
    title="Checkpoint selectively",
    do=(
        "from functools import partial\n"
        "from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts\n"
        "kept = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]  # results of linear layers\n"
        "contexts = partial(create_selective_checkpoint_contexts, kept)\n"
        "# model.blocks: what your model repeats\n"
        "# in place of your checkpoint(), not around it. Compile the model, not the blocks\n"
        "# save model.state_dict(): torch.save(model) raises; Hugging Face: model.config.use_cache = False\n"
        "for block in model.blocks: block.forward = partial(checkpoint, block.forward, use_reentrant=False, "
        "context_fn=contexts)"
    ),
    ways={
        "none": "",
        "every_second": (
            "from functools import partial\n"
            "# model.blocks: what your model repeats\n"
            "# In place of your checkpoint(). block.compile() does nothing here: compile the model\n"
            "for block in model.blocks[1::2]: block.forward = partial(torch.utils.checkpoint.checkpoint, "
            "block.forward, use_reentrant=False)"
        ),
    },
    when="every block is checkpointed, none keeps state (batch norm, counters) or has inplace=True, and memory is left",
    against="every block checkpointed wholly",
    guide=("M8",),
    claim=Claim.FASTER,
    called="matrix products stored",
    mechanism=falls("floating-point operations of matrix products", flops),
    note="compared with checkpointing every block wholly: faster for some of the memory; `none` is the fastest",
)

DEAR = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
"""The operations of linear layers."""

Block = Callable[..., Any]


def whole(block: Block) -> Block:
    return partial(checkpoint, block, use_reentrant=False)


def selective(block: Block) -> Block:
    keep = partial(create_selective_checkpoint_contexts, DEAR)
    return partial(checkpoint, block, use_reentrant=False, context_fn=keep)


def all_whole(blocks: Iterable[Block]) -> list[Block]:
    return [whole(block) for block in blocks]


def all_selective(blocks: Iterable[Block]) -> list[Block]:
    return [selective(block) for block in blocks]


def every_second_whole(blocks: Iterable[Block]) -> list[Block]:
    return [whole(block) if index % 2 else block for index, block in enumerate(blocks)]


def checkpointing(job: Job, wrapped: Callable[[Iterable[Block]], list[Block]]) -> None:
    """A way to checkpoint, on any job whose model has a list of blocks."""
    blocks = repeated_blocks(job.model)
    for block, forward in zip(blocks, wrapped([block.forward for block in blocks]), strict=True):
        block.forward = forward


class Perceptrons(Pair):
    """Blocks of a linear layer and eight pointwise operations, forward and backward."""

    sizes = Sizes(
        dict(blocks=4, batch=256, width=768),
        L=dict(batch=8192, width=2048),
        test=dict(blocks=2, batch=4, width=8),
    )

    def step_with(self, wrapped: Callable[[Iterable[Block]], list[Block]]) -> Step:
        width = self.size["width"]
        layers = [nn.Linear(width, width, device=self.device) for _ in range(self.size["blocks"])]
        model = nn.ModuleList(layers)
        x = torch.randn(self.size["batch"], width, device=self.device)

        def block(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = layer(x)
            for _ in range(8):
                y = torch.sin(y)
            return y

        blocks = wrapped([partial(block, layer) for layer in layers])

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
        return self.step_with(all_whole)

    def optimized(self) -> Step:
        return self.step_with(all_selective)


class GPTTraining(
    TrainGPT,
    untuned=partial(checkpointing, wrapped=all_whole),
    apply=partial(checkpointing, wrapped=all_selective),
    every_second=partial(checkpointing, wrapped=every_second_whole),
    none=as_it_is,
):
    """Training a GPT on so many tokens at once that activations outweigh parameters and optimizer state: otherwise the
    peak of memory is the optimizer's, and no side has less than the others."""

    sizes = Sizes(
        dict(layers=4, width=256, context=256, batch=8),
        M=dict(layers=8, width=512),
        L=dict(layers=12, width=768, context=512, batch=8),
        XL=dict(context=1024, batch=32),
        test=dict(layers=2, width=16, context=16, batch=2),
    )
