"""Pairs of two processes that may be on two nodes, and one that is not."""

import os
import time

import torch
from torch import distributed

from tipbench.tip.mechanism import Mechanism
from tipbench.tip.pair import Claim, Pair, Step, Tip, variant
from tipbench.tip.process import process_settings

TIP = Tip(id="over-nodes", title="Spread ranks over nodes", guide=(), claim=Claim.FASTER)


def nodes() -> list[str]:
    """The node of each rank, by its name in Slurm or its number in torchrun."""
    found: list[str] = [""] * distributed.get_world_size()
    distributed.all_gather_object(found, os.environ.get("SLURMD_NODENAME", os.environ["GROUP_RANK"]))
    return found


class NoRanks(Pair):
    def baseline(self) -> Step:
        x = torch.randn(10)
        return lambda: x + 1 + 1

    def optimized(self) -> Step:
        x = torch.randn(10)
        return lambda: x + 2


def where(step: Step) -> list[str]:
    return nodes() if distributed.is_initialized() else ["0"]


class _Summing(Pair):
    """The ranks' inputs are the same, so their sum is known beforehand."""

    mechanism = Mechanism("nodes of the ranks", where, lambda baseline, optimized: True)

    def inputs(self) -> torch.Tensor:
        return torch.randn(10, device=self.device)

    @process_settings(ranks=2)
    def baseline(self) -> Step:
        inputs = self.inputs()

        def step() -> torch.Tensor:
            total = inputs.clone()
            distributed.all_reduce(total)
            return total

        return step


class Summing(_Summing):
    @process_settings(ranks=2)
    def optimized(self) -> Step:
        return self.baseline()


class Mixed(Summing):
    """One of its variants has no ranks."""

    @variant
    def alone(self) -> Step:
        inputs = self.inputs()
        return lambda: inputs * 2


class Three(_Summing):
    @process_settings(ranks=3)
    def baseline(self) -> Step:
        return super().baseline()

    @process_settings(ranks=3)
    def optimized(self) -> Step:
        return self.baseline()


class _OneRankFails(_Summing):
    def fail(self) -> None:
        raise NotImplementedError

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        summing = self.baseline()

        def step() -> torch.Tensor:
            if distributed.get_rank() == 1:
                self.fail()
            return summing()  # type: ignore[no-any-return]

        return step


class OneRankRaises(_OneRankFails):
    def fail(self) -> None:
        raise ValueError("rank 1 has had enough")


class OneRankDies(_OneRankFails):
    def fail(self) -> None:
        os._exit(5)


class OneRankHangs(_OneRankFails):
    deadline = 8.0

    def fail(self) -> None:
        time.sleep(1000)
