"""Thousands of distinct JPEG files, cut from photos that come with installed packages.

They are made once, into the user's cache folder (on Linux `~/.cache/tipbench`), from a fixed seed. Nothing is
downloaded.
"""

import functools
import importlib.util
import multiprocessing
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image, ImageChops, ImageEnhance, ImageFile
from platformdirs import user_cache_path
from torch.utils.data import Dataset

PHOTOS = {
    "china": "sklearn/datasets/images/china.jpg",
    "flower": "sklearn/datasets/images/flower.jpg",
    "astronaut": "skimage/data/astronaut.png",
    "cat": "skimage/data/chelsea.png",
    "coffee": "skimage/data/coffee.png",
    "galaxies": "skimage/data/hubble_deep_field.jpg",
    "retina": "skimage/data/retina.jpg",
    "rocket": "skimage/data/rocket.jpg",
    "motorcycle": "skimage/data/motorcycle_left.png",
    "hopper": "matplotlib/mpl-data/sample_data/grace_hopper.jpg",
}
"""Class name and file within an installed package. The class of a crop is the photo it was cut from."""

VERSION = 2
"""Part of the folder's name; raise it with every change to what is written there."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue in ImageNet, which torchvision's models expect to be taken out."""

IMAGES = 2048
WIDTH, HEIGHT = 500, 375
"""The most common size in ImageNet."""

GRAIN = 8
"""Standard deviation of the noise in each pixel, of 255 steps. A cut that was enlarged has none of its own, and would
take half the bytes and half the work of a photo as it comes from a camera."""

READ_S, SLOW_READ_S = 0.01, 0.05
"""How long network storage takes for a file, and for one in SLOW_ONE_IN. Amazon's documentation gives low single-digit
milliseconds for its network file system, and 100 to 200 for a small object of S3."""

SLOW_ONE_IN = 16


def photo(place: str) -> Image.Image:
    """Open one of PHOTOS without importing its package (scikit-learn alone takes a second)."""
    package, _, file = place.partition("/")
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise FileNotFoundError(f"the photos of the package {package} are needed: pip install it")
    return Image.open(Path(found.origin).parent / file).convert("RGB")


def jpeg_files(count: int = IMAGES) -> list[Path]:
    """The JPEG files, made where they are not there yet. The classes take turns: file i is of class i % 10.

    `count` other than IMAGES makes a folder of its own. Takes about 20 s the first time, and 200 MB.
    """
    folder = user_cache_path("tipbench") / f"images-{VERSION}-{count}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Written elsewhere and renamed: whoever sees the folder sees all of it. Of two processes that
        # come at once the later one finds its files made, and throws its own away.
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=folder.parent))
        try:
            _write_crops(unfinished, count)
            unfinished.chmod(0o755)
            try:
                unfinished.rename(folder)
            except OSError:
                if not folder.exists():
                    raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return sorted(folder.iterdir())


def _write_crops(folder: Path, count: int) -> None:
    """Cuts of random place and size, mirrored or not, brighter or darker, with grain, as people's photos are."""
    chance = random.Random(VERSION)
    photos = {name: photo(place) for name, place in PHOTOS.items()}
    noise = np.random.default_rng(VERSION).normal(128, GRAIN, (2 * HEIGHT, 2 * WIDTH, 1)).clip(0, 255)
    grain = Image.fromarray(noise.astype(np.uint8).repeat(3, axis=2))
    for number in range(count):
        name = list(photos)[number % len(photos)]
        source = photos[name]
        scale = min(source.width / WIDTH, source.height / HEIGHT) * chance.uniform(0.5, 1)
        width, height = scale * WIDTH, scale * HEIGHT
        left, top = chance.uniform(0, source.width - width), chance.uniform(0, source.height - height)
        box = left, top, left + width, top + height
        crop = source.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR, box=box)
        if chance.random() < 0.5:
            crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        crop = ImageEnhance.Brightness(crop).enhance(chance.uniform(0.7, 1.3))
        x, y = chance.randrange(WIDTH), chance.randrange(HEIGHT)
        crop = ImageChops.add(crop, grain.crop((x, y, x + WIDTH, y + HEIGHT)), offset=-128)
        crop.save(folder / f"{number:05d}-{name}.jpg", quality=chance.randint(90, 96))


