"""Load data in worker processes.

A `DataLoader` without workers reads, decodes and augments each batch in the training process, between
two steps. With `num_workers=W`, W processes do so ahead of time, and the training process only waits
where they are slower than it is. `persistent_workers=True` keeps them from one epoch to the next.

Why people write the baseline: `num_workers=0` is the default.

What to expect: up to the share of time the loop spent on loading, as long as there are cores to spare. Where
the loop waits for the storage no core is needed: a worker that waits takes none, and more of them than cores
pay. Each worker is a process with its memory, and starting them takes time once. Whether "two to four times
the cores" is a good number of workers is measured here, not assumed.

The guide explains the workers by Python's global lock, and that it does not hurt where loading waits for the storage.
Threads show that: the variant `threads` reads all photos of a batch at once, without any further process. What they
draw at random comes from one generator in no fixed order (https://github.com/pytorch/pytorch/pull/161044).

The step is some batches in a row, in the midst of an epoch: `jobs/loading.py` says how that is fair.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from unittest.mock import patch

from PIL import ImageFile
from torch import nn

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
        "# more workers than cores only where loading waits for storage, whatever DataLoader warns of\n"
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
    when="loading waits for storage, or cores are idle",
    against="no workers; simulated storage, 10 ms or more a file",
    guide=("A1.1", "B3"),
    claim=Claim.FASTER,
    called="a worker a core",
    once="starting the workers",
    one_of="workers",
    mechanism=rises("processes that decode beside the training process", working_children),
    note=(
        "A1.1 explains it by Python's global lock, but the workers are processes, not threads. "
        "B3 advises 2 to 4 workers a core; DataLoader itself warns of more workers than cores."
    ),
    why_not=(
        "Loading needs cores to spare. With as many busy threads in the training step as there are cores, a "
        "worker takes from the step what it gives to the loading, and handing a batch over costs both."
    ),
    why_not_holds=is_cpu,
)

CORES = available_cores()
"""The first choice: DataLoader suggests at most so many, and A1.1 names no number."""
WORKERS = (1, CORES, 2 * CORES, 4 * CORES)
"""B3 advises the last two."""


def async_loading(job: Job, num_workers: int) -> None:
    job.loading.update(num_workers=num_workers, persistent_workers=True)


class Decoding(Pair):
    """JPEG files decoded and augmented in batches, with no model behind them."""

    needs = (torchvision(),)
    equal = Equal.BITWISE
    sizes = Sizes(
        dict(batches=8, batch=4, pixels=112),
        M=dict(batches=16, batch=16),
        test=dict(batches=8 * CORES, batch=2, pixels=16),
    )

    def job(self) -> Job:
        photos = JpegPhotos(8 * jpeg_files(), self.size["pixels"], augment=True)
        return Job(nn.Identity(), photos, self.device, batch_size=self.size["batch"])

    def baseline(self) -> Step:
        return Stretch(self.job().step, self.size["batches"])

    @sweep(num_workers=WORKERS)
    def optimized(self, num_workers: int = CORES) -> Step:
        job = self.job()
        async_loading(job, num_workers)
        return Stretch(job.step, self.size["batches"])


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


def decoding_elsewhere(step: Step) -> int:
    """Processes and threads that decode beside the main thread."""
    seen: set[int] = set()
    load = ImageFile.ImageFile.load

    def watched(image: ImageFile.ImageFile) -> Any:
        seen.add(threading.get_ident())
        return load(image)

    with patch.object(ImageFile.ImageFile, "load", watched):
        processes = working_children(step)
    return processes + len(seen - {threading.main_thread().ident})


class InferenceFromStorage(_InWorkers, RunSmallNetwork, threads=in_threads):
    """A small network run over JPEG files from network storage."""

    sizes = TrainFromStorage.sizes
    mechanism = rises("processes and threads that decode beside the main thread", decoding_elsewhere)

    def job(self) -> Job:
        job = super().job()
        job.data = RemotePhotos(8 * jpeg_files(), self.size["pixels"], augment=False)
        return job

    def step_of(self, job: Job) -> Step:
        return Stretch(job.step, self.size["batches"])


def keep_workers(job: Job) -> None:
    """The tip on a job that has workers, and starts them anew for each epoch."""
    job.loading.update(persistent_workers=True)


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
        keep_workers,
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
