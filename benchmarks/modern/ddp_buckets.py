"""Let gradients be views of DistributedDataParallel's buckets: `gradient_as_bucket_view=True`.

DDP averages gradients in buckets of 25 MB. By default each gradient is a tensor of its own, copied into
its bucket before the all-reduce and back from it after. With `gradient_as_bucket_view=True` a gradient
*is* its place in the bucket: there is one copy of all gradients less in memory, and nothing to copy.

Why people write the baseline: `DistributedDataParallel(model)` is what every example says, and the flag
is off by default.

What to expect: less memory, by the size of the parameters, and a little time. `detach_()` on a gradient
does not work any more, and gradients must not be kept from one step to the next.

After `zero_grad()` as it is by default, which sets gradients to None, the next ones are copied into the buckets all
the same. torch 2.15 copies those of a bucket at once (`batched_grad_copy=True`; on a CPU they are copied one by one
even so), and makes buckets only while they are needed (`lazy_bucket_allocation=True`).

Both sides run in two processes under torchrun; the slower one counts. The harness has called
`init_process_group` before a method here is called.
"""

from typing import Any

from torch.nn.parallel import DistributedDataParallel

from benchmarks.jobs.language_model import ShareGPT
from tipbench.tip.words import *

TIP = Tip(
    id="ddp-buckets",
    title="Let gradients be views of DDP's buckets",
    do="model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)",
    ways={
        "with_static_graph": (
            "# static_graph: if each step uses the same parameters\n"
            "model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)"
        ),
        "batched_copies": "model = nn.parallel.DistributedDataParallel(model, batched_grad_copy=True)  # torch 2.15",
        "lazy_buckets": (
            "model = nn.parallel.DistributedDataParallel("
            "model, gradient_as_bucket_view=True, lazy_bucket_allocation=True)  # torch 2.15"
        ),
    },
    when="you train with DDP",
    against="DistributedDataParallel(model), in two processes",
    guide=("M9",),
    claim=Claim.LEANER,
    called="gradients as views",
    mechanism=falls("copies of tensors", lambda step: calls(step, "aten::copy_")),
    why_not="The copy that is saved is as large as the parameters: little, where activations need most of the memory.",
)


class GPTTraining(ShareGPT):
    """Training a small GPT in two processes, each with its own share of the text."""

    def training(self, **settings: Any) -> Step:
        """settings: of DistributedDataParallel."""
        job = self.job()
        job.model = DistributedDataParallel(job.model, **settings)
        return job.step

    def baseline(self) -> Step:
        return self.training()

    def optimized(self) -> Step:
        return self.training(gradient_as_bucket_view=True)

    @variant
    def with_static_graph(self) -> Step:
        return self.training(gradient_as_bucket_view=True, static_graph=True)

    @variant
    @requires(gpu(), torch_from(2, 15))
    def batched_copies(self) -> Step:
        return self.training(batched_grad_copy=True)

    @variant
    @requires(torch_from(2, 15))
    def lazy_buckets(self) -> Step:
        return self.training(gradient_as_bucket_view=True, lazy_bucket_allocation=True)
