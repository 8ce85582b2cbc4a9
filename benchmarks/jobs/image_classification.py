"""Say which photo a crop was cut from: an image classifier, trained or run over real JPEG files."""

import torch
from torch import nn

from benchmarks.jobs.images import IMAGES, PHOTOS, JpegPhotos, jpeg_files
from tipbench.tip.job import Job


def image_classification(
    device: torch.device, model: str, batch: int, pixels: int, train: bool, images: int = IMAGES
) -> Job:
    """Train `model` with SGD, or run it forward only.

    model: a name in torchvision.models, such as "resnet18", or "small" or "small_vit" for the networks below.
    pixels: height and width of the input. images: JPEG files in an epoch.
    """
    # Imported here: it takes a second, which pairs without images should not pay at their start.
    from torchvision import models

    classes = len(PHOTOS)
    # As ResNets are trained since Goyal et al., 2017 (arXiv:1706.02677). Without it the first steps on small
    # batches are chaotic: one ReLU on the other side of zero, and all gradients are different ones.
    options = {"zero_init_residual": True} if train and model.startswith("resnet") else {}
    network: nn.Module
    if model == "small":
        network = small_network(classes)
    elif model == "small_vit":
        network = small_vit(classes, pixels)
    else:
        network = models.get_model(model, num_classes=classes, **options)
    network = network.to(device).train(train)
    data = JpegPhotos(jpeg_files()[:images], pixels, augment=train)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9) if train else None
    return Job(network, data, device, optimizer=optimizer, batch_size=batch)


def image_inference(device: torch.device, model: str, batch: int, pixels: int) -> Job:
    """Run `model` forward only, as `image_classification` does; no parameter asks for a gradient."""
    job = image_classification(device, model, batch, pixels, train=False)
    job.model.requires_grad_(False)
    return job


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


def small_vit(classes: int, pixels: int) -> nn.Module:
    """torchvision's VisionTransformer, of four layers, on patches of 8 x 8 pixels, with dropout."""
    from torchvision.models import VisionTransformer

    vit: nn.Module = VisionTransformer(
        image_size=pixels,
        patch_size=8,
        num_layers=4,
        num_heads=4,
        hidden_dim=128,
        mlp_dim=512,
        dropout=0.1,
        num_classes=classes,
    )
    return vit
