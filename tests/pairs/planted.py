"""A planted difference: one side does exactly 10 % more of the same operation, for the same result.

No test times these. `tipbench run --from tests/pairs/planted.py` must find `slower` and `faster`, each
with an interval that holds the truth: 300/330 and 330/300.
"""

import torch

from harness.mechanism import calls
from harness.pair import Claim, Equal, Pair, Step, Tip

TIP = Tip(id="planted", title="A planted difference of 10 %", guide=(), claim=Claim.FASTER)


class _Planted(Pair):
    """`count` sines of the same input: 3 us each, 1 ms in all; the last one is the result, whatever the count."""

    equal = Equal.BITWISE
    sizes = {"fewer": 300, "more": 330, "elements": 2000}
    tiny = {"fewer": 30, "more": 33, "elements": 100}

    def sines(self, count: int) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)
        out = torch.empty_like(x)

        def step() -> torch.Tensor:
            # One output for all: nothing is allocated, so the work is proportional to the count.
            for _ in range(count):
                torch.sin(x, out=out)
            return out

        return step

    def mechanism(self, step: Step) -> int:
        """sines computed"""
        return calls(step, "aten::sin")

    def engaged(self, baseline: int, optimized: int) -> bool:
        return {baseline, optimized} == {self.size["fewer"], self.size["more"]}


class PlantedInOptimized(_Planted):
    """The optimized side is slower: 300/330."""

    def baseline(self) -> Step:
        return self.sines(self.size["fewer"])

    def optimized(self) -> Step:
        return self.sines(self.size["more"])


class PlantedInBaseline(_Planted):
    """The optimized side is faster: 330/300."""

    def baseline(self) -> Step:
        return self.sines(self.size["more"])

    def optimized(self) -> Step:
        return self.sines(self.size["fewer"])
