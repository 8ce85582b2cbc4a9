"""Decode JPEG photos at a reduced size, where the model's input is much smaller.

A JPEG file holds frequencies of 8 x 8 pixels, and decoding can leave out the high ones: a half, a quarter or an eighth
of the width and height comes out, for less work, and less is left to resize. Pillow does so on `Image.draft`, called
before anything reads the pixels. It never goes below the size in the call. Twice the input, the default of Pillow's own
`Image.thumbnail`, leaves the last reduction to a proper filter.

Why people write the baseline: to open a file, resize it and make a tensor of it is the recipe of all tutorials, and
none of them mentions `draft`. Where a data set is read often, its photos can also be stored smaller once and for all.

What to expect: nothing, unless both sides of a photo are at least four times those of the input, as a camera's are.
Then time for decoding and for resizing. What has to be read and decompressed stays, so that an eighth of the width
takes far more than 1/64 of the time. Other formats than JPEG are decoded as ever.

The price is in the pixels. The rows and columns of an odd size are rounded up, so that a photo is stretched by less
than one reduced pixel; fine lines come out otherwise; and where a size is no multiple of 8, the last row or column may
be stained by what the encoder put behind the edge. Here each pixel differs by 0.8 of 255 steps on average, and single
ones by far more. Whether a score suffers has to be tried on a model that was trained: those here are not. Training
needs care. A random cut is as much smaller as the photo: the size in the call must leave enough for the smallest cut.
"""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

from PIL import Image

from benchmarks.jobs.image_classification import RunResNet, RunSmallNetwork
from benchmarks.jobs.images import JpegPhotos, decoded_pixels, enlarged, jpeg_files
from tipbench.tip.words import *

TIP = Tip(
    id="reduced-decoding",
    title="Decode JPEG photos at a reduced size",
    do='image.draft("RGB", (2 * size, 2 * size))  # right after open(), before convert(); ImageFolder: in its loader=',
    when="JPEG photos are 4x as wide and high as inputs, resizing may be inexact, and no target or result is in pixels",
    against="decoding at full size",
    guide=("M19",),
    claim=Claim.FASTER,
    mechanism=falls("pixels decoded by Pillow", decoded_pixels),
    note="It is lossy: score a model on photos that are decoded in the same way as those it was trained on.",
    why_not="What has to be decompressed is the same at any size, and a large model takes longer than loading.",
)

FILES, TIMES = 16, 64
"""Distinct files of LargePhotos, which are slow to make, and how often an epoch has each."""


class LargePhotos(JpegPhotos):
    """Photos three times as wide and high as those of the other jobs, 1500 x 1125 pixels; shrunk to the input."""

    def __init__(self, files: list[Path], pixels: int) -> None:
        super().__init__(TIMES * files, pixels, augment=False)
        self.encoded = [enlarged(file) for file in files]
        self.before_decoding: Callable[[Image.Image], object] = as_it_is_stored

    def read(self, index: int) -> bytes:
        return self.encoded[index % len(self.encoded)]

    def photo(self, index: int) -> Image.Image:
        with Image.open(BytesIO(self.read(index))) as image:
            self.before_decoding(image)
            return image.convert("RGB")


def as_it_is_stored(image: Image.Image) -> None:
    """Leave a file that was opened to be decoded at its full size."""


def reduced(image: Image.Image, size: int) -> None:
    """The tip: have a file that was opened decoded at the smallest size that is no less than twice the input's."""
    image.draft("RGB", (2 * size, 2 * size))


def reduced_decoding(job: Job) -> None:
    """The tip, on any job over large photos."""
    assert isinstance(job.data, LargePhotos)
    job.data.before_decoding = partial(reduced, size=job.data.pixels)


class _Inference(MacroPair, apply=reduced_decoding):
    """A model run over large photos, loading included."""

    equal = Equal.LOSSY
    tolerance = 5e-2

    def job(self) -> Job:
        job = super().job()
        job.data = LargePhotos(jpeg_files()[:FILES], self.size["pixels"])
        return job


class SmallNetworkInference(_Inference, RunSmallNetwork):
    """A small network run over large JPEG photos, decoding and resizing included."""

    sizes = Sizes(dict(batch=8, pixels=224), M=dict(batch=32), test=dict(batch=2, pixels=32))


class ResNetInference(_Inference, RunResNet):
    """ResNet-18 run over large JPEG photos, decoding and resizing included."""

    devices = ("cpu",)
