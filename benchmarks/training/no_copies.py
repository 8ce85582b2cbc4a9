"""Turn NumPy arrays into tensors without copying them.

`torch.tensor(array)` always copies. `torch.as_tensor(array)` and `torch.from_numpy(array)` make a tensor
over the array's own memory: nothing is read and nothing written, whatever the size.

Why people write the baseline: `torch.tensor` is the name one finds first, and a copy is never wrong.

What to expect: everything, where a large array is only wrapped; little in a training loop, where a model
does far more with a batch than copy it. The tensor and the array are the same memory from then on: what
is written to the one is seen in the other. Lists are copied either way, number by number.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch.utils.data import Dataset

from benchmarks.jobs.image_classification import RunSmallNetwork, TrainSmallNetwork
from benchmarks.jobs.images import JpegPhotos, jpeg_files
from tipbench.tip.words import *

TIP = Tip(
    id="no-copies",
    title="Turn NumPy arrays into tensors without a copy",
    do="torch.as_tensor(array)  # shares its memory: neither may be changed in place",
    when="batches are made of NumPy arrays",
    against="torch.tensor(array)",
    guide=("B10",),
    claim=Claim.FASTER,
    mechanism=falls("copies of tensors", lambda step: calls(step, "aten::copy_")),
    note="torch.cpu() and torch.cuda(), which B10 names, are modules; the tensor's methods are meant",
    why_not="The copy of a batch is a small part of what a model does with it.",
)


DECODED = 32


class ArrayPhotos(Dataset[tuple[torch.Tensor, int]]):
    """Photos that somebody has decoded before, as one array (images, 3, pixels, pixels) of float32.

    The same DECODED over and over, as decoding takes long: a copy takes as long whatever a photo shows.
    """

    def __init__(self, images: int, pixels: int) -> None:
        photos = JpegPhotos(jpeg_files()[:DECODED], pixels, augment=True)
        decoded = [photos[index] for index in range(min(images, DECODED))]
        loaded = [decoded[index % DECODED] for index in range(images)]
        self.images: np.ndarray = torch.stack([image for image, _ in loaded]).numpy()
        self.labels = [label for _, label in loaded]
        self.to_tensor: Callable[[np.ndarray], torch.Tensor] = torch.tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.to_tensor(self.images[index]), self.labels[index]


def no_copies(job: Job) -> None:
    """The tip, on any job whose dataset makes tensors of arrays by its `to_tensor`."""
    assert isinstance(job.data, ArrayPhotos)
    job.data.to_tensor = torch.as_tensor


class _OfArrays(MacroPair, apply=no_copies):
    def job(self) -> Job:
        job = super().job()
        job.data = ArrayPhotos(self.size["images"], self.size["pixels"])
        return job


class SmallNetworkTraining(_OfArrays, TrainSmallNetwork):
    """Training a small network on photos kept as one NumPy array, one copy or none for each photo."""

    sizes = Sizes(
        dict(images=128, batch=32, pixels=224),
        M=dict(images=256, batch=64),
        L=dict(images=512, batch=128),
        test=dict(images=4, batch=2, pixels=16),
    )


class SmallNetworkInference(_OfArrays, RunSmallNetwork):
    """Running a small network over photos kept as one NumPy array, one copy or none for each photo."""

    # Twice the photos of the training: without a backward pass they take a third of its time.
    sizes = SmallNetworkTraining.sizes.but(dict(images=256, batch=64), M=dict(images=512, batch=128), L=dict(batch=256))
