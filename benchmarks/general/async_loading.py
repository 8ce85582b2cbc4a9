"""Load data in worker processes.

A `DataLoader` without workers reads, decodes and augments each batch in the training process, between
two steps. With `num_workers=W`, W processes do so ahead of time, and the training process only waits
where they are slower than it is. `persistent_workers=True` keeps them from one epoch to the next.

Why people write the baseline: `num_workers=0` is the default.

What to expect: up to the share of time the loop spent on loading, as long as there are cores to spare.
Each worker is a process with its memory, and starting them takes time once. Whether "two to four times
the cores" is a good number of workers is measured here, not assumed.

The step is a whole epoch: batches prefetched by one side would otherwise be decoded while the other
side is being timed.
"""

from functools import partial
from typing import Any

from torch.utils.data import DataLoader

from benchmarks.jobs.image_classification import TrainSmallNetwork
from benchmarks.jobs.images import JpegPhotos, jpeg_files
from tipbench.tip.words import (
    Claim,
    Equal,
    Job,
    Pair,
    Sizes,
    Step,
    Tip,
    available_cores,
    rises,
    sweep,
    torchvision,
    working_children,
)

TIP = Tip(
    id="async-loading",
    title="Load data in worker processes",
    do="DataLoader(data, num_workers=..., persistent_workers=True)",
    guide=("A1.1", "B3"),
    claim=Claim.FASTER,
    mechanism=rises("processes that decode beside the training process", working_children),
    note=(
        "A1.1 explains it by Python's global lock, but the workers are processes, not threads. "
        "B3 advises 2 to 4 workers a core; DataLoader itself warns of more workers than cores."
    ),
    why_not=(
        "Loading needs cores to spare. With as many busy threads in the training step as there are cores, a "
        "worker takes from the step what it gives to the loading, and handing a batch over costs both."
    ),
)

CORES = available_cores()
MOST = 4 * CORES
"""What B3 advises at most."""
WORKERS = (1, 2, CORES, 2 * CORES, MOST)
FEWER = (1, CORES, MOST)
"""For the whole epoch, which takes long."""
IMAGES = 16 * min(CORES, 16)
"""Images in an epoch: with batches of 4, one batch for each of 4 workers a core."""


def async_loading(job: Job, num_workers: int) -> None:
    """The tip, on any job."""
    job.loading.update(num_workers=num_workers, persistent_workers=True)


class Decoding(Pair):
    """One epoch of JPEG decoding and augmentation, with no model behind it."""

    needs = (torchvision(),)
    equal = Equal.BITWISE
    sizes = Sizes(dict(images=IMAGES, batch=4, pixels=112), test=dict(images=4 * 4 * CORES, batch=2, pixels=16))

    def loading(self, **workers: Any) -> Step:
        photos = JpegPhotos(jpeg_files()[: self.size["images"]], self.size["pixels"], augment=True)
        loader = DataLoader(photos, batch_size=self.size["batch"], **workers)
        return lambda: [images for images, _ in loader]

    def baseline(self) -> Step:
        return self.loading()

    @sweep(num_workers=WORKERS)
    def optimized(self, num_workers: int = MOST) -> Step:
        return self.loading(num_workers=num_workers, persistent_workers=True)


class TrainingEpoch(TrainSmallNetwork):
    """One epoch of training a small network from JPEG files."""

    sizes = Sizes(dict(images=IMAGES, batch=4, pixels=112), test=dict(images=4 * 4 * CORES, batch=2, pixels=16))

    def step_of(self, job: Job) -> Step:
        return job.epoch

    @sweep(num_workers=FEWER)
    def optimized(self, num_workers: int = MOST) -> Step:
        return self.applied(partial(async_loading, num_workers=num_workers))
