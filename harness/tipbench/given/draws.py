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
from numpy.random import mtrand
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
    """What people draw from. get and set: what keeps its state, and brings it back. position: that state as something
    that can be compared."""

    get: Callable[[], Any]
    set: Callable[[Any], object]
    seed: Callable[[int], object]
    position: Callable[[], Any]


OF_ITEMS = numpy.random.MT19937()
"""Takes the place of NumPy's generator for each item: to keep and set its state took 0.1 ms, more than some items. Of
what the job draws itself between items, only the second half of a pair of normal numbers is lost."""


def _seed_numpy(seed: int) -> None:
    mtrand.set_bit_generator(OF_ITEMS)
    numpy.random.seed(seed % 2**32)


def _numpy_position() -> Any:
    return [numpy.asarray(part).tolist() for part in numpy.random.get_state(legacy=True)]


GENERATORS = {
    "torch": _Generator(
        torch.default_generator.get_state,
        torch.default_generator.set_state,
        torch.default_generator.manual_seed,
        lambda: torch.default_generator.get_state().tolist(),
    ),
    "random": _Generator(random.getstate, random.setstate, random.seed, random.getstate),
    "numpy": _Generator(mtrand.get_bit_generator, mtrand.set_bit_generator, _seed_numpy, _numpy_position),
}


class _Items(Dataset[Any]):
    """drawn: the names of the generators that it draws from; to seed the others too would take time from each item. It
    takes 4 microseconds with torch's, 5 with NumPy's and 21 with Python's, on both sides of a comparison. last: the
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
    with _seeded(0, tuple(GENERATORS)):
        before = {name: generator.position() for name, generator in GENERATORS.items()}
        try:
            collate([data[0], data[0]])
        except Exception:  # items that are not numbered from 0
            return ()
        return tuple(name for name, generator in GENERATORS.items() if generator.position() != before[name])


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
