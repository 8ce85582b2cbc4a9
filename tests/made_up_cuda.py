"""CUDA as far as a harness can tell it apart from a CPU, made up: cards, a current one, work that lasts, a plan cache.

What a test of it proves is how the harness uses CUDA, not how CUDA behaves: see tests/README.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tipbench.worker import clock


@dataclass
class Cuda:
    """The host goes on at once when it gives a card work; the card does it in the order given.

    now: seconds on the host's clock. free_at: for each card, when it will have done all its work.
    """

    now: float = 0.0
    current: int = 0
    free_at: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def work(self, card: int, seconds: float) -> None:
        self.free_at[card] = max(self.free_at[card], self.now) + seconds

    def set_device(self, device: torch.device) -> None:
        assert device.index is not None
        self.current = device.index

    def synchronize(self, device: torch.device | None = None) -> None:
        card = self.current if device is None else device.index
        assert card is not None
        self.now = max(self.now, self.free_at[card])

    def event(self, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)

    def put_in_place(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(torch.cuda, "set_device", self.set_device)
        patch.setattr(torch.cuda, "device_count", lambda: len(self.free_at))
        patch.setattr(torch.cuda, "get_device_properties", lambda card: SimpleNamespace(total_memory=80 << 30, uuid=""))
        patch.setattr(clock, "_Event", self.event)
        patch.setattr(clock, "_synchronize_cuda", self.synchronize)
        patch.setattr(clock, "_synchronize", self.synchronize)
        patch.setattr(clock, "perf_counter", lambda: self.now)


class Event:
    """Recorded on the stream of the current card, as torch's are, whatever else the process computes on."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self.at = float("nan")

    def record(self) -> None:
        self.at = max(self.cuda.now, self.cuda.free_at[self.cuda.current])

    def elapsed_time(self, end: Event) -> float:
        return 1000 * (end.at - self.at)


CUDA = Cuda()
"""What the pairs under tests/pairs/gpu compute on; `fresh` before each test."""

PLANS: dict[Any, str] = {}
"""A cache as cuDNN's: how a convolution of some shape is computed, decided when it is first met in the process."""


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    CUDA.__init__()  # type: ignore[misc]
    CUDA.put_in_place(monkeypatch)
    return CUDA


def convolve(shape: int) -> str:
    """How a convolution is computed: PLANS know its shape, and nothing of the setting it was decided under."""
    return PLANS.setdefault(shape, "searched" if torch.backends.cudnn.benchmark else "by rules")
