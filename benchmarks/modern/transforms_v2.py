"""Transform images as uint8 tensors: torchvision's transforms v2.

The classic recipe crops, resizes and mirrors a PIL image, and makes a float tensor of it at the end. The
`v2` transforms work on tensors: the photo becomes a uint8 tensor at once, is cut and resized as bytes by
torch's vectorised kernels, and turned into floats last, when it is small.

Why people write the baseline: it is the recipe of ten years of tutorials, and still works.

What to expect: less time than with plain Pillow for cutting and resizing, and none saved on decoding the JPEG
file, which stays with Pillow. Pixels may differ by one step of 255: the two resize with other rounding.
"""

from collections.abc import Callable

import torch
from PIL import Image

from benchmarks.jobs.image_classification import RunSmallNetwork, TrainSmallNetwork
from benchmarks.jobs.images import DEVIATION, MEAN, JpegPhotos
from tipbench.tip.words import *

TIP = Tip(
    id="transforms-v2",
    title="Transform images as uint8 (transforms v2)",
    do=(
        "from torchvision.transforms import v2\n"
        "floats = [v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]\n"
        "plain = [v2.Resize((224, 224))]\n"
        "augmented = [v2.RandomResizedCrop(224), v2.RandomHorizontalFlip()]\n"
        "own = plain  # in training augmented, where your transform is; with your mean and deviation above\n"
        "data.transform = v2.Compose([v2.PILToTensor(), *own, *floats])  # before the DataLoader is made\n"
        "loader = DataLoader(data, **arguments)\n"
        "# not on a Subset or ConcatDataset, nor where `transforms` is what the data set calls: there it does nothing"
    ),
    when="photos are resized as Pillow images, not by NEAREST, and not rotated, sheared or RandAugmented",
    against="the same transforms on Pillow images",
    guide=("M6",),
    claim=Claim.FASTER,
    mechanism=rises(
        "images resized by torch, not by Pillow", lambda step: calls(step, "aten::_upsample_bilinear2d_aa")
    ),
    why_not="Decoding the JPEG file, the same on both sides, takes most of the time of loading.",
)

ONE_STEP = 1e-2
"""One of 255 steps of a pixel is 0.0174 of a normalised value, 0.0066 of the largest."""


def tensor_transforms(pixels: int, augment: bool) -> Callable[[Image.Image], torch.Tensor]:
    """What `JpegPhotos` does, in the same order and with the same random numbers, on uint8 tensors."""
    from torchvision.transforms import v2

    change = [v2.RandomResizedCrop(pixels), v2.RandomHorizontalFlip()] if augment else [v2.Resize((pixels, pixels))]
    to_floats = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    found: Callable[[Image.Image], torch.Tensor] = v2.Compose([v2.PILToTensor(), *change, *to_floats])
    return found


def transforms_v2(job: Job) -> None:
    """The tip, on any job that loads JPEG photos."""
    assert isinstance(job.data, JpegPhotos)
    job.data.transform = tensor_transforms(job.data.pixels, job.data.augment)


class SmallNetworkTraining(TrainSmallNetwork, apply=transforms_v2):
    """A small network trained on JPEG files: decoding, cutting out at random, resizing and mirroring included."""

    tolerance = ONE_STEP


class SmallNetworkInference(RunSmallNetwork, apply=transforms_v2):
    """A small network run over JPEG files, decoding and resizing included."""

    tolerance = ONE_STEP
