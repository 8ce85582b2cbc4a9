"""The pair that must be measured whatever happens to the others."""

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, stays

TIP = Tip(id="good", title="Add once", guide=(), claim=Claim.FASTER)


class Adding(Pair):
    mechanism = stays("steps that return nothing", lambda step: step() is None)

    def additions(self, count: int) -> Step:
        x = torch.randn(1000, device=self.device)
        return lambda: [x + 1 for _ in range(count)][-1]

    def baseline(self) -> Step:
        return self.additions(20)

    def optimized(self) -> Step:
        return self.additions(10)
