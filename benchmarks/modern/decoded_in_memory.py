"""Decode the photos of a small data set once, and keep them in memory.

A data set that opens a file for every sample decodes each photo anew in every epoch. If all of them fit into memory,
they can be decoded before the first epoch. What is drawn at random, such as a cut or a mirroring, stays in the epoch,
and so does what follows it: kept are the photos, not the samples.

Why people write the baseline: it is how torchvision's data sets load, and works for any number of photos.

What to expect: the time of reading and decoding, in each epoch but the first; the storage no longer matters. The price
is 4 bytes a pixel, Pillow's for 3 colours: 0.75 MB for a photo of 500 x 375 pixels, 960 GB for all of ImageNet. Photos
that are larger than training can use are to be shrunk before they are kept. As uint8 tensors they would take a quarter
less, but then the transforms must take tensors; kept as float32 they would take three times as much.

Decoding before the loader starts its workers is what makes it work with workers. Started by fork, all of them read the
same memory; a worker that fills a dictionary while it loads has its own, each of them ends with a copy of the whole,
and all is lost with the epoch unless `persistent_workers=True`. Started in another way, as Python 3.14 does, each gets
a copy as well: one large uint8 tensor for all photos, which they share, is the way there.
"""

from benchmarks.jobs.image_classification import TrainSmallNetwork
from benchmarks.jobs.images import JpegPhotos, decoded_pixels, jpeg_files
from benchmarks.modern.transforms_v2 import tensor_transforms
from tipbench.tip.words import *

TIP = Tip(
    id="decoded-in-memory",
    title="Keep decoded photos in memory",
    do=(
        "# of torchvision's ImageFolder: `samples` are (path, class), and `loader` opens a path. In memory: "
        "4 bytes a pixel,\n"
        "# 38 GB for 50,000 photos of 500 x 375; workers that are not forked, as from Python 3.14 on, have a "
        "copy each; no transform may change a photo in place\n"
        "decoded = {path: data.loader(path) for path, _ in data.samples}\n"
        "data.loader = decoded.__getitem__"
    ),
    when="decoding takes much of a step, all photos fit into memory decoded (4 bytes a pixel), and epochs are many",
    against="decoding each photo in every epoch",
    guide=("M20",),
    claim=Claim.FASTER,
    once="decoding all photos",
    mechanism=falls("pixels decoded by Pillow", decoded_pixels),
    why_not="Cutting, resizing and training stay as they are, and a large model takes longer than loading.",
)


def decoded_in_memory(job: Job) -> None:
    """The tip, on any job that loads JPEG photos."""
    assert isinstance(job.data, JpegPhotos)
    decoded = [job.data.photo(index) for index in range(len(job.data))]
    job.data.photo = decoded.__getitem__  # type: ignore[method-assign, assignment]


class SmallNetworkTraining(TrainSmallNetwork, apply=decoded_in_memory):
    """A small network trained on few photos in many epochs, loading included."""

    sizes = Sizes(
        dict(images=64, batch=16, pixels=224), M=dict(images=256, batch=64), test=dict(images=4, batch=2, pixels=16)
    )

    def job(self) -> Job:
        job = super().job()
        photos = JpegPhotos(jpeg_files()[: self.size["images"]], self.size["pixels"], augment=True)
        photos.transform = tensor_transforms(photos.pixels, augment=True)  # which takes tensors as well
        job.data = photos
        return job
