"""Batches as a job takes them: from a DataLoader, or on a GPU from the card."""

from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

ON_CARD = 2
"""Batches, whose memory both sides take alike: one of 256 photos of 224 x 224 is 154 MB."""


class OnTheCard(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The first ON_CARD batches of a data set, loaded and copied beforehand.

    To decode a photo takes a core 3 to 4 ms: of a batch of 256, 16 cores take as long as a card needs to train on it.
    And of a step on two windows of text 18 % was loading on an H200. Each job would measure that. What is about loading
    loads.
    """

    def __init__(self, data: Dataset[Any], batch: int, device: torch.device) -> None:
        batches = islice(DataLoader(data, batch_size=batch), ON_CARD)
        self.batches = [(inputs.to(device), targets.to(device)) for inputs, targets in batches]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.batches[index]


def in_batches(data: Dataset[Any], batch: int, device: torch.device) -> dict[str, Any]:
    """Arguments of a Job that is not about loading."""
    is_card = device.type == "cuda"
    return {"data": OnTheCard(data, batch, device) if is_card else data, "batch_size": None if is_card else batch}
