"""Random numbers of a person's loading, so that a job with worker processes can be compared with one without.

A DataLoader with workers draws at other times and in other processes than one without: the second epoch has another
order, and an item that is augmented at random is another one. That is no error of a tip, but would be taken for one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    if _draws(job.data, collate):
        job.data = items = _Items(job.data)
        job.loading["collate_fn"] = partial(_collated, items, collate)


class _Items(Dataset[Any]):
    """last: the number of the item that was made last in this process."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.last = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, number: int) -> Any:
        self.last = number
        with _seeded(number):
            return self.data[number]


def _collated(items: _Items, collate: Callable[[list[Any]], Any], listed: list[Any]) -> Any:
    with _seeded(items.last):
        return collate(listed)


def _draws(data: Any, collate: Callable[[list[Any]], Any]) -> bool:
    before = _states()
    try:
        collate([data[0], data[0]])
        return _comparable(before) != _comparable(_states())
    except Exception:  # items that are not numbered from 0
        return False
    finally:
        _restore(before)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    before = _states()
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    try:
        yield
    finally:
        _restore(before)


_States = tuple[torch.Tensor, Any, Any]


def _states() -> _States:
    return torch.default_generator.get_state(), random.getstate(), numpy.random.get_state()


def _restore(states: _States) -> None:
    torch.default_generator.set_state(states[0])
    random.setstate(states[1])
    numpy.random.set_state(states[2])


def _comparable(states: _States) -> tuple[Any, ...]:
    _, keys, *position = states[2]
    return states[0].tolist(), states[1], keys.tolist(), position
