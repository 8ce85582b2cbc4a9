"""Beside it lies a `profile.py`, which what torch.compile imports finds in place of the standard one.

Source: usnistgov/alignn#158 and #159, pfnet/pytorch-pfn-extras#109.
"""

import profile

import torch
from torch import nn


def job():
    torch.manual_seed(profile.region())
    model = nn.Sequential(nn.Linear(384, 768), nn.GELU(), nn.Linear(768, 1))
    return model.eval(), torch.randn(128, 384)
