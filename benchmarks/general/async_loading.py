"""Load data in worker processes.

A `DataLoader` without workers reads, decodes and augments each batch in the training process, between two steps. With
`num_workers=W`, W processes do so ahead of time, and the training process only waits where they are slower than it is.
`persistent_workers=True` keeps them from one epoch to the next; `ShortEpochs` has that alone.

Why people write the baseline: `num_workers=0` is the default.

What to expect: up to the share of time the loop spent on loading, as long as there are cores to spare. Where the loop
waits for the storage no core is needed: a worker that waits takes none, and more of them than cores pay. Each worker is
a process with its memory, and starting them takes time. Whether "two to four times the cores" is a good number of
workers is measured here, not assumed. `file_system` is another way to hand batches over, without file descriptors. The
guide explains workers by Python's global lock; it is free where loading waits, as the variant `threads` shows.

The step is some batches in a row, in the midst of an epoch: `jobs/loading.py` says how that is fair.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.jobs.image_classification import RunSmallNetwork, TrainFromFiles, TrainFromStorage
from benchmarks.jobs.images import JpegPhotos, RemotePhotos, jpeg_files
from benchmarks.jobs.loading import Stretch
from tipbench.tip.words import *

TIP = Tip(
    id="async-loading",
    title="Load data in worker processes",
    do=(
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        "loader = DataLoader(data, **arguments | dict(num_workers={num_workers}, persistent_workers=True))\n"
        "# more workers than cores pay where loading waits for storage, though DataLoader then warns\n"
        "# not persistent if an epoch changes the data; an IterableDataset must share itself out among workers\n"
        "# workers share a file opened in __init__: open it in each; and each repeats the data set's own random "
        "generator: seed it in worker_init_fn"
    ),
    ways={
        "threads": (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "# without workers, and if the data set draws nothing at random: threads share one generator\n"
            "threads = ThreadPoolExecutor(loader.batch_size)\n"
            "data.__getitems__ = lambda indices: list(threads.map(data.__getitem__, indices))"
        ),
    },
    when="loading waits for storage, or decodes while cores are idle",
    against="no workers; simulated storage, 10 ms a file",
    guide=("A1.1", "B3", "D1", "D6", "D8"),
    claim=Claim.FASTER,
    called="a worker a core",
    once="starting the workers",
    one_of="workers",
    mechanism=rises("processes that decode beside the training process", working_children),
    note="B3 advises 2 to 4 workers a core, DataLoader warns of that; each tensor of a batch is handed over by itself",
    why_not=(
        "On a CPU, loading needs cores to spare. With as many busy threads in the training step as there are cores, "
        "a worker takes from the step what it gives to the loading, and handing a batch over costs both."
    ),
)

CORES = available_cores()
"""The first choice: DataLoader suggests at most so many, and A1.1 names no number."""
WORKERS = (1, CORES, 2 * CORES, 4 * CORES)
"""B3 advises the last two."""


def async_loading(job: Job, num_workers: int) -> None:
    job.loading.update(num_workers=num_workers, persistent_workers=True)


class _Decoding(Pair):
    needs = (torchvision(),)
    equal = Equal.BITWISE
    sizes = TrainFromStorage.sizes

    def job(self, files: list[Path], **loading: Any) -> Job:
        photos = JpegPhotos(files, self.size["pixels"], augment=True)
        return Job(nn.Identity(), photos, self.device, batch_size=self.size["batch"], **loading)


class Decoding(_Decoding):
    """JPEG files decoded and augmented in batches, with no model behind them."""

    def stretch(self, **loading: Any) -> Step:
        return Stretch(self.job(8 * jpeg_files(), **loading).step, self.size["batches"])

    def baseline(self) -> Step:
        return self.stretch()

    @sweep(num_workers=WORKERS)
    def optimized(self, num_workers: int = CORES) -> Step:
        return self.stretch(num_workers=num_workers, persistent_workers=True)

    @variant
    def file_system(self) -> Step:
        return self.stretch(num_workers=CORES, persistent_workers=True, worker_init_fn=share_by_name)


def share_by_name(worker: int) -> None:
    torch.multiprocessing.set_sharing_strategy("file_system")


def open_files(step: Step) -> int:
    """Tensors that this process has of workers by open files, which have no name any more."""
    batches = step()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sum("/torch_" in line and "(deleted)" in line for line in maps) if batches else 0


class SmallTensors(Pair):
    """Batches of tensors with four numbers each, in memory of their own, which a worker hands over one by one."""

    against, called = "open files, the default", "sharing by name"
    equal = Equal.BITWISE
    mechanism = falls("tensors handed over by an open file", open_files)
    seeded = False
    sizes = Sizes(dict(tensors=32, batches=8), test=dict(tensors=4, batches=2))  # a process may open 1,024 files

    def stretch(self, **loading: Any) -> Step:
        rows: Any = list(torch.arange(40000.0).view(-1, 4))
        loading |= dict(num_workers=1, persistent_workers=True, collate_fn=lambda rows: [row.clone() for row in rows])
        loader = DataLoader(rows, batch_size=self.size["tensors"], **loading)
        epochs = chain.from_iterable(repeat(loader))
        return Stretch(partial(next, epochs), self.size["batches"])

    def baseline(self) -> Step:
        return self.stretch()

    def optimized(self) -> Step:
        return self.stretch(worker_init_fn=share_by_name)


class ShortEpochs(_Decoding):
    """The same in epochs of `batches` batches, each a step, by workers that are started for each or stay."""

    against, called = "workers started anew in each epoch", "workers that stay"
    mechanism = falls("worker processes started in an epoch", started_children)

    def epoch(self, **loading: Any) -> Step:
        files = jpeg_files()[: self.size["batches"] * self.size["batch"]]
        job = self.job(files, num_workers=CORES, **loading)
        return lambda: [job.step() for _ in range(self.size["batches"])]

    def baseline(self) -> Step:
        return self.epoch()

    def optimized(self) -> Step:
        return self.epoch(persistent_workers=True)


class _InWorkers(MacroPair):
    @sweep(num_workers=WORKERS)
    def optimized(self, num_workers: int = CORES) -> Step:
        return self.applied(partial(async_loading, num_workers=num_workers))


class TrainingFromFiles(_InWorkers, TrainFromFiles):
    """A small network trained on local JPEG files."""


class TrainingFromStorage(_InWorkers, TrainFromStorage):
    """A small network trained on JPEG files from network storage, which takes 10 ms or more for each."""


def in_threads(job: Job) -> None:
    """The other way, on a job whose data set draws no random numbers: a thread for each sample of a batch."""
    data: Any = job.data
    threads = ThreadPoolExecutor(job.loading["batch_size"])
    data.__getitems__ = lambda indices: list(threads.map(data.__getitem__, indices))


class InferenceFromStorage(_InWorkers, RunSmallNetwork, threads=in_threads):
    """A small network run over JPEG files from network storage."""

    sizes = TrainFromStorage.sizes
    mechanism = falls("photos normalised by the main thread", lambda step: calls(step, "aten::sub_"))

    def job(self) -> Job:
        job = super().job()
        job.data = RemotePhotos(8 * jpeg_files(), self.size["pixels"], augment=False)
        return job

    def step_of(self, job: Job) -> Step:
        return Stretch(job.step, self.size["batches"])


ON_ANY_JOB = (
    *(
        Way(  # of these `advise` tries one: a worker a core, or what its sweep found to be enough
            partial(async_loading, num_workers=number),
            loading_with_few_workers if number == CORES else partial(loading_with_other_workers, number=number),
            name="" if number == CORES else str(number),
            do=TIP.do.format(num_workers=number),
            phase="loading",
            loads_elsewhere=True,
        )
        for number in dict.fromkeys((CORES, 1, 2, 4, 8, 16))
    ),
    Way(
        lambda job: job.loading.update(persistent_workers=True),
        workers_started_anew,
        name="kept",
        do=(
            "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
            "loader = DataLoader(data, **arguments | dict(persistent_workers=True))"
        ),
        mends=True,
        mechanism=falls("worker processes started in an epoch", started_children),
        loads_elsewhere=True,
    ),
)
