"""Differences in time that are known because they were planted, and one that comes and goes.

All compute sines of the same 2000 numbers into one output: some 3 us each, nothing is allocated, the last one is
the result whatever the count. So the work is proportional to the count, and a step of 200 and one of 202 sines
differ by 1 %.
"""

from __future__ import annotations

from random import SystemRandom
from typing import ClassVar

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


class _Sines(Pair):
    """`sines` on both sides, and on either side as many more as `sizes` says."""

    equal = Equal.BITWISE

    def __init_subclass__(cls, in_baseline: int = 0, in_optimized: int = 0) -> None:
        cls.sizes = Sizes(dict(sines=SINES, in_baseline=in_baseline, in_optimized=in_optimized, elements=2000))
        if "truth" not in vars(cls):
            cls.truth = {"optimized": (SINES + in_baseline) / (SINES + in_optimized)}
        super().__init_subclass__()

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


class InBaseline1(_Sines, in_baseline=1):
    """0.5 %: no difference of practical size."""


class InOptimized2(_Sines, in_optimized=2):
    """1 %: the largest that is no difference of practical size."""


class InBaseline3(_Sines, in_baseline=3):
    """1.5 %."""


class InOptimized4(_Sines, in_optimized=4):
    """2 %."""


class InBaseline6(_Sines, in_baseline=6):
    """3 %."""


class InBaseline10(_Sines, in_baseline=10):
    """5 %."""


class InOptimized10(_Sines, in_optimized=10):
    """5 %."""


class InOptimized20(_Sines, in_optimized=20):
    """10 %."""


class AtRandom(_Sines):
    """5 % more on the baseline, on the optimized side, or on neither: drawn anew in each process.

    Over launches the effect is 0 on average and 4 % in its spread, so nothing can be said honestly.
    """

    truth: ClassVar[dict[str, float]] = {}

    def more(self) -> tuple[int, int]:
        return max(0, -DRAWN), max(0, DRAWN)
