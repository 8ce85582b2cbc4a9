"""Put sequences of about the same length into one batch.

The sequences of a batch are filled up with padding to the longest of them, and most models compute on
padding as on everything else. In a batch of random lengths one long sequence makes all others long. Sorted
by length first and cut into batches then, the sequences of a batch need hardly any padding.

Why people write the baseline: a DataLoader takes the sequences as they come, or shuffled, and padding them
in `collate_fn` is all it needs to work.

What to expect: as much time saved as padding is saved, as long as a batch remains large enough to keep the
machine busy. In batches of 32 lines of source text half of all tokens are padding (49 %, counted with
Python 3.11's library); sorted by length, 15 %. Training gains the same. There one shuffles the batches in
each epoch; their order differs from the baseline's then, and so do the steps, which is why inference is compared here.

A fixed number of sequences is few tokens where they are short, and many where they are long. The variant
`constant_tokens` sorts as well, but fixes the number of tokens. Then 10 % are padding, and no batch asks for more
memory than the others.

The step is a whole epoch: a single batch would be other work on each side. Across several GPUs the tip also
spares those with short sequences the wait for the one with the longest.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from benchmarks.jobs.sequences import RunReader, SourceLines
from tipbench.tip.words import *

Batches = Callable[[list[int], int], list[list[int]]]
"""Makes batches, lists of the sequences' numbers: of the lengths of all sequences, and how many are in a batch."""


def padded_tokens(step: Step) -> int:
    """Tokens of padding that embeddings are given; an embedding knows it by its `padding_idx`."""

    def padding(module: nn.Module, inputs: Any, output: Any) -> int:
        known = isinstance(module, nn.Embedding) and module.padding_idx is not None
        return int((inputs[0] == module.padding_idx).sum()) if known else 0

    return over_modules(step, padding)


LENGTHS = (
    'lengths = [len(sample[0]) for sample in data]  # or len(sample["input_ids"]), sample.shape[-1]: must differ; '
    "reads all of it once\n"
)
ARGUMENTS = "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
IN_BATCHES = (
    "others = dict(batch_size=1, shuffle=False, sampler=None, drop_last=False)  # as a batch_sampler wants them\n"
    "loader = DataLoader(data, **arguments | others | dict(batch_sampler=batches))"
)

TIP = Tip(
    id="length-bucketing",
    title="Put sequences of about the same length into one batch",
    do=(
        f"{LENGTHS}"
        "class ByLength(torch.utils.data.BatchSampler):  # what the loader's sampler draws, in batches of like length\n"
        "    def __iter__(self):\n"
        "        drawn = sorted((number for few in super().__iter__() for number in few), key=lengths.__getitem__)\n"
        "        batches = [drawn[start : start + self.batch_size] for start in range(0, len(drawn), "
        "self.batch_size)]\n"
        "        batches = [batches[number] for number in torch.randperm(len(batches))]\n"
        "        self.order = [one for few in batches for one in few]  # results come so, unless in_order=False\n"
        "        return iter(batches)\n"
        f"{ARGUMENTS}"
        "batches = ByLength(loader.sampler, loader.batch_size, loader.drop_last)  # batches.sampler.set_epoch()\n"
        f"{IN_BATCHES}"
    ),
    ways={
        "constant_tokens": (
            f"{LENGTHS}tokens, batches = loader.batch_size * sum(lengths) // len(lengths), [[]]\n"
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
            f"{ARGUMENTS}batches = Shuffled(batches)\n"
            f"{IN_BATCHES}"
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


def shortest_first(lengths: list[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lengths.__getitem__)


def by_length(lengths: list[int], batch: int) -> list[list[int]]:
    numbers = shortest_first(lengths)
    return [numbers[start : start + batch] for start in range(0, len(numbers), batch)]


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


class TransformerEpoch(
    RunReader,
    apply=partial(length_bucketing, batches=by_length),
    constant_tokens=partial(length_bucketing, batches=by_tokens),
):
    """A small Transformer run over lines of source text, loading and padding included."""
