"""Create tensors on the device they are used on.

`torch.zeros(n).cuda()` fills memory of the host, copies it to the GPU and throws it away. `torch.zeros(n,
device="cuda")` is one kernel.

Why people write the baseline: a tensor is created as on the CPU, and `.cuda()` is what one learns first.

What to expect: the larger the tensor, the more: a copy takes some 25 GB/s, the GPU's own memory a hundred times
that. The copy also makes the processor wait. In a whole model little is created anew in each step, such as a mask.

Random numbers differ: each device has a generator of its own. So what is compared here is filled with constants.
Never run on a GPU so far.
"""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.jobs.language_model import TrainGPT, gpt_blocks
from tipbench.tip.words import Claim, Equal, Job, Pair, Sizes, Step, Tip, copies_to_device, falls, gpu

TIP = Tip(
    id="create-on-device",
    title="Create tensors on the device they are used on",
    do="torch.zeros(n, device=device)",
    guide=("A3.5",),
    claim=Claim.FASTER,
    mechanism=falls("copies from the host", lambda step: sum(copies_to_device(step).values())),
)


class Constants(Pair):
    """Tensors of growing size, filled with a number each."""

    devices = ("cuda",)
    needs = (gpu(1),)
    equal = Equal.BITWISE
    sizes = Sizes(dict(smallest=1000, largest=10_000_000), test=dict(largest=10_000))

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


def create_on_host(job: Job) -> None:
    attend_by(job, masked_attention)


def create_on_device(job: Job) -> None:
    """The tip, on a GPT; elsewhere it is a matter of whoever writes the model."""
    attend_by(job, masked_attention_on_device)


def attend_by(job: Job, attention: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    for block in gpt_blocks(job):
        block.attend = attention  # type: ignore[assignment]


class GPTTraining(TrainGPT, untuned=create_on_host, apply=create_on_device):
    """Training a small GPT that makes its mask in every layer."""

    devices = ("cuda",)
    needs = (gpu(1),)
    sizes = Sizes(dict(layers=4, width=128, context=512, batch=4), test=dict(layers=1, width=16, context=8, batch=2))
