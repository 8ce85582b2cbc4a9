"""Turn lines of Python source text into vectors, as a search index does: sequences of all lengths.

The lines are the standard library's own, which every machine has. A batch is filled up with PADDING to
its longest line. Both readers go from left to right and hand out their state at a line's last byte, so
what is filled in behind it changes nothing but the time.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from benchmarks.jobs.language_model import EPS, GPT, VOCABULARY, Block, SourceText, heads_for
from tipbench.tip.words import *

PADDING = 0
"""The byte that batches are filled up with; source text has none."""

LONGEST = 256
"""Bytes after which a line is cut."""


class SourceLines(Dataset[tuple[torch.Tensor, int]]):
    """(bytes, number) of `lines` lines that lie evenly spread over the text; blank ones do not count."""

    def __init__(self, lines: int) -> None:
        text = SourceText(context=1).text.numpy().tobytes()
        written = [line[:LONGEST] for line in text.splitlines() if line.strip()]
        chosen = written[:: len(written) // lines][:lines]
        self.lines = [torch.frombuffer(bytearray(line), dtype=torch.uint8).long() for line in chosen]
        self.lengths = [len(line) for line in chosen]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.lines[index], index


def padded(batch: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Collate: (lines, filled up to the longest of them, their numbers)."""
    lines = pad_sequence([line for line, _ in batch], batch_first=True, padding_value=PADDING)
    return lines, torch.tensor([number for _, number in batch])


def at_the_end(states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Of states (batch, tokens, width) those at each line's last byte: (batch, width)."""
    last = (tokens != PADDING).sum(dim=1) - 1
    return states[torch.arange(len(tokens), device=tokens.device), last]


class LSTMReader(nn.Module):
    """Bytes (batch, tokens) in, a vector a line (batch, width) out."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(VOCABULARY, width, padding_idx=PADDING)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.bytes(tokens))
        return at_the_end(states, tokens)


class TransformerReader(nn.Module):
    """The same with causal self-attention: no byte sees a later one, so none sees padding."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(VOCABULARY, width, padding_idx=PADDING)
        self.positions = nn.Embedding(LONGEST, width)
        self.blocks = nn.ModuleList(Block(width, heads_for(width), nn.GELU) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.bytes(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return at_the_end(self.norm(x), tokens)


def line_vectors(
    device: torch.device, reader: Callable[[int, int], nn.Module], lines: int, batch: int, layers: int, width: int
) -> Job:
    """Run a reader over the lines, forward only. reader: makes the model of (layers, width)."""
    model = reader(layers, width).to(device).eval().requires_grad_(False)
    return Job(model, SourceLines(lines), device, batch_size=batch, collate_fn=padded)


def vectors(job: Job) -> torch.Tensor:
    """One epoch of `line_vectors`: every line's vector, in the order of the dataset whatever the batches were."""
    outputs, numbers = [], []
    for tokens, of_lines in job.loader():
        outputs.append(job.run(tokens, of_lines))
        numbers.append(of_lines)
    return torch.cat(outputs)[torch.cat(numbers).argsort()]


class RunReader(MacroPair):
    """A small Transformer run over lines of source text, each batch padded to its longest line: an epoch."""

    task = "inference"
    loads = True
    sizes = Sizes(
        dict(lines=64, batch=16, layers=2, width=256),
        L=dict(lines=1024, batch=64, layers=6, width=512),
        test=dict(lines=16, batch=4, layers=1, width=16),
    )

    def job(self) -> Job:
        return line_vectors(self.device, TransformerReader, **self.size)

    def step_of(self, job: Job) -> Step:
        return lambda: vectors(job)


class NextBytes(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Each of the lines with the bytes that follow its own; behind the last stands a line break."""

    def __init__(self, lines: int) -> None:
        self.lines = SourceLines(lines).lines
        self.line_break = torch.tensor([ord("\n")])

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        line = self.lines[index]
        return line, torch.cat([line[1:], self.line_break])


def both_padded(batch: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Collate: (lines, the bytes that follow), both filled up to the longest."""
    lines = pad_sequence([line for line, _ in batch], batch_first=True, padding_value=PADDING)
    return lines, pad_sequence([following for _, following in batch], batch_first=True, padding_value=PADDING)


def line_bytes(device: torch.device, lines: int, batch: int, layers: int, width: int) -> Job:
    """Train a GPT with AdamW to predict the next byte within each line; padding is no target."""
    model = GPT(layers, width, heads_for(width), LONGEST, nn.GELU).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=EPS)
    loss = partial(nn.functional.cross_entropy, ignore_index=PADDING)
    return Job(model, NextBytes(lines), device, loss, optimizer, batch_size=batch, collate_fn=both_padded)
