"""Find circles and squares in pictures, with a network of torchvision."""

import random

import torch
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import lraspp_mobilenet_v3_large
from torchvision.transforms import functional as TF

PIXELS = 160


class Shapes(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        chance = random.Random(index)
        image = Image.new("RGB", (PIXELS, PIXELS), tuple(chance.randrange(256) for _ in range(3)))
        mask = Image.new("L", image.size)
        for _ in range(6):
            x, y, size = chance.randrange(PIXELS), chance.randrange(PIXELS), chance.randrange(10, 40)
            box, kind = (x, y, x + size, y + size), chance.randrange(2)
            colour = tuple(chance.randrange(256) for _ in range(3))
            for canvas, fill in ((image, colour), (mask, 1 + kind)):
                draw = ImageDraw.Draw(canvas)
                (draw.ellipse if kind else draw.rectangle)(box, fill=fill)
        return TF.to_tensor(image), TF.pil_to_tensor(mask)[0].long()


def criterion(outputs, targets):
    return torch.nn.functional.cross_entropy(outputs["out"], targets)


def job():
    model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)
    loader = DataLoader(Shapes(), batch_size=4, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return model, loader, criterion, optimizer
