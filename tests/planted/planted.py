"""Differences in time that are known because they were planted, and one that comes and goes.

All compute sines of the same 2000 numbers into one output: some 3 us each, nothing is allocated, the last one is
the result whatever the count. So the work is proportional to the count, and a step of 200 and one of 202 sines
differ by 1 %.
"""

from __future__ import annotations

from random import SystemRandom

import torch

from tipbench.tip.words import Claim, Equal, Mechanism, Pair, Sizes, Step, Tip, calls

TIP = Tip(
    id="planted",
    title="A difference in time, planted to be found",
    guide=(),
    claim=Claim.FASTER,
    status="calibration: the truth is known",
)

SINES = 200

DRAWN = SystemRandom().choice((-10, 0, 10))
"""Drawn once in each worker process, as its file is imported there: the sines that AtRandom's optimized side
computes beyond its baseline. No seed decides it, so launches with the same seed differ too."""


def amount(in_baseline: int = 0, in_optimized: int = 0) -> Sizes:
    """Sizes of a pair whose sides compute so many sines beyond SINES."""
    return Sizes(dict(sines=SINES, in_baseline=in_baseline, in_optimized=in_optimized, elements=2000))


class _Sines(Pair):
    """`sines` on both sides, and on either side as many more as `sizes` says."""

    equal = Equal.BITWISE

    def step_of(self, count: int) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)
        out = torch.empty_like(x)

        def step() -> torch.Tensor:
            for _ in range(count):
                torch.sin(x, out=out)
            return out

        return step

    def more(self) -> tuple[int, int]:
        """Sines beyond `sines`, of the baseline and of the optimized side."""
        return self.size["in_baseline"], self.size["in_optimized"]

    def baseline(self) -> Step:
        return self.step_of(self.size["sines"] + self.more()[0])

    def optimized(self) -> Step:
        return self.step_of(self.size["sines"] + self.more()[1])

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism("sines computed", lambda step: calls(step, "aten::sin"), self.are_as_planted)

    def are_as_planted(self, baseline: int, optimized: int) -> bool:
        return (baseline - self.size["sines"], optimized - self.size["sines"]) == self.more()


class Nothing(_Sines):
    """Both sides alike."""

    sizes = amount()
    truth = {"optimized": 1.0}


class InBaseline1(_Sines):
    """0.5 %: no difference of practical size."""

    sizes = amount(in_baseline=1)
    truth = {"optimized": 201 / 200}


class InOptimized2(_Sines):
    """1 %: the largest that is no difference of practical size."""

    sizes = amount(in_optimized=2)
    truth = {"optimized": 200 / 202}


class InBaseline3(_Sines):
    """1.5 %."""

    sizes = amount(in_baseline=3)
    truth = {"optimized": 203 / 200}


class InOptimized4(_Sines):
    """2 %."""

    sizes = amount(in_optimized=4)
    truth = {"optimized": 200 / 204}


class InBaseline6(_Sines):
    """3 %."""

    sizes = amount(in_baseline=6)
    truth = {"optimized": 206 / 200}


class InBaseline10(_Sines):
    """5 %."""

    sizes = amount(in_baseline=10)
    truth = {"optimized": 210 / 200}


class InOptimized10(_Sines):
    """5 %."""

    sizes = amount(in_optimized=10)
    truth = {"optimized": 200 / 210}


class InOptimized20(_Sines):
    """10 %."""

    sizes = amount(in_optimized=20)
    truth = {"optimized": 200 / 220}


class AtRandom(_Sines):
    """5 % more on the baseline, on the optimized side, or on neither: drawn anew in each process.

    Over launches the effect is 0 on average and 4 % in its spread, so nothing can be said honestly.
    """

    sizes = Sizes(dict(sines=SINES, elements=2000))

    def more(self) -> tuple[int, int]:
        return max(0, -DRAWN), max(0, DRAWN)
