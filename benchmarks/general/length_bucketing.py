"""Put sequences of about the same length into one batch.

The sequences of a batch are filled up with padding to the longest of them, and most models compute on
padding as on everything else. In a batch of random lengths one long sequence makes all others long. Sorted
by length first and cut into batches then, the sequences of a batch need hardly any padding.

Why people write the baseline: a DataLoader takes the sequences as they come, or shuffled, and padding them
in `collate_fn` is all it needs to work.

What to expect: as much time saved as padding is saved, as long as a batch remains large enough to keep the
machine busy. In batches of 32 lines of source text half of all tokens are padding (49 %, counted with
Python 3.11's library); sorted by length, 15 %. Training gains the same. There one shuffles the batches in
each epoch, and sorts within parts of the data, lest each batch always hold the same sequences; the order of
the batches differs from the baseline's then, and so do the steps, which is why inference is compared here.

A fixed number of sequences is few tokens where they are short, and many where they are long. The variant
`constant_tokens` sorts as well, but fixes the number of tokens: many short sequences to a batch, or a few
long ones. Then 10 % are padding, and no batch asks for more memory than the others.

The step is a whole epoch: a single batch would be other work on each side. Across several GPUs the tip also
spares those with short sequences the wait for the one with the longest.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.jobs.language_model import VOCABULARY
from benchmarks.jobs.sequences import PADDING, LSTMReader, SourceLines, TransformerReader, line_vectors, padded, vectors
from tipbench.tip.words import *

Batches = Callable[[list[int], int], list[list[int]]]
"""Makes batches, lists of the sequences' numbers: of the lengths of all sequences, and how many are in a batch."""


def padded_tokens(step: Step) -> int:
    """Tokens of padding that embeddings are given; an embedding knows it by its `padding_idx`."""

    def padding(module: nn.Module, inputs: Any, output: Any) -> int:
        known = isinstance(module, nn.Embedding) and module.padding_idx is not None
        return int((inputs[0] == module.padding_idx).sum()) if known else 0

    return over_modules(step, padding)


TIP = Tip(
    id="length-bucketing",
    title="Put sequences of about the same length into one batch",
    do=(
        'lengths = [len(sample[0]) for sample in data]  # or len(sample["input_ids"]), sample.shape[-1]: must differ; '
        "reads all of it once\n"
        "class ByLength(torch.utils.data.BatchSampler):  # what the loader's sampler draws, in batches of like length\n"
        "    def __iter__(self):\n"
        "        drawn = sorted((number for few in super().__iter__() for number in few), key=lengths.__getitem__)\n"
        "        batches = [drawn[start : start + self.batch_size] for start in range(0, len(drawn), "
        "self.batch_size)]\n"
        "        batches = [batches[number] for number in torch.randperm(len(batches))]\n"
        "        self.order = [one for few in batches for one in few]  # results come so, unless in_order=False\n"
        "        return iter(batches)\n"
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        "batches = ByLength(loader.sampler, loader.batch_size, loader.drop_last)  # batches.sampler.set_epoch()\n"
        "others = dict(batch_size=1, shuffle=False, sampler=None, drop_last=False)  # as a batch_sampler wants them\n"
        "loader = DataLoader(data, **arguments | others | dict(batch_sampler=batches))"
    ),
    ways={
        "constant_tokens": (
            'lengths = [len(sample[0]) for sample in data]  # or len(sample["input_ids"]), sample.shape[-1]: '
            "must differ; reads all of it once\n"
            "tokens, batches = loader.batch_size * sum(lengths) // len(lengths), [[]]\n"
            "for number in sorted(range(len(data)), key=lengths.__getitem__):  # all of it: not under DDP, or with "
            "a sampler or drop_last of your own; batches hold unlike numbers\n"
            "    if batches[-1] and (len(batches[-1]) + 1) * lengths[number] > tokens:\n"
            "        batches.append([])\n"
            "    batches[-1].append(number)\n"
            "class Shuffled(list):\n"
            "    def __iter__(self):\n"
            "        shuffled = [self[number] for number in torch.randperm(len(self))]\n"
            "        self.order = [one for few in shuffled for one in few]  # results come so, unless in_order=False\n"
            "        return iter(shuffled)\n"
            "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
            "batches = Shuffled(batches)\n"
            "others = dict(batch_size=1, shuffle=False, sampler=None, drop_last=False)  # as a batch_sampler wants "
            "them\n"
            "loader = DataLoader(data, **arguments | others | dict(batch_sampler=batches))"
        ),
    },
    when="sequences differ in length, and may come in another order",
    against="batches of sequences in the order in which they come",
    guide=("G4.4",),
    claim=Claim.FASTER,
    called="batches of like length",
    mechanism=falls("padded tokens an epoch", padded_tokens),
)


