"""A step that gives its card work of 4 ms and returns at once."""

from collections.abc import Callable

import torch

from tests.made_up_cuda import CUDA
from tipbench.tip.words import Claim, Equal, Pair, Sizes, Step, Tip, falls

TIP = Tip(id="timed", title="Work that lasts on a card", guide=(), claim=Claim.FASTER)

STEP_S = 0.004


class Work(Pair):
    """On the card that the pair is given."""

    mechanism = falls("nothing", lambda step: 0)
    devices = ("cuda",)
    equal = Equal.BITWISE
    sizes = Sizes(dict(steps=1))

    def build(self) -> Callable[[], torch.Tensor]:
        card = self.device.index
        assert card is not None

        def step() -> torch.Tensor:
            CUDA.work(card, STEP_S)
            return torch.rand(3)

        return step

    def baseline(self) -> Step:
        return self.build()

    def optimized(self) -> Step:
        return self.build()
