"""Skip what a mask hides: FlexAttention with a block mask, in place of a mask of all scores.

`scaled_dot_product_attention` with a mask computes each score, also those that the mask hides: of a window of 256
tokens in a text of 2048 seven eighths. FlexAttention takes a function that says which scores count. From it
`create_block_mask` notes once which blocks of scores are hidden throughout, and the compiled kernel passes over them.
Documents in one row are another such mask: `document[query] == document[key]`.

Why people write the baseline: a mask is a tensor in every example, and works everywhere.

What to expect: the more blocks are hidden, the less time attention takes; little in short texts, where other layers
take most of a step. Not compiled, it computes all scores, slowly. On a CPU it only infers (torch 2.15).
"""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from benchmarks.jobs.language_model import RunGPT, gpt_blocks
from tipbench.tip.words import *

WINDOW = 256
"""Tokens that a token looks back at, itself included, as in Mistral 7B, whose window has 4096 (arXiv:2310.06825)."""

TIP = Tip(
    id="flex-attention",
    title="Skip what an attention mask hides (FlexAttention)",
    do=(
        "from torch.nn.attention.flex_attention import create_block_mask, flex_attention\n"
        "def visible(batch, head, query, key):  # your own mask; of documents: document[query] == document[key]\n"
        "    return (query >= key) & (query - key < 256)\n"
        "tokens = query.shape[-2]  # do all but the last line once, not in each call\n"
        "mask = create_block_mask(visible, None, None, tokens, tokens, device=query.device)\n"
        "attend = torch.compile(flex_attention)\n"
        "mixed = attend(query, key, value, block_mask=mask)  # of (batch, heads, tokens, width)"
    ),
    when="a mask hides most scores of long texts, as a window or documents in a row; on a CPU to infer alone",
    against="scaled_dot_product_attention with attn_mask",
    guide=("M33",),
    claim=Claim.FASTER,
    called="FlexAttention",
    once="compiling",
    mechanism=falls("attentions with all scores", lambda step: calls(step, "aten::scaled_dot_product_attention")),
    why_not="Attention takes little of a step beside the layers around it.",
)


def visible(batch: object, head: object, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Whether the token at place `query` sees the one at `key`."""
    return (query >= key) & (query - key < WINDOW)


def in_every_block(job: Job, attend: Callable[..., torch.Tensor]) -> None:
    for block in gpt_blocks(job):
        block.attend = attend  # type: ignore[assignment]


def masked(job: Job) -> None:
    """The window as a mask of all scores."""
    places = torch.arange(job.model.positions.num_embeddings, device=job.device)  # type: ignore[union-attr, arg-type]
    mask = visible(None, None, places[:, None], places)
    in_every_block(job, partial(torch.nn.functional.scaled_dot_product_attention, attn_mask=mask))


def skipped(job: Job) -> None:
    """The tip, on any job with a GPT."""
    tokens: int = job.model.positions.num_embeddings  # type: ignore[union-attr, assignment]
    mask = create_block_mask(visible, None, None, tokens, tokens, device=job.device)
    in_every_block(job, partial(torch.compile(flex_attention), block_mask=mask))


class GPTInference(RunGPT, untuned=masked, apply=skipped):
    """A small GPT run over long texts, of which each token sees a window."""

    needs = (compiler(),)
    sizes = Sizes(
        dict(layers=6, width=256, context=2048, batch=1),
        M=dict(layers=8, width=512),
        L=dict(layers=12, width=768, context=8192),
        test=dict(layers=1, width=32, context=512),
    )
