"""A stream that every worker would read from its first line to its last: with two, each line is trained on twice.

Source: huggingface/datasets#3423, pytorch/pytorch#30599, vahidk/tfrecord#78.
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Meter(IterableDataset):
    def __iter__(self):
        for _ in range(512):
            time.sleep(0.0008)
            reading = torch.randn(48)
            yield reading, reading[:6].sum(dim=0, keepdim=True)


def job():
    model = nn.Linear(48, 1)
    return model, DataLoader(Meter(), batch_size=32), nn.MSELoss(), torch.optim.Adam(model.parameters())
