"""The training that tips are shown in, before any is followed. It runs as it is: `python training.py`."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cpu")
epochs = 2
data = TensorDataset(torch.randn(128, 3, 16, 16), torch.randint(10, (128,)))
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 10)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
arguments = dict(batch_size=32, shuffle=True)
loader = DataLoader(data, **arguments)
for epoch in range(epochs):
    for batch, targets in loader:
        batch, targets = batch.to(device), targets.to(device)
        optimizer.zero_grad()
        outputs = model(batch)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
