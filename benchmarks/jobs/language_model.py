"""Predict the next byte of Python source text, or the next word: a small GPT, and a small encoder.

The text is the standard library's own source, which every machine has.
"""

import functools
import re
import sysconfig
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import nn
from torch.utils.data import Dataset, DistributedSampler

from benchmarks.jobs.batches import in_batches
from tipbench.tip.words import *

VOCABULARY = 256
"""A token is a byte."""

EPS = 1e-5
"""Of AdamW, as Llama 2 was trained (arXiv:2307.09288). AdamW divides a gradient by its own size plus this. By default
it is 1e-8, of the size of rounding: the sign of a gradient next to zero, which another order of summation turns, then
decides on a whole step."""


class SourceText(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Consecutive windows of `context` bytes, each with the same window one byte later as target."""

    def __init__(self, context: int, bytes_read: int = 2_000_000) -> None:
        text = bytearray()
        for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
            text += path.read_bytes()
            if len(text) >= bytes_read:
                break
        self.text = torch.frombuffer(text, dtype=torch.uint8)
        self.context = context

    def __len__(self) -> int:
        return (len(self.text) - 1) // self.context

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start = index * self.context
        window = self.text[start : start + self.context + 1].long()
        return window[:-1], window[1:]


class SourceWords(SourceText):
    """Consecutive windows of `context` words, each with the same window one word later as target."""

    def __init__(self, context: int, vocabulary: int) -> None:
        super().__init__(context)
        self.text = numbered_words(self.text.numpy().tobytes(), vocabulary)


@functools.cache
def numbered_words(text: bytes, vocabulary: int) -> torch.Tensor:
    """The words of a text by number: 1 is the most frequent one, and 0 all that have no number below `vocabulary`.

    The white space before a word is part of it, as in the vocabularies of large models. Of 2 MB of the standard
    library there are 29,000; in a larger vocabulary, some numbers do not occur.
    """
    words = re.findall(rb"\s*\w+|\s*[^\w\s]+|\s+", text)
    frequent = Counter(words).most_common(vocabulary - 1)
    numbers = {word: number for number, (word, _) in enumerate(frequent, 1)}
    return torch.tensor([numbers.get(word, 0) for word in words])


def causal_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Each token mixes the values of itself and of those before it; all are (batch, heads, tokens, width)."""
    return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


class Block(nn.Module):
    """Self-attention, then a multilayer perceptron, each added to what came in."""

    def __init__(self, width: int, heads: int, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.heads = heads
        self.attend: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] = causal_attention
        self.norm1 = nn.LayerNorm(width)
        # No bias: that of the keys has no gradient but rounding noise, which AdamW would blow up to full steps.
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), activation(), nn.Linear(4 * width, width))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        heads = self.query_key_value(x).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = self.attend(query, key, value)
        x = self.projection(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


def heads_for(width: int) -> int:
    """64 numbers a head, as GPT-2 has them; small models have 4 heads all the same."""
    return max(4, width // 64)


class GPT(nn.Module):
    """Bytes (batch, tokens) in, or words; scores of the next one (batch, vocabulary, tokens) out."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        context: int,
        activation: Callable[[], nn.Module],
        vocabulary: int = VOCABULARY,
    ) -> None:
        super().__init__()
        self.bytes = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, activation) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, places: torch.Tensor | None = None) -> torch.Tensor:
        """places: of the tokens in their text, if they are not its first."""
        positions = self.positions.weight[: tokens.shape[1]] if places is None else self.positions(places)
        x = self.bytes(tokens) + positions
        for block in self.blocks:
            x = block(x)
        scores: torch.Tensor = self.head(self.norm(x))
        return scores.transpose(1, 2)


def language_model(
    device: torch.device, layers: int, width: int, context: int, batch: int, activation: Callable[[], nn.Module]
) -> Job:
    """Train a GPT with AdamW. activation: makes the module between the two layers of a perceptron."""
    model = GPT(layers, width, heads_for(width), context, activation).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=EPS)
    return Job(model, device=device, optimizer=optimizer, **in_batches(SourceText(context), batch, device))


class TrainGPT(MacroPair):
    """A GPT of `layers` blocks, `width` numbers a token, trained on `batch` windows of `context` bytes."""

    task: ClassVar[Literal["", "training", "inference"]] = "training"

    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    sizes = Sizes(
        dict(layers=6, width=256, context=256, batch=2),
        M=dict(layers=8, width=512, batch=4),
        L=dict(layers=12, width=768, context=512, batch=8),
        test=dict(layers=1, width=16, context=16),
    )

    def job(self) -> Job:
        return language_model(self.device, activation=nn.GELU, **self.size)


TWICE_THE_BATCH = TrainGPT.sizes.but(dict(batch=4), M=dict(batch=8), L=dict(batch=16))
MANY_TOKENS = TrainGPT.sizes.but(dict(layers=4, batch=8), M=dict(batch=8), test=dict(layers=2, batch=2))
"""So many at once that activations outweigh parameters and optimizer state."""


class ShareGPT(TrainGPT):
    """The same GPT trained in two processes, each with its own share of the text."""

    ranks = 2
    needs = (cores(2),)
    sizes = TrainGPT.sizes.but(dict(batch=1), test=dict(layers=2, context=8, batch=2))

    def job(self) -> Job:
        job = super().job()
        job.loading["sampler"] = DistributedSampler(job.data)
        return job


class RunGPT(TrainGPT):
    """The same GPT run over the text, forward only, without gradients."""

    task = "inference"

    def job(self) -> Job:
        job = super().job()
        job.model.requires_grad_(False).eval()
        job.optimizer = None
        return job

    def step_of(self, job: Job) -> Step:
        return torch.no_grad()(job.step)


class Generation(nn.Module):
    """The most likely `tokens` bytes after prompts (batch, bytes), and the scores by which the last one was chosen."""

    def __init__(self, gpt: GPT, tokens: int) -> None:
        super().__init__()
        self.gpt, self.tokens = gpt, tokens

    def forward(self, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(self.tokens):
            scores = self.gpt(text)[..., -1]
            text = torch.cat([text, scores.argmax(dim=1, keepdim=True)], dim=1)
        return text[:, -self.tokens :], scores


class GenerateWithGPT(MacroPair):
    """A GPT answers `batch` prompts of `prompt` bytes of source text with `tokens` bytes each."""

    task = "inference"
    tolerance = 1e-5  # of scores among which one is far larger than what is compared with it
    sizes = Sizes(
        dict(layers=6, width=256, prompt=64, tokens=32, batch=1),
        M=dict(layers=8, width=512, prompt=128),
        L=dict(layers=12, width=768, prompt=256, tokens=128, batch=4),
        test=dict(layers=2, width=16, prompt=4, tokens=3, batch=2),
    )

    def job(self) -> Job:
        layers, width, prompt, tokens, batch = self.size.values()
        gpt = GPT(layers, width, heads_for(width), prompt + tokens, nn.GELU).requires_grad_(False)
        # The byte that follows in the table of bytes has a far higher score than all others. Of two nearly equal scores
        # rounding would choose, and what follows would be another text.
        gpt.head.weight.copy_(gpt.bytes.weight.roll(1, dims=0))
        model = Generation(gpt, tokens).to(self.device).eval()
        return Job(model, device=self.device, **in_batches(SourceText(prompt), batch, self.device))


def word_model(device: torch.device, layers: int, width: int, context: int, batch: int, vocabulary: int) -> Job:
    """Train a GPT with AdamW to predict the next of `vocabulary` words."""
    model = GPT(layers, width, heads_for(width), context, nn.GELU, vocabulary).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=EPS)
    batches = in_batches(SourceWords(context, vocabulary), batch, device)
    return Job(model, device=device, loss=word_by_word, optimizer=optimizer, **batches)


def word_by_word(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """The mean loss; scores are (batch, vocabulary, tokens). The scores of a word, which lie side by side, stay so:
    otherwise `cross_entropy` copies them all."""
    return nn.functional.cross_entropy(scores.mT.flatten(0, 1), words.flatten())


def gpt_blocks(job: Job) -> nn.ModuleList:
    """The blocks of a job's GPT. Raises TypeError for a job that has another model."""
    if not isinstance(job.model, GPT):
        raise TypeError(f"this tip is for a GPT, and the job's model is a {type(job.model).__name__}")
    return job.model.blocks


def text_encoder(device: torch.device, layers: int, width: int, context: int, batch: int) -> Job:
    """Run PyTorch's own TransformerEncoder over the text, forward only."""
    layer = nn.TransformerEncoderLayer(width, heads_for(width), dim_feedforward=4 * width, batch_first=True)
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(VOCABULARY, width), encoder).to(device).eval()
    return Job(model, device=device, **in_batches(SourceText(context), batch, device))


class RunEncoder(MacroPair):
    """PyTorch's own TransformerEncoder run over `batch` windows of `context` bytes, without gradients."""

    task = "inference"
    sizes = TWICE_THE_BATCH.but(L=dict(batch=32))

    def job(self) -> Job:
        job = text_encoder(self.device, **self.size)
        job.model.requires_grad_(False)
        return job
