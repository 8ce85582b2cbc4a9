"""The jobs run on real data, and training on it learns."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from benchmarks.jobs import images
from benchmarks.jobs.image_classification import image_classification
from benchmarks.jobs.language_model import SourceText, language_model, text_encoder
from tipbench.tip.job import Job

CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny sizes need no second thread, and on a busy machine threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tipbench"


@pytest.fixture
def few_images(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image jobs on sixty files of their own."""
    make = images.jpeg_files
    monkeypatch.setattr("benchmarks.jobs.image_classification.jpeg_files", lambda: make(60))


def losses(job: Job, steps: int) -> list[float]:
    return [job.step()[0].item() for _ in range(steps)]


def test_the_files_are_distinct_photos_of_all_classes(cache: Path) -> None:
    files = images.jpeg_files(60)
    assert len(files) == 60
    assert len({file.read_bytes() for file in files}) == 60
    for file in files:
        with Image.open(file) as image:
            image.load()
            assert (image.format, image.size, image.mode) == ("JPEG", (images.WIDTH, images.HEIGHT), "RGB")
            assert np.asarray(image).std() > 5, "a photo is not of one colour"
    assert [file.stem[6:] for file in files[:10]] == list(images.PHOTOS)
    assert {file.stem[6:] for file in files} == set(images.PHOTOS)


def test_the_files_are_made_once_and_alike(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = images.jpeg_files(20)
    made = [(file, file.stat().st_mtime_ns) for file in first]
    assert [(file, file.stat().st_mtime_ns) for file in images.jpeg_files(20)] == made
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    second = images.jpeg_files(20)
    assert second[0].parent != first[0].parent
    assert [file.read_bytes() for file in second] == [file.read_bytes() for file in first]


def test_two_processes_at_once_do_not_collide(cache: Path) -> None:
    code = "from benchmarks.jobs.images import jpeg_files; print(len(jpeg_files(200)))"
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent)
        for _ in range(2)
    ]
    assert [process.communicate()[0].split() for process in both] == [[b"200"], [b"200"]]
    assert [folder.name for folder in cache.iterdir()] == [f"images-{images.VERSION}-200"]


def test_a_killed_making_leaves_no_folder_that_looks_whole(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path, count: int) -> None:
        (folder / "00000-china.jpg").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(images, "_write_crops", fail)
        with pytest.raises(KeyboardInterrupt):
            images.jpeg_files(20)
    assert list(cache.iterdir()) == []
    assert len(images.jpeg_files(20)) == 20


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="no_such_package"):
        images.photo("no_such_package/photo.jpg")


def augmented(files: list[Path], seed: int = 1) -> images.JpegPhotos:
    torch.manual_seed(seed)
    return images.JpegPhotos(files, pixels=32, augment=True)


def test_augmentation_depends_on_the_seed_and_the_image_alone(cache: Path) -> None:
    files = images.jpeg_files(20)
    photos = augmented(files)
    before = torch.get_rng_state()
    first, label = photos[3]
    photos[4]
    assert (label, first.shape) == (3, (3, 32, 32))
    assert torch.equal(first, photos[3][0])
    assert torch.equal(torch.get_rng_state(), before), "decoding draws nothing from torch's generator"
    assert torch.equal(first, augmented(files)[3][0])
    assert not torch.equal(first, augmented(files, seed=2)[3][0])


@pytest.mark.slow
@pytest.mark.usefixtures("few_images")
@pytest.mark.parametrize(("model", "steps"), [("small", 100), ("resnet18", 30)])
def test_image_classification_learns(model: str, steps: int) -> None:
    torch.manual_seed(0)
    trained = losses(image_classification(CPU, model=model, batch=10, pixels=32, train=True), steps)
    assert sum(trained[-5:]) < 0.9 * sum(trained[:5])


@pytest.mark.usefixtures("few_images")
def test_image_inference_neither_trains_nor_augments() -> None:
    torch.manual_seed(0)
    job = image_classification(CPU, model="resnet18", batch=2, pixels=32, images=2, train=False)
    assert not job.model.training
    assert job.optimizer is None
    assert job.step().shape == (2, len(images.PHOTOS))
    assert torch.equal(job.step(), job.step())


@pytest.mark.usefixtures("few_images")
def test_an_epoch_is_every_image_once() -> None:
    job = image_classification(CPU, model="small", batch=4, pixels=16, images=10, train=True)
    seen = []
    job.convert_inputs(lambda batch: seen.append(len(batch)) or batch)  # type: ignore[func-returns-value]
    loss, model = job.epoch()
    assert seen == [4, 4, 2]
    assert loss.isfinite()
    assert model is job.model


def test_the_text_is_the_standard_library() -> None:
    text = SourceText(context=64)
    inputs, targets = text[0]
    assert inputs.shape == targets.shape == (64,)
    assert torch.equal(inputs[1:], targets[:-1])
    assert len(text) * 64 > 1_000_000
    everything = b"".join(bytes(text[index][0].tolist()) for index in range(2000))
    assert b"import " in everything
    assert b"def " in everything
    inputs, targets = text[len(text) - 1]
    assert inputs.shape == targets.shape == (64,)


def test_language_model_learns() -> None:
    torch.manual_seed(0)
    trained = losses(language_model(CPU, layers=1, width=32, context=32, batch=8, activation=nn.GELU), 30)
    assert sum(trained[-5:]) < 0.9 * sum(trained[:5])


def test_the_language_model_sees_no_later_byte() -> None:
    model = language_model(CPU, layers=2, width=16, context=8, batch=1, activation=nn.GELU).model
    tokens = torch.arange(8)[None]
    changed = tokens.clone()
    changed[0, 5] = 99
    difference = (model(tokens) - model(changed)).abs().sum(dim=(0, 1))
    assert torch.count_nonzero(difference[:5]) == 0
    assert (difference[5:] > 0).all()


def test_the_text_encoder_is_in_eval_mode() -> None:
    job = text_encoder(CPU, layers=1, width=16, context=8, batch=2)
    assert not job.model.training
    assert job.step().shape == (2, 8, 16)
