"""Use scaled_dot_product_attention instead of attention written by hand.

Attention by its formula writes down a score for every pair of tokens, masks them, normalises them, and
reads them again: memory that grows with the square of the length, walked through several times. The
fused kernels behind `torch.nn.functional.scaled_dot_product_attention` work on blocks that stay in the
cache and never hold all scores at once.

Why people write the baseline: it is the formula of the paper, as in nanoGPT before torch 2.0 and in most
models written then.

What to expect: less time, and less memory the longer the sequence is. It computes the same up to
rounding. Attention weights cannot be looked at any more: they never exist.
"""

import math
from functools import partial

import torch
from torch import nn

from benchmarks.jobs.language_model import GPT, causal_attention, language_model
from tipbench.tip.counts import flops, operations
from tipbench.tip.job import Job, MacroPair
from tipbench.tip.pair import Claim, Pair, Step, Tip

TIP = Tip(
    id="sdpa",
    title="Use scaled_dot_product_attention",
    guide=("M1",),
    claim=Claim.FASTER,
    why_not="With short sequences the attention matrix fits into the cache, and there is little to save.",
)


def handwritten_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, later: torch.Tensor
) -> torch.Tensor:
    """later: (tokens, tokens), true where the key comes after the query, which must not see it."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.masked_fill(later, -math.inf).softmax(dim=-1) @ value


def later_tokens(tokens: int, device: torch.device) -> torch.Tensor:
    return torch.ones(tokens, tokens, dtype=torch.bool, device=device).triu(diagonal=1)


def sdpa(job: Job) -> None:
    """The tip, on any job with a GPT."""
    assert isinstance(job.model, GPT)
    for block in job.model.blocks:
        block.attend = causal_attention  # type: ignore[assignment]


class Attention(Pair):
    """Causal attention alone, forward and backward."""

    sizes = {"batch": 2, "heads": 4, "tokens": 256, "width": 32}
    on_gpu = {"batch": 8, "heads": 16, "tokens": 2048, "width": 64}
    test_sizes = {"tokens": 8, "width": 4}

    def tensors(self) -> list[torch.Tensor]:
        """Query, key and value, each (batch, heads, tokens, width)."""
        shape = [self.size[name] for name in ("batch", "heads", "tokens", "width")]
        return [torch.randn(shape, device=self.device, requires_grad=True) for _ in range(3)]

    def baseline(self) -> Step:
        (query, key, value), later = self.tensors(), later_tokens(self.size["tokens"], self.device)

        def step() -> tuple[torch.Tensor, ...]:
            mixed = handwritten_attention(query, key, value, later)
            return mixed.detach(), *torch.autograd.grad(mixed.square().mean(), (query, key, value))

        return step

    def optimized(self) -> Step:
        query, key, value = self.tensors()

        def step() -> tuple[torch.Tensor, ...]:
            mixed = causal_attention(query, key, value)
            return mixed.detach(), *torch.autograd.grad(mixed.square().mean(), (query, key, value))

        return step

    def work(self) -> dict[str, int]:
        return {"flops": flops(self.baseline())}

    def mechanism(self, step: Step) -> int:
        """operations dispatched"""
        return operations(step)


class GPTTraining(MacroPair):
    """Training a small GPT whose attention is written by hand."""

    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    sizes = {"layers": 2, "width": 128, "context": 256, "batch": 2}
    on_gpu = {"layers": 6, "width": 512, "context": 1024, "batch": 8}
    test_sizes = {"layers": 1, "width": 16, "context": 16, "batch": 2}

    def job(self) -> Job:
        job = language_model(self.device, activation=nn.GELU, **self.size)
        assert isinstance(job.model, GPT)
        for block in job.model.blocks:
            later = later_tokens(self.size["context"], self.device)
            block.attend = partial(handwritten_attention, later=later)  # type: ignore[assignment]
        return job

    def apply(self, job: Job) -> None:
        sdpa(job)

    def mechanism(self, step: Step) -> int:
        """operations dispatched"""
        return operations(step)
