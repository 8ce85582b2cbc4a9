"""05: the data set asks the model that is being trained.

What it is: for each anchor the data set picks the hardest of some negatives with the current weights of the encoder.
SILENT CHANGE: a worker has the weights of the moment at which it was started. With persistent workers negatives are
mined with the UNTRAINED encoder for the whole training. The rate is small, so that for the first dozens of steps the same
negatives come out hardest, and a comparison of a few steps sees nothing.

A right tool: must NOT recommend workers. It can know without numbers: the data set refers to a module, or to parameters,
of the job's own model. The row should say so.
Wrong: "use it" for async-loading.
Source: Lightning-AI/pytorch-lightning#19537 (a model used inside of workers), kingsaint/BioMedical-EL#5 (negatives mined
with the initial model only).
"""

import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

WIDTH = 96


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 32)
        )

    def forward(self, points):
        return F.normalize(self.layers(points), dim=-1)


class Triplets(Dataset):
    def __init__(self, encoder, count=1024, tried=12):
        self.encoder, self.tried = encoder, tried
        generator = torch.Generator().manual_seed(5)
        centres = torch.randn(16, WIDTH, generator=generator)
        self.kinds = torch.arange(count) % 16
        self.points = centres[self.kinds] + 0.7 * torch.randn(count, WIDTH, generator=generator)

    def __len__(self):
        return len(self.points)

    @torch.no_grad()
    def __getitem__(self, number):
        time.sleep(0.001)
        anchor = self.points[number]
        positive = self.points[(number + 16) % len(self)]
        others = self.points[[(number + 1 + 17 * k) % len(self) for k in range(self.tried)]]
        seen = torch.cat([anchor[None], others]).to(self.encoder.layers[0].weight.dtype)
        first, *rest = self.encoder(seen)
        hardest = torch.stack(rest).mv(first).argmax()
        return anchor, positive, others[hardest]


class Metric(nn.Module):
    """Returns its loss."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, anchor, positive, negative):
        one, same, other = self.encoder(anchor), self.encoder(positive), self.encoder(negative)
        return F.relu((one * other).sum(-1) - (one * same).sum(-1) + 0.3).mean()


def job():
    model = Metric()
    loader = DataLoader(Triplets(model.encoder), batch_size=16, shuffle=True)
    return model, loader, None, torch.optim.SGD(model.parameters(), lr=1e-4)
