"""Take batches as they are ready, where their order does not matter.

The workers of a `DataLoader` take turns: each gets every n-th batch, and the loop gets them in that order. While it
waits for a slow batch, those behind it lie ready, and the other workers, which may be so many batches ahead and no
more, stand still. With `in_order=False` the loop takes whatever is ready, and whoever is free gets the next batch.

Why people write the baseline: `in_order=True` is the default, and runs can be repeated.

What to expect: at most what the workers lose by waiting for each other. That is little where a batch has many samples,
as its time is near the mean then, and much where it has one or few and their times differ: photos of different sizes,
documents, films, a storage that is slow now and then. It adds no worker, and nothing where the model is what takes
long. A longer queue, the tip `prefetch`, does a part of the same and keeps the order.

The order is another one in each epoch and each run: what loads fast comes earlier. So results have to be put back in
order by a number that the data set gives with each sample. A training that does this cannot be repeated, and sees the
slow samples late: a reason to leave it as it is.

The step is a whole epoch, forward only, and its results are put in order: one batch would be other work on each side.
"""

from unittest.mock import patch

import torch
from torch.utils.data import Dataset
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from benchmarks.jobs.image_classification import RunSmallNetwork
from benchmarks.jobs.images import JpegPhotos, RemotePhotos, jpeg_files
from benchmarks.jobs.sequences import vectors
from tipbench.tip.words import *


def batches_behind_a_slow_one(step: Step) -> int:
    """Batches that the workers hand over in a step while the loop waits for an earlier one."""
    waiting = 0
    receive = _MultiProcessingDataLoaderIter._get_data

    def watched(loading: _MultiProcessingDataLoaderIter) -> tuple[object, object]:
        nonlocal waiting
        number, batch = receive(loading)  # of an epoch that starts, workers say so first, without a number
        waiting += isinstance(number, int) and loading._in_order and number != loading._rcvd_idx
        return number, batch

    with patch.object(_MultiProcessingDataLoaderIter, "_get_data", watched):
        step()
    return waiting


TIP = Tip(
    id="batches-as-ready",
    title="Take batches as they are ready",
    do=(
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        "loader = DataLoader(data, **arguments | dict(in_order=False))  # of two workers or more\n"
        "# batches come in any order: the data set must say which sample is which"
    ),
    when="several workers load batches, which take unlike times, and order does not matter, as in an evaluation",
    guide=("M21", "D4"),
    claim=Claim.FASTER,
    mechanism=falls("batches that wait behind a slow one", batches_behind_a_slow_one),
    note="In training it changes the order of the samples from run to run, and those that load slowly come late.",
    why_not="Batches of many samples take about the same time each, and then no worker waits for another.",
)


def batches_as_ready(job: Job) -> None:
    """The tip, on any job that loads in workers."""
    job.loading.update(in_order=False)


class Numbered(Dataset[tuple[torch.Tensor, int]]):
    """The first of some photos, each with its number in place of its class."""

    def __init__(self, photos: JpegPhotos, count: int) -> None:
        self.photos, self.count = photos, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.photos[index][0], index


class InferenceFromStorage(RunSmallNetwork, apply=batches_as_ready):
    """A small network run over single photos from network storage, one in 16 of which comes late; four workers."""

    needs = (torchvision(), cores(2))
    sizes = Sizes(
        dict(images=32, batch=1, pixels=112), M=dict(images=64), L=dict(images=128, pixels=224), test=dict(pixels=16)
    )

    def job(self) -> Job:
        job = super().job()
        photos = RemotePhotos(jpeg_files(), self.size["pixels"], augment=False)
        job.data = Numbered(photos, self.size["images"])
        job.loading.update(num_workers=4, persistent_workers=True)  # which mostly wait for the storage
        return job

    def step_of(self, job: Job) -> Step:
        return lambda: vectors(job)
