"""A pair of two processes under torchrun, of which the second gives up after a while."""

import os
import time

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, falls, process_settings

TIP = Tip(id="knocked-ranks", title="Lose a rank", guide=(), claim=Claim.FASTER)


class Waits(Pair):
    """It fails at its first step: what is tested is a kill before that, and torchrun takes long to start."""

    mechanism = falls("nothing", lambda step: 0)

    @process_settings(ranks=2)
    def baseline(self) -> Step:
        x = torch.ones(10, device=self.device)

        def step() -> torch.Tensor:
            time.sleep(1.0)
            if os.environ["RANK"] == "1":
                raise ValueError("rank 1 has had enough")
            return x

        return step

    def optimized(self) -> Step:
        return self.baseline()
