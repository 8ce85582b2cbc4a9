"""How much work a pair does: a ladder of sizes, from two cores to a large GPU, and a tiny one for exact tests."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType

RUNGS = S, M, L, XL = "S", "M", "L", "XL"
"""For two cores, for a workstation, for a card of 16 GB, for one of 80 GB."""

WORKSTATION_CORES = 8
WORKSTATION_BYTES = 30 << 30

L_BYTES = 14 << 30
"""A card sold with 16 GB, of which its driver leaves 14.6 GiB or more."""

XL_BYTES = 72 << 30
"""A card sold with 80 GB."""


class Sizes:
    """Named sizes: `Sizes(dict(batch=4, pixels=160), M=dict(batch=16), L=dict(batch=64), test=dict(pixels=8))`.

    The first are those of rung S; M, L and XL have what is another than on the rung below. test: what is another in
    the exact tests, never in a run. Raises TypeError where one of them names no size.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        *,
        M: Mapping[str, int] = MappingProxyType({}),
        L: Mapping[str, int] = MappingProxyType({}),
        XL: Mapping[str, int] = MappingProxyType({}),
        test: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.ladder = dict(zip(RUNGS, (dict(sizes), dict(M), dict(L), dict(XL)), strict=True))
        self.test = dict(test)
        if unknown := sorted({*M, *L, *XL, *test} - set(sizes)):
            raise TypeError(f"{unknown[0]} is given for another rung or for tests, but is no size: {', '.join(sizes)}")

    def on(self, rung: str) -> dict[str, int]:
        """The sizes of a rung, one of RUNGS."""
        below = RUNGS[: RUNGS.index(rung) + 1]
        return {name: size for one in below for name, size in self.ladder[one].items()}


def rung_here(device_type: str, cores: int, memory_bytes: float) -> str:
    """The rung of a run on "cpu", by its cores and memory, or on "cuda", by the smallest card of this machine."""
    if device_type == "cuda":
        card = smallest_card()
        return XL if card >= XL_BYTES else L if card >= L_BYTES else M
    return M if cores >= WORKSTATION_CORES and memory_bytes >= WORKSTATION_BYTES else S


def smallest_card() -> float:
    """Bytes of the smallest GPU that torch sees; infinite where it sees none."""
    import torch

    cards = range(torch.cuda.device_count())
    return min((torch.cuda.get_device_properties(card).total_memory for card in cards), default=inf)
