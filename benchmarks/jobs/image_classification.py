"""Say which photo a crop was cut from: an image classifier, trained or run over real JPEG files."""

from typing import Any, ClassVar

import torch
from torch import nn

from benchmarks.jobs.batches import in_batches
from benchmarks.jobs.images import IMAGES, PHOTOS, JpegPhotos, RemotePhotos, jpeg_files
from benchmarks.jobs.loading import Stretch
from tipbench.tip.words import *


def image_classification(
    device: torch.device, model: str | nn.Module, batch: int, pixels: int, train: bool, images: int = IMAGES
) -> Job:
    """Train `model` with SGD, or run it forward only.

    model: a network, a name in torchvision.models, such as "resnet18", or "small" for the one below.
    pixels: height and width of the input. images: JPEG files in an epoch. On a GPU all but the small network, whose
    pairs are about loading, are given batches that are on the card.
    """
    # Imported here: it takes a second, which pairs without images should not pay at their start.
    from torchvision import models

    classes = len(PHOTOS)
    network: nn.Module
    if isinstance(model, nn.Module):
        network = model
    elif model == "small":
        network = small_network(classes)
    else:
        # As ResNets are trained since Goyal et al., 2017 (arXiv:1706.02677). Without it the first steps on small
        # batches are chaotic: one ReLU on the other side of zero, and all gradients are different ones.
        options = {"zero_init_residual": True} if train and model.startswith("resnet") else {}
        network = models.get_model(model, num_classes=classes, **options)
    network = network.to(device).train(train)
    photos = JpegPhotos(jpeg_files()[:images], pixels, augment=train)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9) if train else None
    if model == "small":
        return Job(network, photos, device, optimizer=optimizer, batch_size=batch)
    return Job(network, device=device, optimizer=optimizer, **in_batches(photos, batch, device))


def image_inference(device: torch.device, model: str, batch: int, pixels: int) -> Job:
    """Run `model` forward only, as `image_classification` does; no parameter asks for a gradient."""
    job = image_classification(device, model, batch, pixels, train=False)
    job.model.requires_grad_(False)
    return job


class TrainResNet(MacroPair):
    """ResNet-18 trained on `batch` JPEG files at once, cut to `pixels` x `pixels`; on a CPU loading is included."""

    task = "training"
    needs: ClassVar[Any] = (torchvision(),)
    # Adding up in another order puts a few ReLUs on the other side of zero, and then whole gradients
    # differ, on both sides alike: so both are compared with fp64, by the error over all outputs together.
    equal = Equal.REFERENCE
    tolerance = 1e-2
    sizes = Sizes(
        dict(batch=4, pixels=160), M=dict(batch=16, pixels=224), L=dict(batch=64), test=dict(batch=8, pixels=64)
    )

    def job(self) -> Job:
        return image_classification(self.device, model="resnet18", train=True, **self.size)


class RunResNet(MacroPair):
    """ResNet-18 run over JPEG files, `batch` at once; on a CPU loading is included."""

    task = "inference"
    needs: ClassVar[Any] = (torchvision(),)
    sizes = Sizes(dict(batch=4, pixels=224), M=dict(batch=16), L=dict(batch=64), test=dict(batch=1, pixels=32))

    def job(self) -> Job:
        return image_inference(self.device, model="resnet18", **self.size)

    def step_of(self, job: Job) -> Step:
        return torch.no_grad()(job.step)


class RunSmallNetwork(MacroPair):
    """`small_network` run over JPEG files, loading included."""

    task = "inference"
    loads = True
    needs: ClassVar[Any] = (torchvision(),)
    sizes = Sizes(dict(batch=16, pixels=224), M=dict(batch=64), test=dict(batch=2, pixels=32))

    def job(self) -> Job:
        return image_inference(self.device, model="small", batch=self.size["batch"], pixels=self.size["pixels"])


class TrainSmallNetwork(MacroPair):
    """`small_network` trained on JPEG files, loading included."""

    task = "training"
    loads = True
    needs: ClassVar[Any] = (torchvision(),)
    # The gradients of convolutions are added up on a GPU in no fixed order.
    tolerance = 1e-3
    sizes = Sizes(dict(batch=16, pixels=224), M=dict(batch=64), test=dict(batch=2, pixels=16))

    def job(self) -> Job:
        batch, pixels = self.size["batch"], self.size["pixels"]
        return image_classification(self.device, model="small", batch=batch, pixels=pixels, train=True)


class TrainFromFiles(TrainSmallNetwork):
    """`batches` batches in a row of training `small_network` on local JPEG files, in an epoch of hundreds."""

    sizes = Sizes(
        dict(batches=8, batch=8, pixels=112),
        M=dict(batches=16, batch=16),
        L=dict(batches=8, batch=32, pixels=224),
        test=dict(batches=8 * available_cores(), batch=2, pixels=16),  # work for all of four workers a core
    )
    tolerance = 1e-2

    def photos(self) -> JpegPhotos:
        """Each file several times, cut out anew: with large batches too an epoch is long."""
        return JpegPhotos(8 * jpeg_files(), self.size["pixels"], augment=True)

    def job(self) -> Job:
        job = super().job()
        job.data = self.photos()
        assert job.optimizer is not None
        # A step trains on many batches: at the usual rate a GPU's other rounding had grown to 7 % after five steps.
        job.optimizer.param_groups[0]["lr"] = 1e-3
        return job

    def step_of(self, job: Job) -> Step:
        stretch = Stretch(job.step, self.size["batches"])
        return lambda: stretch()[-1]


class TrainFromStorage(TrainFromFiles):
    """The same from network storage that keeps its readers waiting: see RemotePhotos."""

    sizes = TrainFromFiles.sizes.but(dict(batch=4), M=dict(batch=4), L=dict(batch=8), test=dict(batch=1))

    def photos(self) -> JpegPhotos:
        return RemotePhotos(8 * jpeg_files(), self.size["pixels"], augment=True)


def small_network(classes: int) -> nn.Sequential:
    """Three convolutions and a linear layer: training it costs about as much as decoding its input."""
    return nn.Sequential(
        nn.Conv2d(3, 16, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )
