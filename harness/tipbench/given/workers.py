"""Whether worker processes would give a job the batches that its own process gives it.

Each worker has a copy of the data set, as it was when the worker was started. It does not see what is changed later, in
the job's process or in another worker; a random number generator in it draws the same in every worker; and it loads
ahead of the steps. None of this raises: a training just gets other data. So the batches of both are compared, while the
first steps run. What changes later or more slowly is not seen.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from time import perf_counter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import IterableDataset

from tipbench.given.draws import draw_alike, shuffle_alike
from tipbench.given.loop import GivenJob
from tipbench.tip.job import Job

_LOOK_S = 20.0
"""Longest that a job is loaded as it is to compare its batches; with workers it may take _TIMES as long."""

_TIMES = 3

NO_TIME = "there was no time to compare the batches with and without workers: give a longer --budget"

NEXT_EPOCH = 4
"""Batches of the second epoch that are compared too: what changes between epochs shows there."""

_STEPS = 2
"""Batches on which a training's step runs: what follows the training shows in the next batch."""

SETTERS = ("set_epoch", "set_stage", "set_phase", "set_step", "set_level", "set_difficulty")
"""Methods that a training calls between its epochs, which no measurement of single steps does."""

HANDLES = {"h5py": "an open h5py file", "sqlite3": "a database's connection", "lmdb": "an open database"}
"""By top-level package, what several processes cannot use at once, beside open files."""


@dataclass(frozen=True)
class Compared:
    """What loading a job with and without worker processes has shown.

    Attributes:
        batches: how many were compared.
        epoch: whether they were all of an epoch, and the first of the next.
        why_not: why workers cannot be shown to give the same batches; empty where they gave the same.
    """

    batches: int = 0
    epoch: bool = False
    why_not: str = ""

    @property
    def words(self) -> str:
        """How far it looked, as a sentence without its full stop; empty where workers give other batches."""
        if self.why_not:
            return ""
        if self.epoch:
            return f"with workers the {self.batches} batches of an epoch and of the start of the next are the same"
        return f"with workers the first {self.batches} batches are the same, which is not a whole epoch"


def compare_loading(
    build: Callable[[], Job], follow: Callable[[Job], None], draws: Sequence[str] = (), until: float = math.inf
) -> Compared:
    """Load a job as it is, and with the tip followed.

    build: builds the job anew, from the same seeds. follow: applies the tip. draws: as of `draw_alike`. until: when
    there is no more time for it, as `time.perf_counter` has it.
    """
    look_s = min(_LOOK_S, until - perf_counter())
    if look_s <= 0:
        return Compared(why_not=NO_TIME)
    job = build()
    if isinstance(job.data, IterableDataset) and not job.loading.get("num_workers"):
        return Compared(
            why_not="the data set is iterable: unless its `__iter__` takes a part by "
            "`torch.utils.data.get_worker_info()`, every worker gives all of it, and where it does the batches are "
            "others; once it does, try it yourself"
        )
    if why_not := _not_compared(job.data):
        return Compared(why_not=why_not)
    as_it_is = _loaded(job, draws, look_s)
    if as_it_is.failure:
        return Compared(why_not=as_it_is.failure)
    del job  # its model: not both are in memory
    other = build()
    follow(other)
    with_workers = _loaded(other, draws, _TIMES * look_s, len(as_it_is.digests))
    if with_workers.failure:
        return Compared(why_not=f"with workers {with_workers.failure}")
    pairs = list(zip(as_it_is.digests, with_workers.digests, strict=False))
    unlike = next((number for number, (one, two) in enumerate(pairs, 1) if one != two), None)
    if unlike is not None:
        length = as_it_is.epoch
        where = f"batch {unlike - length} of the second epoch" if 0 < length < unlike else f"batch {unlike}"
        return Compared(len(pairs), why_not=f"with workers {where} is another one")
    return Compared(len(pairs), epoch=as_it_is.epoch > 0 and len(pairs) == len(as_it_is.digests))


def _not_compared(data: Any) -> str:
    """Why workers would not do for a data set, of what comparing its batches may not show; empty where they may."""
    while data is not None:
        kind = type(data)
        for name, value in getattr(data, "__dict__", {}).items():
            package = type(value).__module__.partition(".")[0]
            is_file = isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO)
            what = "an open file" if is_file else HANDLES.get(package, "") if hasattr(value, "close") else ""
            if what:
                return f"{kind.__name__}.{name} is {what}, which workers would share: open it at the first item"
        if setters := [name for name in SETTERS if hasattr(kind, name)]:
            return (
                f"{kind.__name__} has a method {setters[0]}: what the training changes by it, workers that are kept do "
                "not see"
            )
        data = getattr(data, "dataset", None)  # of a Subset
    return ""


@dataclass
class _Loaded:
    """Batches as they were loaded, one after the other.

    Attributes:
        digests: of each batch.
        epoch: how many batches an epoch has; 0 if none has ended.
        failure: why loading ended early; empty where it did not.
    """

    digests: list[bytes]
    epoch: int = 0
    failure: str = ""


def _loaded(job: Job, draws: Sequence[str], longest_s: float, count: int | None = None) -> _Loaded:
    """An epoch and NEXT_EPOCH batches of the next, or `count` batches, as far as there is time."""
    shuffle_alike(job)
    draw_alike(job, draws)
    loaded, end = _Loaded([]), perf_counter() + longest_s
    try:
        while True:
            for batch in job.loader():
                loaded.digests.append(_digest(batch))
                if job.optimizer is not None and len(loaded.digests) <= _STEPS:
                    job.run(batch, None) if isinstance(job, GivenJob) else job.run(*batch)
                most = loaded.epoch + NEXT_EPOCH if count is None and loaded.epoch else count
                if len(loaded.digests) == most or perf_counter() > end:
                    return loaded
            if not loaded.digests:
                loaded.failure = "loading gives no batch"
                return loaded
            loaded.epoch = loaded.epoch or len(loaded.digests)
    except Exception as error:  # of a person's data set
        kind = type(error).__name__
        message = str(error).strip().rpartition("\n")[2].removeprefix(f"{kind}: ")  # a worker's ends with both
        loaded.failure = f"loading raises {kind}{': ' if message else ''}{message}"
    return loaded


def _digest(batch: Any) -> bytes:
    """Equal for equal batches. Raises what pickling raises."""
    digest = blake2b(digest_size=16)
    for leaf in tree_leaves(batch):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
            digest.update(repr((leaf.dtype, leaf.shape)).encode())
            digest.update(leaf.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        else:
            digest.update(pickle.dumps(leaf))
    return digest.digest()
