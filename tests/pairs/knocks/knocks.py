"""Small pairs that end in every way a pair may end, for runs that are killed at any moment of them."""

import os
import time

import torch

from tipbench.tip.words import Claim, Need, Pair, Reason, Step, Tip, stays

TIP = Tip(id="knocks", title="Add less often", guide=(), claim=Claim.FASTER)

NOWHERE = Need("a unicorn", lambda device: Reason("needs.own", {}, "no unicorn found", "buy one"))


class _Adding(Pair):
    mechanism = stays("steps that return nothing", lambda step: step() is None)

    def additions(self, count: int) -> Step:
        x = torch.randn(1000, device=self.device)
        return lambda: [x + 1 for _ in range(count)][-1]

    def baseline(self) -> Step:
        return self.additions(20)

    def optimized(self) -> Step:
        return self.additions(10)


class Skipped(_Adding):
    needs = (NOWHERE,)


class Raises(_Adding):
    def baseline(self) -> Step:
        raise LookupError("no weights here")


class Forks(_Adding):
    """Its first step forks a process that never ends by itself, as a data loader does."""

    def optimized(self) -> Step:
        right = self.additions(10)
        forked: list[int] = []

        def step() -> torch.Tensor:
            if not forked:
                forked.append(os.fork())
                if not forked[0]:
                    time.sleep(10_000)
                    os._exit(0)
            return right()  # type: ignore[no-any-return]

        return step


class SkippedToo(Skipped):
    pass
