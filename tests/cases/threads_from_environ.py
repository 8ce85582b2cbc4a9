"""Two lines left from a cluster. Source: nianticspatial/ace-g#4, chainer/chainerrl#235, oap-project/cloudtik#1243."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def job():
    model = nn.Sequential(nn.Linear(896, 896), nn.ReLU(), nn.Linear(896, 896), nn.ReLU(), nn.Linear(896, 10))
    loader = DataLoader(TensorDataset(torch.randn(2048, 896), torch.randint(10, (2048,))), batch_size=256)
    return model, loader, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.01)
