"""Handwritten digits, and a function that scores a model of them."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pixels, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels)


def job(width=1024):
    model = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    )
    model.append(nn.Linear(width, 10))
    loader = DataLoader(TensorDataset(images[:1500], labels[:1500]), batch_size=256, shuffle=True)
    return model, loader, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@torch.no_grad()
def accuracy(model):
    return (model(images[1500:]).argmax(dim=1) == labels[1500:]).float().mean()


def nothing(model):
    pass


def accurate(model):
    return model.accuracy


def not_finite(model):
    return float("nan")
