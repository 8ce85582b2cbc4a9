"""Decode JPEG photos to tensors: torchvision's `decode_jpeg`.

Pillow decodes into an image of its own, of 4 bytes a pixel, which is copied into an array to become a tensor.
`torchvision.io.decode_jpeg` decodes into a uint8 tensor, which transforms v2 take; on a GPU nvJPEG decodes a list.

Why people write the baseline: torchvision's data sets open files with Pillow, which reads all formats.

What to expect: a gain where decoding takes most of a step. Both do it by libjpeg-turbo, and copies are saved. Decoders
rank in another order inside a DataLoader than in one thread (arXiv 2605.08731), so both are tried. Pixels may differ by
a step or two of 255 where the packages bring other versions of the library. A damaged file, which Pillow may open,
raises an error. Where a GPU decodes, cores only read; nvJPEG enlarges colours in another way, so it differs by more.
"""

from io import BytesIO
from typing import Any

import torch
from PIL import Image

from benchmarks.jobs.image_classification import TrainFromFiles, TrainSmallNetwork
from benchmarks.jobs.images import JpegPhotos, decoded_pixels, jpeg_files
from benchmarks.modern.transforms_v2 import ONE_STEP, transforms_v2
from tipbench.tip.words import *

TIP = Tip(
    id="decode-jpeg",
    title="Decode JPEG photos to tensors (decode_jpeg)",
    do=(
        "from torchvision.io import decode_jpeg, read_file  # deprecated: torchcodec.decoders has decode_jpeg as well\n"
        'def decoded(path): return decode_jpeg(read_file(path), mode="RGB")\n'
        "data.loader = decoded  # of an ImageFolder of JPEG files alone, with transforms v2, which take tensors"
    ),
    ways={
        "on_the_card": (
            "from torchvision.io import decode_jpeg, read_file\n"
            "# of an ImageFolder of JPEG files alone, with transforms v2; workers read, the card does all else\n"
            "def read(path): return read_file(path).clone()  # workers cannot hand over a tensor mapped to a file\n"
            "transform, data.loader, data.transform = data.transform, read, None\n"
            "def encoded(samples): return [file for file, _ in samples], torch.tensor([kind for _, kind in samples])\n"
            "loader = DataLoader(data, **arguments | dict(collate_fn=encoded))\n"
            'photos = decode_jpeg(batch, mode="RGB", device=device)\n'
            "batch, targets = torch.stack([transform(photo) for photo in photos]), targets.to(device)"
        )
    },
    when="all photos are JPEG files, and transforms v2 take them",
    against="decoding by Pillow, transforms v2 behind it",
    guide=("M28",),
    claim=Claim.FASTER,
    mechanism=falls("pixels decoded by Pillow", decoded_pixels),
    published="seventh of 13 decoders alone, among the first in a DataLoader, on a Zen 4 (arXiv 2605.08731)",
    status="deprecated: torchvision 0.29 points to TorchCodec, which has a function of this name",
)


def decode(jpegs: list[bytes], device: torch.device | str = "cpu") -> Any:
    from torchvision.io import decode_jpeg

    return decode_jpeg([torch.frombuffer(bytearray(jpeg), dtype=torch.uint8) for jpeg in jpegs], "RGB", device)


def decode_to_tensors(job: Job) -> None:
    """The tip, on any job that loads JPEG photos and transforms tensors."""
    data = job.data
    assert isinstance(data, JpegPhotos)
    data.photo = lambda index: decode([data.read(index)])[0]  # type: ignore[method-assign]


class Decoding(Pair):
    """Photos decoded to uint8 tensors, from files that are in memory."""

    devices = ("cpu",)
    needs = (torchvision(),)
    tolerance = 1e-2
    seeded = False
    sizes = Sizes(dict(images=8), L=dict(images=64), test=dict(images=2))

    def jpegs(self) -> list[bytes]:
        return [file.read_bytes() for file in jpeg_files()[: self.size["images"]]]

    def baseline(self) -> Step:
        from torchvision.transforms.v2.functional import pil_to_tensor

        jpegs = self.jpegs()
        return lambda: [pil_to_tensor(Image.open(BytesIO(jpeg)).convert("RGB")).to(self.device) for jpeg in jpegs]

    def optimized(self) -> Step:
        jpegs = self.jpegs()
        return lambda: [photo.to(self.device) for photo in decode(jpegs)]


class DecodingForACard(Decoding):
    """The same for a GPU: decoded by the CPU and copied, or decoded there. Never run so far."""

    devices = ("cuda",)
    needs = (torchvision(), gpu(1))  # type: ignore[assignment]
    equal = Equal.LOSSY
    tolerance = 0.05

    @variant
    def on_the_card(self) -> Step:
        jpegs = self.jpegs()
        return lambda: decode(jpegs, self.device)

    def reference(self) -> Step:
        step = self.baseline()
        return lambda: [photo.double() for photo in step()]


class _OnTensors(MacroPair, apply=decode_to_tensors):  # by transforms v2, on both sides
    tolerance = ONE_STEP

    def job(self) -> Job:
        job = super().job()
        transforms_v2(job)
        return job


class SmallNetworkTraining(_OnTensors, TrainSmallNetwork):
    """A small network trained on JPEG files, which the training process decodes itself."""


class TrainingInWorkers(_OnTensors, TrainFromFiles):
    """A small network trained on JPEG files, which two workers decode."""

    needs = (torchvision(), cores(2))

    def job(self) -> Job:
        job = super().job()
        job.loading.update(num_workers=2, persistent_workers=True)
        return job
