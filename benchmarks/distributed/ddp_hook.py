"""Let DistributedDataParallel average gradients in bfloat16.

DDP sends as many bytes a step as the parameters have. With `bf16_compress_hook` it rounds each bucket of gradients to
bfloat16 before the all-reduce, and back after it, so that half as many bytes are sent.

Why people write the baseline: DDP averages gradients in the type that they have, which is float32 also under autocast.

What to expect: less time where the connection between the processes is what a step waits for, as over Ethernet. On one
machine rounding costs about what it saves. Each gradient is off by up to 0.4 % of itself, as bfloat16 has 8 bits.

Both sides run in two processes under torchrun; the slower one counts.
"""

from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from benchmarks.jobs.language_model import ShareGPT
from tipbench.tip.words import *


def averaged_in_bfloat16(step: Step) -> int:
    """All-reduces of bfloat16 in a step."""
    with patch.object(dist, "all_reduce", wraps=dist.all_reduce) as called:
        step()
    return sum(call.args[0].dtype == torch.bfloat16 for call in called.call_args_list)


TIP = Tip(
    id="ddp-hook",
    title="Average gradients in bfloat16",
    do=(
        "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook\n"
        "model = nn.parallel.DistributedDataParallel(model)\n"
        "model.register_comm_hook(None, bf16_compress_hook)"
    ),
    when="processes exchange gradients over a slow connection, and the loss bears gradients of three digits",
    against="gradients averaged in float32, in two processes",
    guide=("M34",),
    claim=Claim.FASTER,
    mechanism=appears("all-reduces of bfloat16", averaged_in_bfloat16),
    why_not="Processes of one machine exchange gradients in its memory: that takes about as long as rounding them.",
)


class GPTTraining(ShareGPT):
    """Training a small GPT; each process has its own share of the text."""

    tolerance = 1e-2

    def step_of(self, job: Job) -> Step:
        """A step that returns gradients: AdamW makes whole steps of the rounding of those that are nearly zero."""
        return lambda: [parameter.grad for parameter in job.step()[1].parameters()]

    def baseline(self) -> Step:
        job = self.job()
        job.model = DistributedDataParallel(job.model)
        return self.step_of(job)

    def optimized(self) -> Step:
        job = self.job()
        job.model = DistributedDataParallel(job.model)
        job.model.register_comm_hook(None, bf16_compress_hook)
        return self.step_of(job)
