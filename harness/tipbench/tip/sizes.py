"""How much work a pair does: tiers of size, from two cores to a large GPU, and tiny sizes for exact tests."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType

TIERS = S, M, L = "S", "M", "L"
"""For two cores, for a workstation, and for a card of 16 GB and more."""

WORKSTATION_CORES = 8
WORKSTATION_BYTES = 30 << 30

L_BYTES = 14 << 30
"""A card sold with 16 GB, of which its driver leaves 14.6 GiB or more."""


_Numbers = Mapping[str, int]
_NONE: _Numbers = MappingProxyType({})


class Sizes:
    """Named sizes: `Sizes(dict(batch=4, pixels=160), M=dict(batch=16), L=dict(batch=64), test=dict(pixels=8))`.

    `sizes` are for tier S; `M` and `L` override what changes on that tier and above, `test` what changes in exact
    tests. Raises TypeError where an override names a size that `sizes` lacks.
    """

    def __init__(self, sizes: _Numbers, *, M: _Numbers = _NONE, L: _Numbers = _NONE, test: _Numbers = _NONE) -> None:
        self.by_tier = {"S": dict(sizes), "M": dict(M), "L": dict(L)}
        self.test = dict(test)
        if unknown := sorted({*M, *L, *test} - set(sizes)):
            raise TypeError(
                f"{unknown[0]} is set for a tier or for tests, but is not among the sizes: {', '.join(sizes)}"
            )

    def but(
        self, sizes: _Numbers = _NONE, *, M: _Numbers = _NONE, L: _Numbers = _NONE, test: _Numbers = _NONE
    ) -> Sizes:
        """Others that differ in what is named: `TrainGPT.sizes.but(dict(batch=4), test=dict(context=8))`."""
        small, middle, large = self.by_tier.values()
        return Sizes({**small, **sizes}, M={**middle, **M}, L={**large, **L}, test={**self.test, **test})

    def on(self, tier: str) -> dict[str, int]:
        """The sizes on a tier, one of TIERS."""
        up_to = TIERS[: TIERS.index(tier) + 1]
        return {name: size for lower in up_to for name, size in self.by_tier[lower].items()}


def tier_here(device_type: str, cores: int, memory_bytes: float) -> str:
    """The tier of a run on "cpu", by its cores and memory, or on "cuda", by the smallest card of this machine."""
    if device_type == "cuda":
        import torch

        cards = range(torch.cuda.device_count())
        least = min((torch.cuda.get_device_properties(card).total_memory for card in cards), default=inf)
        return L if least >= L_BYTES else M
    return M if cores >= WORKSTATION_CORES and memory_bytes >= WORKSTATION_BYTES else S
