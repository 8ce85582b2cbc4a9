"""Allocate for the longest input first.

PyTorch keeps GPU memory that is given back, and hands it out again to whatever fits. Where inputs grow, nothing that
is kept fits: each longer batch than all before has new memory allocated, which is slow and makes the processor wait,
and leaves the old pieces behind, too small for anything. One forward and backward pass at the greatest length, whose
gradients are thrown away, leaves pieces that everything fits into.

Why people write the baseline: memory is PyTorch's business, and the loop simply starts.

What to expect: a difference over the first batches only, and less memory reserved. An epoch or two later both sides
have all they need. So each step starts without any kept memory: it is given back before, on both sides and outside
the clock. The variant `expandable_segments` lets a piece grow in place instead, by an environment variable, and needs
no extra pass. Growing is a request to the driver, too: there less is reserved, but not requested less often.
"""

import torch
from torch import nn

from benchmarks.jobs.sequences import LSTMReader, SourceLines, line_vectors
from tipbench.tip.words import *


def requests_and_reserved(step: Step) -> dict[str, int]:
    """Of a second step that starts without any kept memory, as the first one did."""
    torch.cuda.empty_cache()
    step()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    step()
    after = torch.cuda.memory_stats()
    requests = after["num_device_alloc"] - before["num_device_alloc"]
    return {"requests": requests, "reserved": after["reserved_bytes.all.peak"]}


def fewer_or_less(baseline: dict[str, int], optimized: dict[str, int]) -> bool:
    return optimized["requests"] < baseline["requests"] or optimized["reserved"] < baseline["reserved"]


TIP = Tip(
    id="preallocate",
    title="Allocate for the longest input first",
    do=(
        "# before the first step; not with batch norm, whose statistics it changes; under autocast if your loop is\n"
        "longest = max(len(sample[0]) for sample in data)\n"
        "model(torch.ones(loader.batch_size, longest, dtype=torch.long, device=device)).sum().backward()\n"
        "model.zero_grad()"
    ),
    ways={"expandable_segments": "PYTORCH_ALLOC_CONF=expandable_segments:True python train.py"},
    when="inputs differ in length",
    against="batches in the order in which they come",
    guide=("A3.7", "M10"),
    claim=Claim.FASTER,
    called="the longest input first",
    mechanism=Mechanism(
        "requests for memory to the driver, and bytes reserved at most", requests_and_reserved, fewer_or_less
    ),
)


def preallocate(job: Job) -> None:
    """The tip, on any job over sequences whose lengths are known beforehand, in batches of the same number."""
    assert isinstance(job.data, SourceLines)
    inputs, _ = next(iter(job.loader()))
    longest = torch.ones(len(inputs), max(job.data.lengths), dtype=inputs.dtype, device=job.device)
    job.model(longest).sum().backward()
    job.model.zero_grad()


class LSTMEpoch(Pair):
    """The first epoch of training an LSTM on lines of all lengths, from cold."""

    task = "training"
    scale = "macro"
    devices = ("cuda",)
    needs = (gpu(1),)
    # The pass at the greatest length is needed once: an epoch of few batches would be charged too much of it.
    sizes = Sizes(
        dict(layers=2, width=256, lines=4096, batch=64),
        L=dict(width=512, lines=16384, batch=256),
        test=dict(layers=1, width=64, lines=256, batch=64),
    )

    def build(self, first_the_longest: bool) -> Step:
        job = line_vectors(self.device, LSTMReader, **self.size)
        job.model.train().requires_grad_(True)

        def step() -> nn.Module:
            job.model.zero_grad()
            if first_the_longest:
                preallocate(job)
            for lines, numbers in job.loader():
                job.run(lines, numbers).square().mean().backward()
            return job.model

        return step

    def baseline(self) -> Step:
        return self.build(first_the_longest=False)

    def optimized(self) -> Step:
        return self.build(first_the_longest=True)

    @variant
    @process_settings(env={"PYTORCH_ALLOC_CONF": "expandable_segments:True"})
    def expandable_segments(self) -> Step:
        return self.build(first_the_longest=False)

    def before_step(self) -> None:
        """Give back to the driver what the allocator keeps."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
