"""Create tensors on the device they are used on.

`torch.zeros(n).cuda()` fills memory of the host, copies it to the GPU and throws it away. `torch.zeros(n,
device="cuda")` is one kernel.

Why people write the baseline: a tensor is created as on the CPU, and `.cuda()` is what one learns first.

What to expect: the larger the tensor, the more: a copy takes some 25 GB/s, the GPU's own memory a hundred times
that. The copy also makes the processor wait. In a whole model little is created anew in each step, such as a mask.

Random numbers differ: each device has a generator of its own. So what is compared here is filled with constants.
Never run on a GPU so far.
"""

import torch
from torch import nn

from benchmarks.jobs.language_model import Block, language_model
from tipbench.tip.counts import copies_to_device
from tipbench.tip.job import Job, MacroPair
from tipbench.tip.needs import gpu
from tipbench.tip.pair import Claim, Equal, Pair, Step, Tip

TIP = Tip(
    id="create-on-device",
    title="Create tensors on the device they are used on",
    guide=("A3.5",),
    claim=Claim.FASTER,
)


class _Created(Pair):
    devices = ("cuda",)
    needs = (gpu(1),)

    def mechanism(self, step: Step) -> int:
        """copies from the host"""
        return sum(copies_to_device(step).values())


class Constants(_Created):
    """Tensors of growing size, filled with a number each."""

    equal = Equal.BITWISE
    sizes = {"smallest": 1000, "largest": 10_000_000}
    test_sizes = {"largest": 10_000}

    def elements(self) -> list[int]:
        found = [self.size["smallest"]]
        while found[-1] < self.size["largest"]:
            found.append(10 * found[-1])
        return found

    def baseline(self) -> Step:
        elements, value = self.elements(), torch.rand(()).item()
        return lambda: [torch.full((count,), value).to(self.device) for count in elements]

    def optimized(self) -> Step:
        elements, value = self.elements(), torch.rand(()).item()
        return lambda: [torch.full((count,), value, device=self.device) for count in elements]


def masked_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Causal attention with a mask that is made on the host, as it often is."""
    tokens = query.shape[2]
    mask = torch.ones(tokens, tokens, dtype=torch.bool).tril().to(query.device)
    return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def masked_attention_on_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    tokens = query.shape[2]
    mask = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).tril()
    return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def create_on_device(job: Job) -> None:
    """The tip, on a GPT; elsewhere it is a matter of whoever writes the model."""
    for block in job.model.modules():
        if isinstance(block, Block):
            block.attend = masked_attention_on_device


class GPTTraining(_Created, MacroPair):
    """Training a small GPT that makes its mask in every layer."""

    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    sizes = {"layers": 4, "width": 128, "context": 512, "batch": 4}
    test_sizes = {"layers": 1, "width": 16, "context": 8, "batch": 2}

    def job(self) -> Job:
        job = language_model(self.device, activation=nn.GELU, **self.size)
        for block in job.model.modules():
            if isinstance(block, Block):
                block.attend = masked_attention
        return job

    def apply(self, job: Job) -> None:
        create_on_device(job)