class JpegPhotos(Dataset[tuple[torch.Tensor, int]]):
    """(normalised tensor of 3 x `pixels` x `pixels`, class) of each file, decoded when it is read.

    augment: cut out and mirror at random, as training does; otherwise shrink to the size wanted.
    Randomness comes from torch's seed at the making of the dataset and from the image's number alone:
    it is the same whichever process decodes the image, and in whatever order.
    """

    def __init__(self, files: list[Path], pixels: int, augment: bool) -> None:
        # Imported here: it takes a second, which pairs without images should not pay at their start.
        from torchvision import transforms

        random_crop = [transforms.RandomResizedCrop(pixels), transforms.RandomHorizontalFlip()]
        to_tensor = [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
        shrink = [transforms.Resize((pixels, pixels))]
        self.pixels, self.augment = pixels, augment
        self.transform: Callable[[Image.Image], torch.Tensor]
        self.transform = transforms.Compose((random_crop if augment else shrink) + to_tensor)
        self.files = files
        self.classes = {name: number for number, name in enumerate(PHOTOS)}
        self.seed = int(torch.randint(2**31, ()))

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> bytes:
        """The bytes of a JPEG file."""
        return self.files[index].read_bytes()

    def photo(self, index: int) -> Image.Image:
        """What a JPEG file shows."""
        with Image.open(BytesIO(self.read(index))) as image:
            return image.convert("RGB")

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with torch.random.fork_rng(devices=()):
            # The CPU's generator alone: `torch.manual_seed` would seed those of all GPUs too, which models draw from.
            torch.default_generator.manual_seed(self.seed + index)
            return self.transform(self.photo(index)), self.classes[self.files[index].stem.partition("-")[2]]


class RemotePhotos(JpegPhotos):
    """The same from network storage, which serves many readers at once, each after READ_S or SLOW_READ_S seconds.

    The wait is made up, and takes no core; the files are local. Of each SLOW_ONE_IN files in a row one is slow.
    """

    def read(self, index: int) -> bytes:
        group, place = divmod(index, SLOW_ONE_IN)
        slow = place == random.Random(group).randrange(SLOW_ONE_IN)
        time.sleep(SLOW_READ_S if slow else READ_S)
        return super().read(index)


class UnevenPhotos(JpegPhotos):
    """Photos of which one in four is three times as wide and high, as a phone's: batches take unlike times.

    Of each GROUP in a row a quarter is large, at places drawn by chance. Large ones are slow to make: there are few
    `files`, each many times in an epoch.
    """

    GROUP = 32

    def __init__(self, files: list[Path], pixels: int) -> None:
        super().__init__(256 * files, pixels, augment=True)
        chance = random.Random(0)
        starts = range(0, len(files), self.GROUP)
        large = {start + place for start in starts for place in chance.sample(range(self.GROUP), self.GROUP // 4)}
        self.encoded = [enlarged(file) if n in large else file.read_bytes() for n, file in enumerate(files)]

    def read(self, index: int) -> bytes:
        return self.encoded[index % len(self.encoded)]


@functools.cache
def enlarged(file: Path) -> bytes:
    """A JPEG file's picture, three times as wide and high, as a JPEG file."""
    encoded = BytesIO()
    with Image.open(file) as image:
        image.resize((3 * image.width, 3 * image.height)).save(encoded, format="JPEG", quality=90)
    return encoded.getvalue()


def decoded_pixels(step: Callable[[], object]) -> int:
    """Pixels of files that Pillow decodes in a step, in this process and in workers that it starts."""
    pixels = multiprocessing.Value("q")
    load = ImageFile.ImageFile.load

    def watched(image: ImageFile.ImageFile) -> Any:
        with pixels:
            pixels.value += image.width * image.height if image.tile else 0  # none where nothing is left to decode
        return load(image)

    with patch.object(ImageFile.ImageFile, "load", watched):
        step()
    return int(pixels.value)
