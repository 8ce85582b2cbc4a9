"""Random numbers of a person's loading, so that a job with worker processes can be compared with one without.

A DataLoader with workers draws at other times and in other processes than one without: the second epoch has another
order, and an item that is augmented at random is another one. That is no error of a tip, but would be taken for one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset, IterableDataset, RandomSampler, Sampler, default_collate

from tipbench.tip.job import Job


def shuffle_alike(job: Job) -> None:
    """Let the order of items come from a generator of its own, seeded by the default one as it is now."""
    data, loading = job.data, job.loading
    if data is None or isinstance(data, IterableDataset):
        return
    seed, base_seed = torch.randint(2**62, (2,)).tolist()
    if loading.pop("shuffle", False):
        loading["sampler"] = RandomSampler(data)  # type: ignore[arg-type]
    sampler = loading.get("sampler") or getattr(loading.get("batch_sampler"), "sampler", None)
    if isinstance(sampler, Sampler) and hasattr(sampler, "generator"):
        sampler.generator = torch.Generator().manual_seed(seed)
    # Each epoch draws one number for its workers, if they do not go on from the epoch before.
    loading["generator"] = torch.Generator().manual_seed(base_seed)


def draw_alike(job: Job) -> None:
    """Let what is drawn for an item and for a batch depend on their numbers alone; nothing where nothing is drawn."""
    if job.data is None or isinstance(job.data, IterableDataset):
        return
    collate = job.loading.get("collate_fn") or default_collate
    if drawn := _drawn(job.data, collate):
        job.data = items = _Items(job.data, drawn)
        job.loading["collate_fn"] = partial(_collated, items, collate)


@dataclass(frozen=True)
class _Generator:
    """What people draw from. position: its state as something that can be compared."""

    get: Callable[[], Any]
    set: Callable[[Any], object]
    seed: Callable[[int], object]
    position: Callable[[Any], Any]


GENERATORS = {
    "torch": _Generator(
        torch.default_generator.get_state,
        torch.default_generator.set_state,
        torch.default_generator.manual_seed,
        torch.Tensor.tolist,
    ),
    "random": _Generator(random.getstate, random.setstate, random.seed, lambda state: state),
    "numpy": _Generator(
        numpy.random.get_state,
        numpy.random.set_state,
        lambda seed: numpy.random.seed(seed % 2**32),
        lambda state: (state[1].tolist(), state[2:]),
    ),
}


class _Items(Dataset[Any]):
    """drawn: the names of the generators that it draws from; to seed the others too would take time from each item. It
    takes 5 microseconds with torch's, 21 with Python's and 97 with NumPy's, on both sides of a comparison. last: the
    number of the item that was made last in this process."""

    def __init__(self, data: Any, drawn: tuple[str, ...]) -> None:
        self.data = data
        self.drawn = drawn
        self.last = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, number: int) -> Any:
        self.last = number
        with _seeded(number, self.drawn):
            return self.data[number]


def _collated(items: _Items, collate: Callable[[list[Any]], Any], listed: list[Any]) -> Any:
    with _seeded(items.last, items.drawn):
        return collate(listed)


def _drawn(data: Any, collate: Callable[[list[Any]], Any]) -> tuple[str, ...]:
    """The generators from which two items and their batch draw."""
    before = {name: generator.get() for name, generator in GENERATORS.items()}
    try:
        collate([data[0], data[0]])
    except Exception:  # items that are not numbered from 0
        return ()
    finally:
        after = {name: generator.get() for name, generator in GENERATORS.items()}
        for name, generator in GENERATORS.items():
            generator.set(before[name])
    return tuple(name for name, one in GENERATORS.items() if one.position(before[name]) != one.position(after[name]))


@contextmanager
def _seeded(seed: int, drawn: tuple[str, ...]) -> Iterator[None]:
    before = [GENERATORS[name].get() for name in drawn]
    for name in drawn:
        GENERATORS[name].seed(seed)
    try:
        yield
    finally:
        for name, state in zip(drawn, before, strict=True):
            GENERATORS[name].set(state)
