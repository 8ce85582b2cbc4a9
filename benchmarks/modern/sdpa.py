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
from contextlib import nullcontext
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.jobs.language_model import GPT, RunGPT, TrainGPT, causal_attention, gpt_blocks
from tipbench.tip.words import *

TIP = Tip(
    id="sdpa",
    title="Use scaled_dot_product_attention",
    do=(
        "# a causal mask, with as many queries as keys: as below; no mask, or a single query: leave is_causal out\n"
        "# shapes are (batch, heads, tokens, width); from (batch, tokens, heads, width) .transpose(1, 2) all four\n"
        "# another mask, with the causal one in it: attn_mask=mask, not is_causal; True means attend (~mask if yours\n"
        "# hides True), floats are added; queries that see nothing come out as 0; no attention weights come out\n"
        "# dropout: dropout_p=p if self.training else 0.0; another scale: scale=1 / divisor, and do not scale before\n"
        "mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)"
    ),
    when="attention is written out by hand; mask, scale and dropout as its code says",
    against="softmax((query @ key.mT / divisor).masked_fill(later, -inf)) @ value",
    guide=("M1",),
    claim=Claim.FASTER,
    note="torch may choose a slow kernel: on Hopper cuDNN's was 1.7 to 2.3 times as fast as its (transformers#48163)",
    mechanism=falls("operations dispatched", operations),
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
    for block in gpt_blocks(job):
        block.attend = causal_attention  # type: ignore[assignment]


def by_hand(job: Job) -> None:
    """Attention as it was written before torch 2.0."""
    assert isinstance(job.model, GPT)
    for block in job.model.blocks:
        later = later_tokens(job.model.positions.num_embeddings, job.device)
        block.attend = partial(handwritten_attention, later=later)  # type: ignore[assignment]


class Kernels(Pair):
    """Causal attention in bfloat16 by the formula, by the kernel that torch chooses, and by two of a GPU."""

    against, called = "SDPBackend.MATH, torch's own formula", "the kernel that torch chooses"
    mechanism = falls("attention by formula", lambda step: calls(step, "aten::_scaled_dot_product_attention_math"))
    needs = (bfloat16(),)
    equal = Equal.LOSSY
    tolerance = 1e-2
    sizes = Sizes(dict(batch=2, heads=8, tokens=512), L=dict(batch=8, tokens=2048), test=dict(batch=1, tokens=32))

    def attention(self, *kernels: SDPBackend, dtype: torch.dtype = torch.bfloat16) -> Step:
        shape = *self.size.values(), 64
        inputs = [torch.randn(shape, device=self.device).to(dtype) for _ in range(3)]

        def step() -> torch.Tensor:
            with sdpa_kernel(list(kernels)) if kernels else nullcontext():
                return causal_attention(*inputs)

        return step

    def baseline(self) -> Step:
        return self.attention(SDPBackend.MATH)

    def optimized(self) -> Step:
        return self.attention()

    @variant
    @requires(gpu())
    def efficient(self) -> Step:
        return self.attention(SDPBackend.EFFICIENT_ATTENTION)

    @variant
    @requires(gpu())
    def cudnn(self) -> Step:
        return self.attention(SDPBackend.CUDNN_ATTENTION)

    def reference(self) -> Step:
        return self.attention(dtype=torch.float64)


class GPTTraining(TrainGPT, untuned=by_hand, apply=sdpa):
    """Training a small GPT whose attention is written by hand."""


class GPTInference(RunGPT, untuned=by_hand, apply=sdpa):
    """The same GPT run forward only, over longer texts: no backward pass hides what attention costs."""

    sizes = RunGPT.sizes.but(dict(context=512), M=dict(batch=8), L=dict(context=1024, batch=16))
