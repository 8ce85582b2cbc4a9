"""Thousands of distinct JPEG files, cut from photos that come with installed packages.

They are made once, into the user's cache folder (on Linux `~/.cache/tipbench`), from a fixed seed. Nothing is
downloaded.
"""

import importlib.util
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image, ImageEnhance
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

VERSION = 1
"""Part of the folder's name; raise it with every change to what is written there."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue in ImageNet, which torchvision's models expect to be taken out."""

IMAGES = 2048
PIXELS = 256


def photo(place: str) -> Image.Image:
    """Open one of PHOTOS without importing its package (scikit-learn alone takes a second)."""
    package, _, file = place.partition("/")
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise FileNotFoundError(f"the photos of the package {package} are needed: pip install it")
    return Image.open(Path(found.origin).parent / file).convert("RGB")


def jpeg_files(count: int = IMAGES) -> list[Path]:
    """The JPEG files, made where they are not there yet. The classes take turns: file i is of class i % 10.

    `count` other than IMAGES makes a folder of its own. Takes about 10 s the first time.
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
    """Square cuts of random place and size, mirrored or not, brighter or darker, as people's photos are."""
    chance = random.Random(VERSION)
    photos = {name: photo(place) for name, place in PHOTOS.items()}
    for number in range(count):
        name = list(photos)[number % len(photos)]
        source = photos[name]
        side = chance.randint(min(source.size) // 3, min(source.size))
        left, top = chance.randint(0, source.width - side), chance.randint(0, source.height - side)
        crop = source.resize((PIXELS, PIXELS), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
        if chance.random() < 0.5:
            crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        crop = ImageEnhance.Brightness(crop).enhance(chance.uniform(0.7, 1.3))
        crop.save(folder / f"{number:05d}-{name}.jpg", quality=chance.randint(80, 95))


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

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index]
        with torch.random.fork_rng(devices=()), Image.open(file) as image:
            # The CPU's generator alone: `torch.manual_seed` would seed those of all GPUs too, which models draw from.
            torch.default_generator.manual_seed(self.seed + index)
            return self.transform(image.convert("RGB")), self.classes[file.stem.partition("-")[2]]
