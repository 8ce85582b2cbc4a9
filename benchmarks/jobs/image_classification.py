"""Say which photo a crop was cut from: an image classifier, trained or run over real JPEG files."""

import torch
from torch import nn

from benchmarks.jobs.images import IMAGES, PHOTOS, JpegPhotos, jpeg_files
from harness.job import Job


def image_classification(
    device: torch.device, model: str, batch: int, pixels: int, train: bool, images: int = IMAGES
) -> Job:
    """Train `model` with SGD, or run it forward only.

    model: a name in torchvision.models, such as "resnet18", or "small" for the network below.
    pixels: height and width of the input. images: JPEG files in an epoch.
    """
    # Imported here: it takes a second, which pairs without images should not pay at their start.
    from torchvision import models

    classes = len(PHOTOS)
    # As ResNets are trained since Goyal et al., 2017 (arXiv:1706.02677). Without it the first steps on small
    # batches are chaotic: one ReLU on the other side of zero, and all gradients are different ones.
    options = {"zero_init_residual": True} if train and model.startswith("resnet") else {}
    network = small_network(classes) if model == "small" else models.get_model(model, num_classes=classes, **options)
    network = network.to(device).train(train)
    data = JpegPhotos(jpeg_files()[:images], pixels, augment=train)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9) if train else None
    return Job(network, data, device, optimizer=optimizer, batch_size=batch)


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
