"""Pairs whose sides run, but not to the same end."""

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, falls, operations

TIP = Tip(id="bad-results", title="Compute something else", guide=(), claim=Claim.FASTER)


class _Doubling(Pair):
    """Twice a random input, in two operations; subclasses say how `optimized` fails to compute it in one."""

    mechanism = falls("operations dispatched", operations)

    def inputs(self) -> torch.Tensor:
        return torch.randn(10, device=self.device)

    def baseline(self) -> Step:
        x = self.inputs()
        return lambda: (x + 0) * 2


class Differs(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()
        return lambda: x * 2.001


class ReturnsNaN(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()
        return lambda: (x * 2).sqrt()


class ReturnsZeros(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()
        return lambda: torch.zeros_like(x)


class ReturnsNothing(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()

        def step() -> None:
            x.mul(2)  # somebody forgot `return`

        return step


class CachesItsResult(_Doubling):
    def optimized(self) -> Step:
        twice = self.inputs() * 2
        return lambda: twice


class IgnoresItsSeed(_Doubling):
    def optimized(self) -> Step:
        torch.manual_seed(1)
        x = self.inputs()
        return lambda: x * 2


class NotEngaged(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()
        return lambda: (x - 0) * 2
