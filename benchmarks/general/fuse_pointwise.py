"""Fuse pointwise operations with torch.compile.

Eager PyTorch runs each operation of a formula by itself: it reads its inputs from memory, writes a
temporary, and hands that to the next. A formula of five pointwise operations walks through memory
five times. `torch.compile` makes one loop of them, which reads the input once and writes the result
once.

Why people write the baseline: it is the formula of the paper, and GPT code on the web
is full of it.

What to expect: the five operations read six tensors and write five; the one loop reads one and writes
one. Where the tensors are larger than the caches that is most of what the time goes into. The
temporaries are gone. Compiling takes seconds, once for each set of
shapes: see after how many steps it has paid. Where PyTorch has the whole formula as one function,
as `nn.GELU` here, that function needs no compiler.
"""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.jobs.language_model import TrainGPT, language_model
from tipbench.tip.words import *

TIP = Tip(
    id="fuse-pointwise",
    title="Fuse pointwise operations with torch.compile",
    do="@torch.compile\ndef gelu(x):  # as an example\n    return x * 0.5 * (1 + torch.erf(x / 1.41421))",
    ways={"builtin": "nn.GELU()  # in place of the formula alone; nn.GELU('tanh') if yours is the one with tanh"},
    when="a formula is written out in tensor operations; if torch has it, as nn.GELU(), call that",
    against="GELU, written out",
    guide=("A1.5",),
    claim=Claim.FASTER,
    called="torch.compile",
    once="compiling",
    mechanism=falls("operations dispatched", operations),
    published="kernels launched 5 -> 1 (PyTorch Performance Tuning Guide, the same formula)",
    why_not=(
        "Only operations that lie between matrix products are fused, and on a CPU those products take most of a "
        "small transformer's time."
    ),
)


def gelu(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (1 + torch.erf(x / 1.41421))


class HandWrittenGelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gelu(x)


def fuse_pointwise(job: Job) -> None:
    """The tip, on any job that uses the formula."""
    for module in job.model.modules():
        if isinstance(module, HandWrittenGelu):
            module.compile()


class Gelu(Pair):
    """The formula alone, on a tensor that the caches cannot hold together with the temporaries."""

    needs = (compiler(),)
    sizes = Sizes(dict(elements=8 * 2**20), L=dict(elements=2**26), test=dict(elements=1000))
    flush_l2 = True

    def calling(self, formula: Callable[[torch.Tensor], torch.Tensor]) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)
        return lambda: formula(x)

    def baseline(self) -> Step:
        return self.calling(gelu)

    def optimized(self) -> Step:
        return self.calling(torch.compile(gelu))

    @variant
    def builtin(self) -> Step:
        return self.calling(nn.functional.gelu)


class TransformerTraining(TrainGPT, apply=fuse_pointwise):
    """Training a small GPT whose MLP blocks (Linear, gelu, Linear) use the formula."""

    needs = (compiler(),)

    def job(self) -> Job:
        return language_model(self.device, activation=HandWrittenGelu, **self.size)

    @variant
    def builtin(self) -> Step:
        return language_model(self.device, activation=nn.GELU, **self.size).step
