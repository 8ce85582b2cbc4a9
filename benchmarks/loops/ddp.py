"""The training in several processes that tips are shown in: `torchrun --nproc-per-node=2 ddp.py`."""

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.distributed.init_process_group("gloo")
device = torch.device("cpu")
data = TensorDataset(torch.randn(128, 3, 16, 16), torch.randint(10, (128,)))
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 10)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)
model = nn.parallel.DistributedDataParallel(model)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch, targets in loader:
        batch, targets = batch.to(device), targets.to(device)
        optimizer.zero_grad()
        outputs = model(batch)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
torch.distributed.destroy_process_group()
