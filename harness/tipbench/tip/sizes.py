"""How much work a pair does: tiers of size, from two cores to a large GPU, and tiny sizes for exact tests."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType

TIERS = S, M, L, XL = "S", "M", "L", "XL"
"""For two cores, for a workstation, for a card of 16 GB and more, and to fill one of 80 GB, on request alone: a step of
a GPT in float32 takes 0.4 s on an H200 then, and its check and launches minutes of a loan."""

WORKSTATION_CORES = 8
WORKSTATION_BYTES = 30 << 30

L_BYTES = 14 << 30
"""A card sold with 16 GB, of which its driver leaves 14.6 GiB or more."""


class Sizes:
    """Named sizes: `Sizes(dict(batch=4, pixels=160), M=dict(batch=16), L=dict(batch=64), test=dict(pixels=8))`.

    `sizes` are for tier S; `M`, `L` and `XL` override what changes on that tier and above, `test` what changes in exact
    tests. Raises TypeError where an override names a size that `sizes` lacks.
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
        self.by_tier = dict(zip(TIERS, (dict(sizes), dict(M), dict(L), dict(XL)), strict=True))
        self.test = dict(test)
        if unknown := sorted({*M, *L, *XL, *test} - set(sizes)):
            raise TypeError(
                f"{unknown[0]} is set for a tier or for tests, but is not among the sizes: {', '.join(sizes)}"
            )

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
