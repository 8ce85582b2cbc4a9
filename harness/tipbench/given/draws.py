"""Random numbers in a person's data loading, made the same with and without worker processes.

A DataLoader with workers draws random numbers at different times and in different processes than one without. So its
second epoch has a different order, and its random augmentations differ. Comparing results would blame the tip for that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy
import torch
from numpy.random import mtrand
from torch.utils.data import Dataset, IterableDataset, RandomSampler, Sampler, default_collate

from tipbench.tip.job import Job


def shuffle_alike(job: Job) -> None:
    """Shuffle with a separate generator, seeded from the current state of the default one."""
    data, loading = job.data, job.loading
    if data is None or isinstance(data, IterableDataset):
        return
    seed, base_seed = torch.randint(2**62, (2,)).tolist()
    if loading.pop("shuffle", False):
        loading["sampler"] = RandomSampler(data)  # type: ignore[arg-type]
    sampler = loading.get("sampler", loading.get("batch_sampler"))
    while isinstance(sampler, Sampler):  # what makes batches holds the one that chooses their items
        if hasattr(sampler, "generator"):
            sampler.generator = torch.Generator().manual_seed(seed)
        sampler = getattr(sampler, "sampler", None)
    # Each epoch draws one number as the seed of its workers, unless they persist from the epoch before.
    loading["generator"] = torch.Generator().manual_seed(base_seed)


def draw_alike(job: Job, generators: Sequence[str]) -> None:
    """Seed the draws of each item and batch by its number alone. Data that draws nothing stays unchanged.

    generators: as `generators_used` has them, of another job: a data set that opens its file at the first item must not
    do so before the workers are started, which would then share it.
    """
    if generators and job.data is not None:
        job.data = items = _Items(job.data, tuple(generators))
        job.loading["collate_fn"] = partial(_collated, items, job.loading.get("collate_fn") or default_collate)


class _Generator(NamedTuple):
    """A random number generator that data loading may use.

    Attributes:
        get: returns its state.
        set: restores a state.
        seed: seeds it.
        draw: returns its next number.
    """

    get: Callable[[], Any]
    set: Callable[[Any], object]
    seed: Callable[[int], object]
    draw: Callable[[], float]


OF_ITEMS = numpy.random.MT19937()
"""Replaces NumPy's generator while an item is made; why: harness/decisions.md, "Seeding the items of a dataset". The
job's own draws between items lose only the second half of a pair of normal numbers."""


def _seed_numpy(seed: int) -> None:
    mtrand.set_bit_generator(OF_ITEMS)
    numpy.random.seed(seed % 2**32)


GENERATORS = {
    "torch": _Generator(
        torch.default_generator.get_state,
        torch.default_generator.set_state,
        torch.default_generator.manual_seed,
        lambda: torch.rand((), dtype=torch.double, device="cpu").item(),
    ),
    "random": _Generator(random.getstate, random.setstate, random.seed, random.random),
    "numpy": _Generator(mtrand.get_bit_generator, mtrand.set_bit_generator, _seed_numpy, numpy.random.random),
}


class _Items(Dataset[Any]):
    """A dataset whose items draw the same random numbers in any process.

    Attributes:
        data: the person's dataset.
        generators: names in GENERATORS that it draws from; seeding the rest as well would cost time for each item.
        last: number of the item that this process made last.
    """

    def __init__(self, data: Any, generators: tuple[str, ...]) -> None:
        self.data = data
        self.generators = generators
        self.last = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, number: int) -> Any:
        self.last = number
        with seed_draws(number, self.generators):
            return self.data[number]


def _collated(items: _Items, collate: Callable[[list[Any]], Any], batch: list[Any]) -> Any:
    with seed_draws(items.last, items.generators):
        return collate(batch)


def generators_used(job: Job) -> tuple[str, ...]:
    """Names of the generators that two items and their batch draw from."""
    if job.data is None or isinstance(job.data, IterableDataset):
        return ()
    collate = job.loading.get("collate_fn") or default_collate
    with seed_draws(0, tuple(GENERATORS)):
        first = {name: generator.draw() for name, generator in GENERATORS.items()}
    with seed_draws(0, tuple(GENERATORS)):
        try:
            collate([job.data[0], job.data[0]])
        except Exception:  # its items are not numbered from 0
            return ()
        return tuple(name for name, generator in GENERATORS.items() if generator.draw() != first[name])


@contextmanager
def seed_draws(seed: int, generators: Sequence[str]) -> Iterator[None]:
    """Seed the named GENERATORS; what they drew before goes on afterwards."""
    before = [GENERATORS[name].get() for name in generators]
    for name in generators:
        GENERATORS[name].seed(seed)
    try:
        yield
    finally:
        for name, state in zip(generators, before, strict=True):
            GENERATORS[name].set(state)
