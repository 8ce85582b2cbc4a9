"""Gradients of several batches, in several processes: `torchrun --nproc-per-node=2 accumulation.py`."""

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
    for number, (batch, targets) in enumerate(loader, 1):
        outputs = model(batch.to(device))
        loss = criterion(outputs, targets.to(device))
        (loss / 4).backward()
        if number % 4 == 0 or number == len(loader):
            optimizer.step()
            optimizer.zero_grad()
torch.distributed.destroy_process_group()