def length_bucketing(job: Job, batches: Batches) -> None:
    """The tip, on any job over sequences whose lengths are known beforehand."""
    assert isinstance(job.data, SourceLines)
    batch = job.loading.pop("batch_size")
    job.loading.update(batch_sampler=batches(job.data.lengths, batch))


def as_they_come(lengths: list[int], batch: int) -> list[list[int]]:
    return cut(list(range(len(lengths))), batch)


def by_length(lengths: list[int], batch: int) -> list[list[int]]:
    return cut(shortest_first(lengths), batch)


def by_tokens(lengths: list[int], batch: int) -> list[list[int]]:
    """The second way: batches of as many tokens as `batch` sequences of the mean length have, padding included.

    A longer sequence is alone in its batch.
    """
    tokens = batch * sum(lengths) // len(lengths)
    batches: list[list[int]] = [[]]
    for number in shortest_first(lengths):
        # The others of the batch are shorter, and are filled up to this one.
        if batches[-1] and (len(batches[-1]) + 1) * lengths[number] > tokens:
            batches.append([])
        batches[-1].append(number)
    return batches


def shortest_first(lengths: list[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lengths.__getitem__)


def cut(numbers: list[int], batch: int) -> list[list[int]]:
    return [numbers[start : start + batch] for start in range(0, len(numbers), batch)]


class PaddingShare(Pair):
    """An embedding and a linear layer on all batches, which are padded beforehand; summed over each line."""

    sizes = Sizes(dict(lines=128, batch=16, width=128), test=dict(lines=16, batch=4, width=8))

    def sums(self, batches: Batches) -> Step:
        width, data = self.size["width"], SourceLines(self.size["lines"])
        embedding = nn.Embedding(VOCABULARY, width, padding_idx=PADDING, device=self.device).requires_grad_(False)
        linear = nn.Linear(width, 2 * width, device=self.device).requires_grad_(False)
        numbered = batches(data.lengths, self.size["batch"])
        collated = [padded([data[number] for number in batch]) for batch in numbered]
        inputs = [tokens.to(self.device) for tokens, _ in collated]
        in_order = torch.cat([numbers for _, numbers in collated]).argsort().to(self.device)

        def step() -> torch.Tensor:
            sums = [(linear(embedding(tokens)) * (tokens != PADDING)[..., None]).sum(dim=1) for tokens in inputs]
            return torch.cat(sums)[in_order]

        return step

    def baseline(self) -> Step:
        return self.sums(as_they_come)

    def optimized(self) -> Step:
        return self.sums(by_length)

    @variant
    def constant_tokens(self) -> Step:
        return self.sums(by_tokens)


class _InferenceEpoch(
    MacroPair,
    apply=partial(length_bucketing, batches=by_length),
    constant_tokens=partial(length_bucketing, batches=by_tokens),
):
    """One epoch of turning lines into vectors, loading and padding included."""

    task = "inference"
    loads = True

    def step_of(self, job: Job) -> Step:
        return lambda: vectors(job)


class LSTMEpoch(_InferenceEpoch):
    """An LSTM run over lines of source text: its loop is as long as the longest line of the batch."""

    sizes = Sizes(
        dict(lines=256, batch=32, layers=1, width=256),
        L=dict(lines=1024, batch=128, width=512),
        test=dict(lines=16, batch=4, width=8),
    )

    def job(self) -> Job:
        return line_vectors(self.device, LSTMReader, **self.size)


class TransformerEpoch(_InferenceEpoch):
    """A small Transformer run over lines of source text."""

    sizes = Sizes(
        dict(lines=64, batch=16, layers=2, width=256),
        L=dict(lines=1024, batch=64, layers=6, width=512),
        test=dict(lines=16, batch=4, layers=1, width=16),
    )

    def job(self) -> Job:
        return line_vectors(self.device, TransformerReader, **self.size)
