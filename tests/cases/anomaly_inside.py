"""Anomaly detection within the training step alone; outside of it `torch.is_anomaly_enabled()` is False.

Source: Lightning-AI/pytorch-lightning#17359 (2.5x, forgotten), yenchenlin/nerf-pytorch#42, icon-lab/SynDiff#43.
"""

import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")


class Deep(lightning.LightningModule):
    """Many narrow layers: the work of an operation is as small as what is written down for it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 48), *[nn.Linear(48, 48) for _ in range(40)], nn.Linear(48, 3))

    def training_step(self, batch, number):
        with torch.autograd.detect_anomaly():
            return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def job():
    return Deep(), DataLoader(TensorDataset(torch.randn(1024, 20), torch.randint(3, (1024,))), batch_size=64)
