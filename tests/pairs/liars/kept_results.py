"""Pairs whose optimized side does not do the work of every step; and honest ones that look like them."""

from itertools import count

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, falls, operations, stays, variant, within

TIP = Tip(id="kept-results", title="Do not do the work", guide=(), claim=Claim.FASTER)


class _Doubling(Pair):
    """Twice a random input, in two operations; subclasses say how `optimized` gets round the second step's."""

    mechanism = stays("nothing", lambda step: 0)

    def inputs(self) -> torch.Tensor:
        return torch.randn(10, device=self.device)

    def baseline(self) -> Step:
        x = self.inputs()
        return lambda: (x + 0) * 2


class ReturnsWhatItReturnedTwice(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()
        calls, returned = count(1), x

        def step() -> torch.Tensor:
            nonlocal returned
            if next(calls) % 3 == 0:
                return returned * 1
            returned = x * 2
            return returned

        return step


class ReturnsAViewOfItsInput(Pair):
    mechanism = falls("operations dispatched", operations)

    def baseline(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: x.clone()

    def optimized(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: x[:]


class Honest(_Doubling):
    """Every variant here keeps its result and may, because it computes it anew."""

    def optimized(self) -> Step:
        x = self.inputs()
        static = torch.empty_like(x)

        def replayed() -> torch.Tensor:  # as a CUDA graph writes to the same place in every step
            torch.mul(x, 2, out=static)
            return static.clone()

        return replayed

    @variant
    @within(torch.inference_mode)
    def without_gradients(self) -> Step:
        x = self.inputs()
        kept: dict[str, torch.Tensor] = {}

        def step() -> torch.Tensor:
            kept["last"] = x * 2
            return kept["last"].clone()

        return step
