"""Compute the loss of a language model in chunks, so that the scores of all words are never there at once.

The last layer of a language model gives each word of the vocabulary a score, for each token of the batch. With a
vocabulary of tens of thousands this is the largest tensor of a training step, and it is there several times: the
scores, their logarithms for the loss, and the gradients of both. `torch.nn.functional.linear_cross_entropy`, of torch
2.15, takes the hidden states and the weight of the layer in place of the scores, and computes loss and gradients for
some tokens at a time.

Why people write the baseline: a model returns scores, and `cross_entropy` takes them.

What to expect: less memory, most where there are many more tokens in a batch than numbers in a hidden state. The
matrix products are the same, in pieces. A chunk is an eighth of the tokens here. The function's own choice makes the
scores of a chunk as small as the hidden states: many chunks of a few tokens, which took 1.3 times as long as the
baseline. `by_hand` is what people wrote before, and what other versions of torch can do: it computes the scores of each
chunk again in the backward pass.

When not: a model whose scores are needed for something else, or that is wrapped in FSDP, which has the whole weight
of a layer only while that layer runs. With label smoothing, `linear_cross_entropy` warns and computes all scores.
torch.compile runs it as it is, and second derivatives do not exist.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear
from torch.utils.checkpoint import checkpoint

from benchmarks.jobs.language_model import GPT, TrainGPT, word_model
from tipbench.tip.words import *

CHUNKS = 8


def largest_result(step: Step) -> int:
    """Bytes of the largest result of an operation in one warm step."""
    step()
    with torch.autograd.profiler.profile(use_kineto=False, profile_memory=True) as watched:
        step()
    events = watched.function_events or ()
    return max(int(max(event.self_cpu_memory_usage, event.self_device_memory_usage)) for event in events)


IN_A_MODEL = (
    "# in your model's code, in training; `hidden` is what the last layer, self.head, takes: evaluate with "
    "self.head as before\n"
)

TIP = Tip(
    id="chunked-loss",
    title="Compute the loss of a language model in chunks",
    do=(
        f"{IN_A_MODEL}options = nn.LinearCrossEntropyOptions(batch_chunk_size=max(1, targets.numel() // 8))"
        "  # of torch 2.15\n"
        "loss = F.linear_cross_entropy(hidden.flatten(0, -2).float(), self.head.weight, targets.flatten(), "
        "linear_bias=self.head.bias, options=options)\n"
        "# with ignore_index and weight, if your cross_entropy has them; with label_smoothing it saves nothing\n"
        "# it multiplies in float32, under autocast too: there by_hand may take less time; in bfloat16 it raises"
    ),
    ways={
        "by_hand": (
            f"from torch.utils.checkpoint import checkpoint\n{IN_A_MODEL}"
            'part = lambda some, words: F.cross_entropy(self.head(some), words, reduction="sum", ignore_index=-100)\n'
            "chunks = zip(hidden.flatten(0, -2).chunk(8), targets.flatten().chunk(8))\n"
            "# -100, twice: your ignore_index. Add your label_smoothing; no class weights. Compiled it saves nothing\n"
            "loss = sum(checkpoint(part, *chunk, use_reentrant=False) for chunk in chunks) / (targets != -100).sum()"
        ),
    },
    when="memory is short and the vocabulary large",
    guide=("M16",),
    claim=Claim.LEANER,
    called="eight chunks",
    mechanism=falls("bytes of the largest result of an operation", largest_result),
    why_not="The scores need little memory, where the vocabulary is small or a batch has few tokens.",
)

Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes hidden states (tokens, width), the weight of the last layer (vocabulary, width) and targets (tokens)."""


def in_chunks(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The tip."""
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=len(targets) // CHUNKS)
    return nn.functional.linear_cross_entropy(hidden, weight, targets, options=options)


def in_checkpointed_chunks(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    def part(hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(linear(hidden, weight), targets, reduction="sum")

    chunks = zip(hidden.chunk(CHUNKS), targets.chunk(CHUNKS), strict=True)
    losses = [checkpoint(part, *chunk, use_reentrant=False) for chunk in chunks]
    return torch.stack(losses).sum() / len(targets)


def with_loss(job: Job, loss: Loss) -> None:
    """Have a GPT return hidden states (batch, width, tokens) in place of scores, and compute the loss from them."""
    assert isinstance(job.model, GPT)
    head: nn.Module = job.model.head
    weight = job.model.head.weight
    head.forward = lambda hidden: hidden
    job.loss = lambda hidden, targets: loss(hidden.mT.flatten(0, 1), weight, targets.flatten())


class GPTTraining(
    TrainGPT, apply=partial(with_loss, loss=in_chunks), by_hand=partial(with_loss, loss=in_checkpointed_chunks)
):
    """Training a GPT that predicts words."""

    sizes = Sizes(
        dict(layers=2, width=128, context=128, batch=8, vocabulary=8192),
        M=dict(layers=4, width=256, batch=16, vocabulary=16_384),
        L=dict(width=512, context=512, vocabulary=32_768),
        test=dict(layers=1, width=16, context=16, batch=2, vocabulary=256),
    )

    def job(self) -> Job:
        return word_model(self.device, **self.size)

    @requires(torch_from(2, 15))
    def optimized(self) -> Step:
        return super().optimized()
