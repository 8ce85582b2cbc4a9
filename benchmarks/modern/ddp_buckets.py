"""Let gradients be views of DistributedDataParallel's buckets: `gradient_as_bucket_view=True`.

DDP averages gradients in buckets of 25 MB. By default each gradient is a tensor of its own, copied into
its bucket before the all-reduce and back from it after. With `gradient_as_bucket_view=True` a gradient
*is* its place in the bucket: there is one copy of all gradients less in memory, and nothing to copy.

Why people write the baseline: `DistributedDataParallel(model)` is what every example says, and the flag
is off by default.

What to expect: less memory, by the size of the parameters, and a little time. `detach_()` on a gradient
does not work any more, and gradients must not be kept from one step to the next.

Both sides run in two processes under torchrun; the slower one counts. The harness has called
`init_process_group` before a method here is called.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from benchmarks.jobs.language_model import language_model
from tipbench.tip.counts import calls
from tipbench.tip.needs import cores
from tipbench.tip.pair import Claim, Pair, Step, Tip, variant
from tipbench.tip.process import process_settings

TIP = Tip(
    id="ddp-buckets",
    title="Let gradients be views of DDP's buckets",
    guide=("M9",),
    claim=Claim.LEANER,
    why_not=(
        "One bucket waits for all gradients, many pay for each exchange; between them the curve is flat on one machine."
    ),
)


class LargeLinear(Pair):
    """Forward and backward pass of a linear layer whose gradient is large and cheap to compute."""

    needs = (cores(2),)
    sizes = {"width": 1024, "batch": 8}
    on_gpu = {"width": 8192, "batch": 64}
    test_sizes = {"width": 16}

    def step_with(self, **settings: Any) -> Step:
        layer = nn.Linear(self.size["width"], self.size["width"], device=self.device)
        model = DistributedDataParallel(layer, **settings)
        batch = torch.randn(self.size["batch"], self.size["width"], device=self.device)

        def step() -> nn.Module:
            model.zero_grad()
            model(batch).square().mean().backward()
            return model

        return step

    @process_settings(ranks=2)
    def baseline(self) -> Step:
        return self.step_with()

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        return self.step_with(gradient_as_bucket_view=True)

    @variant
    @process_settings(ranks=2)
    def with_static_graph(self) -> Step:
        return self.step_with(gradient_as_bucket_view=True, static_graph=True)

    def mechanism(self, step: Step) -> int:
        """copies of tensors"""
        return calls(step, "aten::copy_")


class GPTTraining(Pair):
    """Training a small GPT; each process has its own share of the text."""

    scale = "macro"
    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    needs = (cores(2),)
    sizes = {"layers": 2, "width": 128, "context": 64, "batch": 4}
    on_gpu = {"layers": 12, "width": 768, "context": 256, "batch": 8}
    test_sizes = {"layers": 1, "width": 16, "context": 8}

    def step_with(self, **settings: Any) -> Step:
        job = language_model(self.device, activation=nn.GELU, **self.size)
        job.model = DistributedDataParallel(job.model, **settings)
        job.loading["sampler"] = DistributedSampler(job.data)
        return job.step

    @process_settings(ranks=2)
    def baseline(self) -> Step:
        return self.step_with()

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        return self.step_with(gradient_as_bucket_view=True)

    @variant
    @process_settings(ranks=2)
    def with_static_graph(self) -> Step:
        return self.step_with(gradient_as_bucket_view=True, static_graph=True)

    def mechanism(self, step: Step) -> int:
        """copies of tensors"""
        return calls(step, "aten::copy_")
