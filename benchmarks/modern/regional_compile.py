"""Compile the block that repeats, not the whole model (regional compilation).

A transformer is one block, repeated. `model.compile()` unrolls it: the compiler traces, optimizes and
generates code for each layer as if it had never seen one. `block.compile()` on every block lets it do so once:
the second block finds the code of the first, as nothing differs but the parameters, and these are inputs.

Why people write the baseline: it is one line, the one in the tutorials.

What to expect: a lower one-off cost, the more so the more layers there are. A step may take longer: what lies
outside the blocks stays eager, nothing is fused across their borders, and compiled code is entered once a block.
So the verdict on the step's time is the price, if any. What it buys shows as the one-off cost, measured with
empty caches.
"""

import torch

from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="regional-compile",
    title="Compile repeated blocks once (regional compilation)",
    do=(
        "# in place of model.compile(). Blocks that differ in a number, such as a layer's index, compile once each, "
        "and again for evaluation and for another batch size.\n"
        "# Past 8 in all they run uncompiled: set a higher torch._dynamo.config.recompile_limit. Nor are checkpointed "
        "blocks compiled: compile the model\n"
        "for block in model.blocks: block.compile()  # torch 2.14 on: before, a block of torch.nn's own, such as "
        "nn.Sequential, stays uncompiled"
    ),
    when="you compile, and blocks are identical (those with an index of their own compile once each, 8 at most)",
    against="model.compile()",
    guide=("M7",),
    claim=Claim.SOONER,
    called="compilation by blocks",
    one_of="compiled model",
    mechanism=falls("operations compiled", lambda step: operations_compiled(step)),
    note="the cost avoided is that of compiling: see the one-off costs, not the speed of a step",
)


def regional_compile(job: Job) -> None:
    """The tip, on any job whose model has a list of blocks."""
    for block in repeated_blocks(job.model):
        block.compile()


def operations_compiled(step: Step) -> int:
    """Operations that one step has the compiler trace, when nothing is compiled yet."""
    # Imported here: it takes a second, which listing the pairs should not pay.
    from torch._dynamo.utils import counters

    # Code that this or another variant left in the process would be found and used.
    torch._dynamo.reset()
    before = counters["stats"]["calls_captured"]
    step()
    return counters["stats"]["calls_captured"] - before


class GPTTraining(TrainGPT, untuned=lambda job: job.model.compile(), apply=regional_compile):
    """Training a small GPT."""

    needs = (compiler(),)
    sizes = TrainGPT.sizes.but(test=dict(layers=2, context=8))


ON_ANY_JOB = (
    Way(
        regional_compile,
        needs_repeated_blocks,
        once="compiling",
        needs=(compiler(),),
        mechanism=appears("operations compiled", operations_compiled),
    ),
)
