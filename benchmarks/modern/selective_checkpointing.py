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

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from benchmarks.jobs.language_model import MANY_TOKENS, TrainGPT
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


def checkpoint_every(job: Job, nth: int, **options: Any) -> None:
    """Checkpoint every nth block, on any job whose model has a list of blocks. options: of `checkpoint`."""
    for block in repeated_blocks(job.model)[nth - 1 :: nth]:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False, **options)


class GPTTraining(
    TrainGPT,
    untuned=partial(checkpoint_every, nth=1),
    apply=partial(checkpoint_every, nth=1, context_fn=partial(create_selective_checkpoint_contexts, DEAR)),
    every_second=partial(checkpoint_every, nth=2),
    none=as_it_is,
):
    """Training a GPT on so many tokens at once that activations outweigh parameters and optimizer state: otherwise the
    peak of memory is the optimizer's, and no side has less than the others."""

    sizes = MANY_TOKENS
