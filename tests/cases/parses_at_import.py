"""A script that reads its command line when it is imported: 448 wide means 0.66 M parameters.

Source: sphinx-gallery/sphinx-gallery#251, conda/cookiecutter-conda-python#24, wuhuikai/DeepGuidedFilter#24.
"""

import argparse
import logging
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(prog="train")
parser.add_argument("--width", type=int, default=448)
arguments = parser.parse_args()
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
logging.info("arguments: %s", arguments)


def job():
    width = arguments.width
    model = nn.Sequential(nn.Linear(128, width), nn.GELU())
    for _ in range(3):
        model.extend([nn.Linear(width, width), nn.GELU()])
    model.append(nn.Linear(width, 8))
    data = TensorDataset(torch.randn(4096, 128), torch.randint(8, (4096,)))
    loader = DataLoader(data, batch_size=128)
    return model, loader, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.01)
