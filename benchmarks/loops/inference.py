"""The inference that tips are shown in, before any is followed. It runs as it is: `python inference.py`."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cpu")
data = TensorDataset(torch.randn(128, 3, 16, 16), torch.randint(10, (128,)))
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 10)).to(device).eval()
arguments = dict(batch_size=32)
loader = DataLoader(data, **arguments)
for batch, targets in loader:
    batch, targets = batch.to(device), targets.to(device)
    outputs = model(batch)
