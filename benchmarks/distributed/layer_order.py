"""Construct layers in the order in which they are used, with `find_unused_parameters=True`.

DistributedDataParallel averages gradients in buckets, and sends off a bucket as soon as its last
gradient is there, while the backward pass goes on. It fills the buckets from the last constructed
parameter to the first, because the backward pass comes to the last used layer first, and it sends them
in that order only. Where layers were constructed in another order, the first bucket waits for the end of
the backward pass, and all others wait behind it: nothing overlaps.

Usually it corrects that by itself: after the first step it fills its buckets anew, in the order in which
gradients have come. With `find_unused_parameters=True` it does not, because that order may change from
step to step. So the tip is for those who need the flag; the variant `without_the_flag` keeps the reversed order and
does without it.

Why people write the baseline: the order of lines in `__init__` changes nothing in what a model computes,
and nothing warns of it.

What to expect: on GPUs or over a slow network, as much of the averaging hidden as the backward pass has
room for. On a CPU whose cores are all busy with the backward pass there is little to win by overlapping.

Both sides run in two processes under torchrun; the slower one counts. DDP's buckets of 25 MiB would
hold the whole model, so these hold a quarter of it.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.jobs.language_model import GPT, ShareGPT
from tipbench.tip.words import *


def ready_before_averaging(step: Step) -> int:
    """Gradients that the backward pass has finished when the first all-reduce starts; the fewer, the more overlap."""
    for _ in range(3):  # without the flag DDP fills its buckets anew after the first step
        step()
    with torch.autograd.profiler.profile(use_kineto=False) as watched:
        step()
    events = sorted(watched.function_events, key=lambda event: event.time_range.start)
    names = [event.name for event in events]
    return names[: names.index("c10d::allreduce_")].count("torch::autograd::AccumulateGrad")


TIP = Tip(
    id="layer-order",
    title="Construct layers in the order of their use",
    do="self.layers = nn.ModuleList(layers)  # in the order in which forward() uses them",
    ways={"without_the_flag": "model = nn.parallel.DistributedDataParallel(model)  # if each step uses all parameters"},
    when="DDP needs find_unused_parameters=True",
    against="layers in another order, in two processes",
    guide=("A4.3",),
    claim=Claim.FASTER,
    called="layers in the order of their use",
    mechanism=falls("gradients ready before the first all-reduce", ready_before_averaging),
    note="without find_unused_parameters=True DDP puts its buckets in order by itself, after the first step",
    why_not="On a CPU, gloo's exchange and the backward pass want the same cores, so overlapping them gains little.",
)


def quarter(model: nn.Module) -> float:
    """MiB in a quarter of the model's parameters."""
    return sum(parameter.nbytes for parameter in model.parameters()) / 4 / 2**20


class LastLayerFirst(nn.Module):
    """The GPT, had its layers been written down from the last to the first; names and weights are the same."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.head = gpt.head
        self.norm = gpt.norm
        self.blocks = nn.ModuleDict({str(number): block for number, block in reversed(list(enumerate(gpt.blocks)))})
        self.positions = gpt.positions
        self.bytes = gpt.bytes

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.bytes(tokens) + self.positions.weight[: tokens.shape[1]]
        for number in range(len(self.blocks)):
            x = self.blocks[str(number)](x)
        scores: torch.Tensor = self.head(self.norm(x))
        return scores.transpose(1, 2)


class GPTTraining(ShareGPT):
    """Training a small GPT; each process has its own share of the text."""

    def training(self, reverse: bool, **options: Any) -> Step:
        """options: for DistributedDataParallel."""
        job = self.job()
        assert isinstance(job.model, GPT)
        model = LastLayerFirst(job.model) if reverse else job.model
        job.model = DistributedDataParallel(model, bucket_cap_mb=quarter(model), **options)
        return job.step

    def baseline(self) -> Step:
        return self.training(reverse=True, find_unused_parameters=True)

    def optimized(self) -> Step:
        return self.training(reverse=False, find_unused_parameters=True)

    @variant
    def without_the_flag(self) -> Step:
        return self.training(reverse=True)
