"""How much work a pair does: on a CPU, on a GPU, and in exact tests."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf, log2
from types import MappingProxyType

CARD_BYTES = 14 << 30
"""What the sizes on a GPU are for: a card sold with 16 GB, of which its driver leaves 14.6 GiB or more."""


class Sizes:
    """Named sizes: `Sizes(dict(batch=8, pixels=56), gpu=dict(batch=64), test=dict(batch=2, pixels=8))`.

    gpu: what is another on a GPU of CARD_BYTES or more. halved: which sizes are halved on a GPU of half of that, and
    so on. test: what is another in the exact tests, never in a run. Raises TypeError where one of them names no size.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        gpu: Mapping[str, int] = MappingProxyType({}),
        halved: tuple[str, ...] = ("batch",),
        test: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.cpu, self.gpu, self.halved, self.test = dict(sizes), dict(gpu), halved, dict(test)
        if unknown := sorted({*gpu, *test} - set(sizes)):
            raise TypeError(f"{unknown[0]} is given for a GPU or for tests, but is no size: {', '.join(sizes)}")

    def on(self, device_type: str) -> dict[str, int]:
        """The sizes of a run on "cpu" or "cuda", there on the smallest card of this machine."""
        if device_type != "cuda":
            return dict(self.cpu)
        sizes = {**self.cpu, **self.gpu}
        halvings = ceil(log2(max(1.0, CARD_BYTES / smallest_card())))
        return sizes | {name: max(1, sizes[name] >> halvings) for name in self.halved if name in sizes}


def smallest_card() -> float:
    """Bytes of the smallest GPU that torch sees; infinite where it sees none."""
    import torch

    cards = range(torch.cuda.device_count())
    return min((torch.cuda.get_device_properties(card).total_memory for card in cards), default=inf)
