"""Pairs of two processes, of which the second ends badly while the first waits for it."""

import os

import torch
from torch import distributed

from tipbench.tip.words import Claim, Pair, Step, Tip, falls, process_settings

TIP = Tip(id="bad-ranks", title="Lose a rank", guide=(), claim=Claim.FASTER)


class _Averaging(Pair):
    """The first step is enough to fail, inside the pair's own collective."""

    mechanism = falls("all-reduces", lambda step: 1)

    @process_settings(ranks=2)
    def baseline(self) -> Step:
        x = torch.randn(10, device=self.device)

        def step() -> torch.Tensor:
            total = x.clone()
            distributed.all_reduce(total)
            return total

        return step

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        averaging = self.baseline()

        def step() -> torch.Tensor:
            if distributed.get_rank() == 1:
                self.fail()
            return averaging()  # type: ignore[no-any-return]

        return step

    def fail(self) -> None:
        raise NotImplementedError


class OneRankRaises(_Averaging):
    def fail(self) -> None:
        raise ValueError("rank 1 has had enough")


class OneRankDies(_Averaging):
    def fail(self) -> None:
        os._exit(5)
