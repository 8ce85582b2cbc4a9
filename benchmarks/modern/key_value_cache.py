"""Generate tokens with a cache of keys and values.

A causal model computes the same for a token whatever comes after it. Code that generates a text token by token can
store the keys and values of all tokens so far, and compute only the newest one, which attends to what is stored. A
static cache has memory for the longest text from the start, and a mask hides its empty places, so that all tokens have
the same shapes and the step can be compiled once. A growing cache is joined with each token by `torch.cat`: a copy.

Why people write the baseline: `text = torch.cat([text, token])` needs no change of the model, as in minGPT and nanoGPT.
`generate()` of Hugging Face has a growing cache by default, and with `cache_implementation="static"` a static one.

What to expect: without a cache each token costs as much as the whole text before it, so the gain grows with the text.
What remains of a step is reading all weights and calling many short operations, which compiling shortens. The price is
memory for two numbers a layer, token and unit of width. No advice tries it, as it is code of the model's attention.

Both sides must choose the same tokens. Between nearly equal scores rounding decides, in 16 bits now and then, so the
job's last layer makes one score far larger than the others. The tokens then depend on little else, so the scores of the
last token, to which the whole cache contributes, are compared as well.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.jobs.language_model import GenerateWithGPT, Generation
from tipbench.tip.words import *

STATIC = """\
# one text at a time: the cache is the model's, and a second thread would write into it
# in each attention, only when it generates: (batch, heads, tokens, width), after rotary positions by `places`
if query.shape[2] > 1:  # a prompt begins a text; `length`: tokens of the prompt and its answer
    self.keys, self.values = (x.new_zeros(*x.shape[:2], length, x.shape[3]) for x in (key, value))
self.keys.index_copy_(2, places, key)
self.values.index_copy_(2, places, value)
visible = torch.arange(length, device=places.device) <= places[:, None]
mixed = F.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=visible)
"""
GROWING = """\
# one text at a time: the cache is the model's, and a second thread would write into it
# in each attention, only when it generates: (batch, heads, tokens, width), after rotary positions by `places`
if query.shape[2] == 1:  # a token of the answer; a prompt begins a text
    key, value = torch.cat([self.keys, key], dim=2), torch.cat([self.values, value], dim=2)
self.keys, self.values = key, value
mixed = F.scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] > 1)
"""
LOOP = """\
# model(tokens, places), in eval(), hands `places` to positions and attention, and returns (batch, tokens, words)
with torch.no_grad():
    assert prompts.shape[1] > 1  # and all of one length: padding would need a mask and places of its own
    new = text = prompts
    for end in range(prompts.shape[1], length):
        scores = model(new, torch.arange(end - new.shape[1], end, device=device))
        new = scores[:, -1:].argmax(dim=-1)
        text = torch.cat([text, new], dim=1)"""
COMPILED = """\
prompt, one_token = model, torch.compile(model.forward)
def model(new, places): return (one_token if new.shape[1] == 1 else prompt)(new, places)
"""

TIP = Tip(
    id="key-value-cache",
    title="Generate tokens with a key/value cache",
    do=STATIC + LOOP,
    ways={"growing": GROWING + LOOP, "compiled": STATIC + COMPILED + LOOP},
    when="your own loop generates many tokens, no sliding window; Hugging Face's generate() caches already",
    against="the whole text computed anew for each token",
    guide=("M27",),
    claim=Claim.FASTER,
    called="a static cache",
    mechanism=falls("floating-point operations of matrix products", flops),
    why_not="On short texts a step takes as long as it takes to call its operations, and a cache saves none of them.",
)


class StaticCache:
    """Attention that stores the keys and values of a text, in memory for `length` tokens.

    Several tokens at once are a prompt, which begins a text. `places` are those of the new tokens.
    """

    def __init__(self, length: int) -> None:
        self.length, self.places = length, torch.empty(0)

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if query.shape[2] > 1:
            self.keys, self.values = (x.new_zeros(*x.shape[:2], self.length, x.shape[3]) for x in (key, value))
        self.keys.index_copy_(2, self.places, key)
        self.values.index_copy_(2, self.places, value)
        visible = torch.arange(self.length, device=query.device) <= self.places[:, None]
        return scaled_dot_product_attention(query, self.keys, self.values, attn_mask=visible)


class GrowingCache(StaticCache):
    """The same in memory that is allocated anew for each token."""

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if query.shape[2] == 1:
            key, value = torch.cat([self.keys, key], dim=2), torch.cat([self.values, value], dim=2)
        self.keys, self.values = key, value
        return scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] > 1)


def key_value_cache(job: Job, cache: Callable[[int], StaticCache] = StaticCache, is_compiled: bool = False) -> None:
    """The tip, on a job that generates."""
    generation = job.model
    assert isinstance(generation, Generation)
    gpt, tokens = generation.gpt, generation.tokens
    one_token = torch.compile(gpt.forward) if is_compiled else gpt
    caches = [cache(gpt.positions.num_embeddings) for _ in gpt.blocks]
    for block, attend in zip(gpt.blocks, caches, strict=True):
        block.attend = attend  # type: ignore[assignment]

    def forward(text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new, length = text, text.shape[1]
        for end in range(length, length + tokens):
            places = torch.arange(end - new.shape[1], end, device=new.device)
            for each in caches:
                each.places = places
            scores = (one_token if new.shape[1] == 1 else gpt)(new, places)[..., -1]
            new = scores.argmax(dim=1, keepdim=True)
            text = torch.cat([text, new], dim=1)
        return text[:, -tokens:], scores

    generation.forward = forward  # type: ignore[method-assign]


class GPTGeneration(
    GenerateWithGPT,
    apply=key_value_cache,
    growing=partial(key_value_cache, cache=GrowingCache),
    compiled=requires(compiler())(partial(key_value_cache, is_compiled=True)),
):
    """A GPT answers `batch` prompts of `prompt` bytes of source text with `tokens` bytes each."""
