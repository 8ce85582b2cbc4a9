"""Pairs whose optimized step fills the temporary folder; with FILL_AT_IMPORT set, their file does."""

import os
import tempfile
from contextlib import suppress

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, stays

TIP = Tip(id="fills", title="Leave room", guide=(), claim=Claim.FASTER)


def fill() -> None:
    with suppress(OSError), open(os.path.join(tempfile.gettempdir(), "filler"), "ab", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


if "FILL_AT_IMPORT" in os.environ:
    fill()


class FillsAndExits(Pair):
    mechanism = stays("nothing", lambda step: 0)

    def baseline(self) -> Step:
        x = torch.randn(1000, device=self.device)
        return lambda: x + 1

    def optimized(self) -> Step:
        right = self.baseline()

        def step() -> torch.Tensor:
            fill()
            self.go_on()
            return right()  # type: ignore[no-any-return]

        return step

    def go_on(self) -> None:
        os._exit(3)


class Fills(FillsAndExits):
    def go_on(self) -> None:
        pass
