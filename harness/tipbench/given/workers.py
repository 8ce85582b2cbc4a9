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
from hashlib import blake2b
from time import perf_counter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import IterableDataset

from tipbench.given.draws import draw_alike, shuffle_alike
from tipbench.given.loop import GivenJob
from tipbench.given.target import BadJob
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


def compare_loading(
    build: Callable[[], Job], follow: Callable[[Job], None], draws: Sequence[str] = (), until: float = math.inf
) -> str:
    """Load a job as it is, and with the tip followed. Returns how far the batches were shown to be the same, as a
    sentence without its full stop. Raises BadJob with why that cannot be shown.

    build: builds the job anew, from the same seeds. follow: applies the tip. draws: as of `draw_alike`. until: when
    there is no more time for it, as `time.perf_counter` has it.
    """
    look_s = min(_LOOK_S, until - perf_counter())
    if look_s <= 0:
        raise BadJob(NO_TIME)
    job = build()
    if isinstance(job.data, IterableDataset) and not job.loading.get("num_workers"):
        raise BadJob(
            "the data set is iterable: unless its `__iter__` takes a part by `torch.utils.data.get_worker_info()`, "
            "every worker gives all of it, and where it does the batches are others; once it does, try it yourself"
        )
    _expect_comparable(job.data)
    as_it_is, length = _load(job, draws, look_s)
    del job  # its model: not both are in memory
    other = build()
    follow(other)
    try:
        with_workers, _ = _load(other, draws, _TIMES * look_s, len(as_it_is))
    except BadJob as bad:
        raise BadJob(f"with workers {bad}") from bad
    pairs = list(zip(as_it_is, with_workers, strict=False))
    unlike = next((number for number, (one, two) in enumerate(pairs, 1) if one != two), None)
    if unlike is not None:
        where = f"batch {unlike - length} of the second epoch" if 0 < length < unlike else f"batch {unlike}"
        raise BadJob(f"with workers {where} is another one")
    if length and len(pairs) == len(as_it_is):
        return f"with workers the {len(pairs)} batches of an epoch and of the start of the next are the same"
    return f"with workers the first {len(pairs)} batches are the same, which is not a whole epoch"


def _expect_comparable(data: Any) -> None:
    """Raise BadJob where workers would not do for a data set, and comparing its batches may not show it."""
    while data is not None:
        kind = type(data)
        for name, value in getattr(data, "__dict__", {}).items():
            package = type(value).__module__.partition(".")[0]
            is_file = isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO)
            what = "an open file" if is_file else HANDLES.get(package, "") if hasattr(value, "close") else ""
            if what:
                raise BadJob(f"{kind.__name__}.{name} is {what}, which workers would share: open it at the first item")
        if setters := [name for name in SETTERS if hasattr(kind, name)]:
            raise BadJob(
                f"{kind.__name__} has a method {setters[0]}: what the training changes by it, workers that are kept do "
                "not see"
            )
        data = getattr(data, "dataset", None)  # of a Subset


def _load(job: Job, draws: Sequence[str], longest_s: float, count: int | None = None) -> tuple[list[bytes], int]:
    """Load an epoch and NEXT_EPOCH batches of the next, or `count` batches, as far as there is time. Returns a digest
    of each, and how many an epoch has, 0 if none has ended. Raises BadJob where that fails."""
    shuffle_alike(job)
    draw_alike(job, draws)
    digests, length, end = list[bytes](), 0, perf_counter() + longest_s
    try:
        while True:
            for batch in job.loader():
                digests.append(_digest(batch))
                if job.optimizer is not None and len(digests) <= _STEPS:
                    job.run(batch, None) if isinstance(job, GivenJob) else job.run(*batch)
                most = length + NEXT_EPOCH if count is None and length else count
                if len(digests) == most or perf_counter() > end:
                    return digests, length
            if not digests:
                break
            length = length or len(digests)
    except Exception as error:  # of a person's data set
        kind = type(error).__name__
        message = str(error).strip().rpartition("\n")[2].removeprefix(f"{kind}: ")  # a worker's ends with both
        raise BadJob(f"loading raises {kind}{': ' if message else ''}{message}") from error
    raise BadJob("loading gives no batch")


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
