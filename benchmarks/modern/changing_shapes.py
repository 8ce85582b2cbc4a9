"""Tell the compiler which sizes change from batch to batch.

`torch.compile` takes every size of its first batch for a constant. A batch of another size, such as a shorter last
batch or longer sequences, has the model compiled a second time, then for all sizes in the dimension that has changed.
Who knows beforehand that it changes says so, and the model is compiled once: `torch._dynamo.maybe_mark_dynamic(batch,
1)` marks one dimension, and `dynamic=True` all sizes of all inputs.

Why people write the baseline: `model.compile()` works with batches of any size. That it compiles twice shows nowhere
but as a wait in the first epoch, or at its end if only the last batch is shorter.

What to expect: about half the one-off cost. A step may take longer, as loops of unknown length are harder to optimize;
but after the second compilation the baseline runs such loops too, except on batches of the very first size.

What no mark helps against: a size of 1 is always a constant (a last batch of one sample compiles anew), and so is one
that the model's code compares with a number. A size that stays compiled in while others change compiles anew for each
of them, and after eight no longer: the model then runs as written, with a warning that is easily overlooked.
`TORCH_LOGS=recompiles` prints each compilation and its cause. `mark_dynamic` raises an error where a marked size is
made a constant; `maybe_mark_dynamic` does not. `dynamic=False` compiles for each size by itself: that pays where there
are few, as when sequences are padded to one of a few lengths. In training, `DataLoader(drop_last=True)` needs nothing
of this, if only the last batch is shorter.
"""

import torch

from benchmarks.jobs.sequences import RunReader
from tipbench.tip.words import *

TIP = Tip(
    id="changing-shapes",
    title="Tell the compiler which sizes change from batch to batch",
    do=(
        "model.compile()  # torch 2.14 on: before, a model of torch.nn's own, such as nn.Sequential, stays uncompiled\n"
        "from torch._dynamo import maybe_mark_dynamic\n"
        "# each tensor that the model takes, right before the call, after any .to(): each dimension that changes\n"
        "# (0 too, if the last batch is smaller); a dimension of 1 is compiled by itself\n"
        "maybe_mark_dynamic(batch, 1)\n"
        "outputs = model(batch)"
    ),
    ways={"all_sizes": "model.compile(dynamic=True)"},
    when="you compile a model, and batches differ in size",
    against="model.compile()",
    guide=("M22",),
    claim=Claim.SOONER,
    called="marked sizes",
    one_of="compiled model",
    mechanism=falls("graphs compiled", lambda step: graphs_compiled(step)),
    note="the cost avoided is that of compiling again: see the one-off costs, not the speed of a step",
)


def graphs_compiled(step: Step) -> int:
    """Graphs that one step has compiled, or taken from the cache, when the process has none yet."""
    # Imported here: it takes a second, which listing the pairs should not pay.
    from torch._dynamo.utils import counters

    # Code that this or another variant left in the process would be found and used, and so would its sizes.
    torch.compiler.reset()
    before = counters["stats"]["unique_graphs"]
    step()
    return counters["stats"]["unique_graphs"] - before


def any_length(tokens: torch.Tensor) -> torch.Tensor:
    """The same tensor, whose second dimension may have any size in further calls of what it is compiled for."""
    torch._dynamo.maybe_mark_dynamic(tokens, 1)
    return tokens


def mark_lengths(job: Job) -> None:
    """The tip, on any job over sequences: inputs are (batch, tokens)."""
    job.model.compile()
    job.convert_inputs(any_length)


class TransformerEpoch(RunReader, untuned=lambda job: job.model.compile(), apply=mark_lengths):
    """A small Transformer run over lines of source text, each batch padded to its longest line: one epoch."""

    needs = (compiler(),)

    @process_settings(own_process=True)  # in one process each side would run the code that the other has compiled
    def optimized(self) -> Step:
        return super().optimized()

    @variant
    @process_settings(own_process=True)
    def all_sizes(self) -> Step:
        return self.applied(lambda job: job.model.compile(dynamic=True))
