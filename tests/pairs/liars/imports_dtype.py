"""A file that changes, at import, what both sides run with."""

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, stays

TIP = Tip(id="imports-dtype", title="Change it at import", guide=(), claim=Claim.FASTER)

torch.set_default_dtype(torch.float64)


class Adding(Pair):
    mechanism = stays("nothing", lambda step: 0)

    def baseline(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: x + 1

    def optimized(self) -> Step:
        return self.baseline()
