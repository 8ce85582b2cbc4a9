"""Prefetch batches: further ahead from the workers, and to the device while it computes.

Each worker of a `DataLoader` gets requests for `prefetch_factor` batches before the first is taken. Where some
batches take much longer than others, the ones that lie ready bridge the wait, and a longer queue bridges a
longer one. With a GPU there is a second queue to fill: `batch.to(device, non_blocking=True)` on a stream of its
own copies the next batch while the present one is computed. On the stream that computes, the copy waits its
turn like everything else there.

Why people write the baseline: `prefetch_factor=2` is the default, and a copy on the present stream needs no
thought about streams.

What to expect: from a longer queue little. It evens out, but adds no worker: nothing is gained where workers are
too slow on average, or fast enough always. It costs the memory of the batches in it. From copying ahead, at
most the shorter of the times for copying and computing. The pair for GPUs was never run so far.

The step is some batches in a row, in the midst of an epoch: `jobs/loading.py` says how that is fair.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from unittest.mock import patch

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from benchmarks.jobs.image_classification import TrainFromFiles
from benchmarks.jobs.images import JpegPhotos, UnevenPhotos, jpeg_files
from tipbench.tip.words import *


def most_requested(step: Step) -> int:
    """The most batches that were requested of the workers and not taken yet, at any time in a step."""
    most = 0
    request = _MultiProcessingDataLoaderIter._try_put_index

    def watched(loading: _MultiProcessingDataLoaderIter) -> None:
        nonlocal most
        request(loading)
        most = max(most, loading._tasks_outstanding)

    with patch.object(_MultiProcessingDataLoaderIter, "_try_put_index", watched):
        step()
    return most


TIP = Tip(
    id="prefetch",
    title="Prefetch batches, and to the device",
    do=(
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        "loader = DataLoader(data, **arguments | dict(prefetch_factor={prefetch_factor}))"
    ),
    when="the DataLoader has workers",
    guide=("M4", "D3"),
    claim=Claim.FASTER,
    mechanism=rises("batches asked for ahead", most_requested),
)

WORKERS = 2
FURTHER = (4, 8)
"""Batches requested of a worker ahead; the default is 2."""


def prefetch(job: Job, prefetch_factor: int) -> None:
    """The tip, on any job that loads in workers."""
    job.loading.update(prefetch_factor=prefetch_factor)


def copied_ahead(batches: Iterable[torch.Tensor], device: torch.device) -> Iterator[torch.Tensor]:
    """The tip on a GPU: each batch, pinned on the host, on the device; the one after it is copied meanwhile."""
    copying, computing = torch.cuda.Stream(device), torch.cuda.current_stream(device)

    def copied(batch: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(copying):
            return batch.to(device, non_blocking=True)

    ahead: torch.Tensor | None = None
    for batch in chain(batches, [None]):
        if ahead is not None:
            # Before the next copy is enqueued, which would otherwise be waited for as well.
            computing.wait_stream(copying)
        ready, ahead = ahead, None if batch is None else copied(batch)
        if ready is not None:
            # The memory is the copying stream's, which would fill it anew as soon as Python lets go of it,
            # though what computes on it may not have run yet.
            ready.record_stream(computing)
            yield ready


class CopiesElsewhere(TorchDispatchMode):
    """Counts the copies made while another stream than the default one is current."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.ops.aten._to_copy.default:
            self.count += bool(torch.cuda.current_stream() != torch.cuda.default_stream())
        return func(*args, **(kwargs or {}))


def copies_elsewhere(step: Step) -> int:
    with CopiesElsewhere() as copies:
        step()
    return int(copies.count)


class CopyingAhead(Pair):
    """Pinned batches that are copied to the GPU and pass through linear layers there. Never run so far."""

    devices = ("cuda",)
    needs = (gpu(1),)
    mechanism = rises("copies on a stream of their own", copies_elsewhere)
    sizes = Sizes(dict(batches=8, batch=4096, width=2048, layers=4), test=dict(batches=3, batch=4, width=8, layers=1))

    def model(self) -> nn.Module:
        width = self.size["width"]
        layers = [nn.Linear(width, width) for _ in range(self.size["layers"])]
        return nn.Sequential(*layers).to(self.device).requires_grad_(False)

    def batches(self) -> list[torch.Tensor]:
        shape = self.size["batch"], self.size["width"]
        return [torch.randn(shape).pin_memory() for _ in range(self.size["batches"])]

    def baseline(self) -> Step:
        model, batches = self.model(), self.batches()
        # The sums alone are kept, so that no batch's memory is.
        return lambda: [model(batch.to(self.device, non_blocking=True)).sum(dim=0) for batch in batches]

    def optimized(self) -> Step:
        model, batches = self.model(), self.batches()
        return lambda: [model(batch).sum(dim=0) for batch in copied_ahead(batches, self.device)]


class TrainingFromFiles(TrainFromFiles):
    """A small network trained on uneven JPEG photos, decoded by two workers."""

    needs = (torchvision(), cores(WORKERS))

    def photos(self) -> JpegPhotos:
        return UnevenPhotos(jpeg_files()[:64], self.size["pixels"])

    def job(self) -> Job:
        job = super().job()
        job.loading.update(num_workers=WORKERS, persistent_workers=True)
        return job

    @sweep(prefetch_factor=FURTHER)
    def optimized(self, prefetch_factor: int = FURTHER[0]) -> Step:
        return self.applied(partial(prefetch, prefetch_factor=prefetch_factor))


ON_ANY_JOB = (
    Way(
        partial(prefetch, prefetch_factor=FURTHER[0]),
        loading_in_workers,
        do=TIP.do.format(prefetch_factor=FURTHER[0]),
        phase="loading",
        loads_elsewhere=True,
    ),
)
