"""Copy to the GPU from pinned memory.

The GPU can fetch memory by itself if the operating system promises not to move it: pinned memory. From any other,
pageable memory the driver first copies a piece into a pinned buffer of its own, and the processor waits. With
`pin_memory=True` a `DataLoader` has its batches pinned by a thread, and `.to(device, non_blocking=True)` then only
hands the copy over.

Why people write the baseline: `.to(device)` is the way to copy, and pinning must be requested twice.

What to expect: copies of some megabytes up to twice as fast, and a processor that is free meanwhile; little where
computing takes far longer than copying. These are two gains: the variant `waiting` pins, and waits for each copy all
the same. Pinning is slow itself: done in the loop, by the thread that trains, it costs more than it brings (the variant
`pinned_in_the_loop`), and pinned memory is taken from everybody else.
"""

import torch

from benchmarks.jobs.image_classification import TrainFromFiles
from tipbench.tip.words import *

TIP = Tip(
    id="pin-memory",
    title="Copy to the GPU from pinned memory",
    do=(
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        "loader = DataLoader(data, **arguments | dict(pin_memory=True))\n"
        "batch, targets = batch.to(device, non_blocking=True), targets.to(device, non_blocking=True)"
    ),
    ways={"waiting": ""},
    guide=("A1.1", "B3", "D2"),
    claim=Claim.FASTER,
    called="pinning in the DataLoader",
    mechanism=Mechanism(
        "copies from the host: from pageable and from pinned memory",
        copies_to_device,
        lambda baseline, optimized: bool(optimized["pinned"] > baseline["pinned"]),
    ),
    published="x.pin_memory().to() in the loop can be twice as slow (PyTorch: A guide on pin_memory and non_blocking)",
)


def pin_memory(job: Job) -> None:
    """The tip, on any job."""
    job.loading["pin_memory"] = True
    job.non_blocking = True


def pin_and_wait(job: Job) -> None:
    """Half of the tip: each copy is waited for, so that the processor does nothing meanwhile."""
    job.loading["pin_memory"] = True


class Copies(Pair):
    """Tensors of 1 to 256 MB that are copied to the GPU."""

    devices = ("cuda",)
    needs = (gpu(1),)
    equal = Equal.BITWISE
    sizes = Sizes(dict(smallest_bytes=2**20, largest_bytes=2**28), test=dict(smallest_bytes=2**8, largest_bytes=2**10))

    def tensors(self) -> list[torch.Tensor]:
        sizes = [self.size["smallest_bytes"]]
        while sizes[-1] < self.size["largest_bytes"]:
            sizes.append(4 * sizes[-1])
        return [torch.randn(size // 4) for size in sizes]

    def pinned(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        # Without a GPU there is nobody to pin it for, and torch refuses.
        return [tensor.pin_memory() for tensor in tensors] if self.device.type == "cuda" else tensors

    def baseline(self) -> Step:
        tensors = self.tensors()
        return lambda: [tensor.to(self.device, copy=True) for tensor in tensors]

    def optimized(self) -> Step:
        tensors = self.pinned(self.tensors())
        return lambda: [tensor.to(self.device, non_blocking=True, copy=True) for tensor in tensors]

    @variant
    def pinned_in_the_loop(self) -> Step:
        tensors = self.tensors()
        return lambda: [tensor.to(self.device, non_blocking=True, copy=True) for tensor in self.pinned(tensors)]


class TrainingFromFiles(TrainFromFiles, apply=pin_memory, waiting=pin_and_wait):
    """A small network trained on JPEG files, loaded by a worker for each core."""

    devices = ("cuda",)
    needs = (gpu(1), cores(2), torchvision())

    def job(self) -> Job:
        job = super().job()
        job.loading.update(num_workers=available_cores(), persistent_workers=True)
        return job


ON_ANY_JOB = (Way(pin_memory, loading_with_a_loader, devices=("cuda",), phase="loading"),)
