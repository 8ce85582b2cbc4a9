"""Create tensors on the device they are used on.

`torch.zeros(n).cuda()` fills memory of the host, copies it to the GPU and throws it away. `torch.zeros(n,
device="cuda")` is one kernel.

Why people write the baseline: a tensor is created as on the CPU, and `.cuda()` is what one learns first.

What to expect: the larger the tensor, the more: a copy takes some 25 GB/s, the GPU's own memory a hundred times
that. The copy also makes the processor wait. A whole model creates little anew in each step, such as positions and a
mask: there the wait counts, not the bytes.

Random numbers differ: each device has a generator of its own. So what is compared here is filled with constants.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from benchmarks.jobs.language_model import GPT, TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="create-on-device",
    title="Create tensors on the device they are used on",
    do=("positions = torch.arange(n, device=device)\nmask = torch.ones(n, n, dtype=torch.bool, device=device).tril()"),
    when="you create tensors in the training loop",
    against="torch.zeros(n).to(device)",
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


def created_on_host(count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """For `count` tokens: numbers (tokens), and where each token may look (tokens, tokens)."""
    return torch.arange(count).to(device), torch.ones(count, count, dtype=torch.bool).tril().to(device)


def created_on_device(count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The tip, in code that makes the same."""
    return torch.arange(count, device=device), torch.ones(count, count, dtype=torch.bool, device=device).tril()


class MaskedGPT(nn.Module):
    """The GPT that makes its positions and its mask anew in each step, for texts of any length."""

    def __init__(self, gpt: GPT, create: Callable[[int, torch.device], tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().__init__()
        self.gpt, self.create = gpt, create

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions, mask = self.create(tokens.shape[1], tokens.device)
        x = self.gpt.bytes(tokens) + self.gpt.positions(positions)
        for block in self.gpt.blocks:
            block.attend = partial(nn.functional.scaled_dot_product_attention, attn_mask=mask)  # type: ignore[assignment]
            x = block(x)
        scores: torch.Tensor = self.gpt.head(self.gpt.norm(x))
        return scores.transpose(1, 2)


def create_on_host(job: Job) -> None:
    assert isinstance(job.model, GPT)
    job.model = MaskedGPT(job.model, created_on_host)


def create_on_device(job: Job) -> None:
    """The tip, on a GPT; elsewhere it is a matter of whoever writes the model."""
    assert isinstance(job.model, GPT)
    job.model = MaskedGPT(job.model, created_on_device)


class GPTTraining(TrainGPT, untuned=create_on_host, apply=create_on_device):
    """Training a small GPT that makes its positions and its mask once a step."""

    devices = ("cuda",)
    needs = (gpu(1),)
    sizes = Sizes(
        dict(layers=6, width=256, context=512, batch=4),
        L=dict(layers=12, width=768, batch=8),
        test=dict(layers=1, width=16, context=8, batch=2),
    )
