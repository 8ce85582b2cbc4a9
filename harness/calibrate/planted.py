"""Pairs whose truth is known because it was planted: time, memory, and a difference that comes and goes.

The time pairs compute sines of the same 2000 numbers into one output: some 3 us each, nothing is
allocated, the last one is the result whatever the count. So the work is proportional to the count, and
a step of 200 and one of 202 sines differ by 1 %.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import SystemRandom
from typing import ClassVar

import torch

from tipbench.tip.counts import calls, operations
from tipbench.tip.pair import Claim, Equal, Pair, Step, Tip
from tipbench.worker.memory import STEPS, tensor_peak

TIP = Tip(
    id="planted",
    title="A difference planted to be found",
    guide=(),
    claim=Claim.FASTER,
    status="calibration: the truth is known",
)

SINES = 200

DRAWN = SystemRandom().choice((-10, 0, 10))
"""Drawn once in each worker process, as its file is imported there: the sines that AtRandom's optimized side
computes beyond its baseline. No seed decides it, so launches with the same seed differ too."""


def _amount(in_baseline: int = 0, in_optimized: int = 0) -> Mapping[str, int]:
    return {"sines": SINES, "in_baseline": in_baseline, "in_optimized": in_optimized, "elements": 2000}


class _Sines(Pair):
    """`sines` on both sides, and on either side as many more as `sizes` says."""

    equal = Equal.BITWISE
    sizes = _amount()

    def step_of(self, count: int) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)
        out = torch.empty_like(x)

        def step() -> torch.Tensor:
            for _ in range(count):
                torch.sin(x, out=out)
            return out

        return step

    def baseline(self) -> Step:
        return self.step_of(self.size["sines"] + self.size["in_baseline"])

    def optimized(self) -> Step:
        return self.step_of(self.size["sines"] + self.size["in_optimized"])

    def mechanism(self, step: Step) -> int:
        """sines computed"""
        return calls(step, "aten::sin")

    def engaged(self, baseline: int, optimized: int) -> bool:
        planted = self.size["in_baseline"], self.size["in_optimized"]
        return (baseline - self.size["sines"], optimized - self.size["sines"]) == planted


class Nothing(_Sines):
    """Both sides alike."""


class InBaseline1(_Sines):
    """0.5 %."""

    sizes = _amount(in_baseline=1)


class InBaseline2(_Sines):
    """1 %."""

    sizes = _amount(in_baseline=2)


class InBaseline3(_Sines):
    """1.5 %."""

    sizes = _amount(in_baseline=3)


class InBaseline4(_Sines):
    """2 %."""

    sizes = _amount(in_baseline=4)


class InBaseline6(_Sines):
    """3 %."""

    sizes = _amount(in_baseline=6)


class InBaseline10(_Sines):
    """5 %."""

    sizes = _amount(in_baseline=10)


class InBaseline20(_Sines):
    """10 %."""

    sizes = _amount(in_baseline=20)


class InOptimized1(_Sines):
    """0.5 %."""

    sizes = _amount(in_optimized=1)


class InOptimized2(_Sines):
    """1 %."""

    sizes = _amount(in_optimized=2)


class InOptimized3(_Sines):
    """1.5 %."""

    sizes = _amount(in_optimized=3)


class InOptimized4(_Sines):
    """2 %."""

    sizes = _amount(in_optimized=4)


class InOptimized6(_Sines):
    """3 %."""

    sizes = _amount(in_optimized=6)


class InOptimized10(_Sines):
    """5 %."""

    sizes = _amount(in_optimized=10)


class InOptimized20(_Sines):
    """10 %."""

    sizes = _amount(in_optimized=20)


class AtRandom(_Sines):
    """5 % more on the baseline, on the optimized side, or on neither: drawn anew in each process.

    Over launches the effect is 0 on average and 4 % in its spread, so nothing can be said honestly.
    """

    def baseline(self) -> Step:
        return self.step_of(self.size["sines"] + max(0, -DRAWN))

    def optimized(self) -> Step:
        return self.step_of(self.size["sines"] + max(0, DRAWN))

    def engaged(self, baseline: int, optimized: int) -> bool:
        return (baseline - self.size["sines"], optimized - self.size["sines"]) == (max(0, -DRAWN), max(0, DRAWN))


class Held(Pair):
    """All the while, the optimized side holds `mib` MiB that the baseline does not."""

    equal = Equal.BITWISE
    devices = ("cpu",)
    sizes: ClassVar[Mapping[str, int]] = {"mib": 512}
    test_sizes: ClassVar[Mapping[str, int]] = {"mib": 8}

    def step_holding(self, mib: int) -> Step:
        x = torch.randn(1000, device=self.device)
        # Written to, so that it is resident and not only promised.
        held = torch.ones(mib << 20, dtype=torch.uint8, device=self.device)

        def step() -> torch.Tensor:
            _ = held  # alive as long as the step
            return x.sin()

        return step

    def baseline(self) -> Step:
        return self.step_holding(0)

    def optimized(self) -> Step:
        return self.step_holding(self.size["mib"])

    def mechanism(self, step: Step) -> int:
        """operations dispatched"""
        return operations(step)

    def engaged(self, baseline: int, optimized: int) -> bool:
        return baseline == optimized


class Transient(Held):
    """Within each step, the optimized side holds `mib` MiB that the baseline does not, and lets them go.

    What becomes resident is the allocator's affair: a block that was let go is taken again only if it is
    large enough, alignment included, and small tensors in between keep it from growing back together.
    """

    def step_holding(self, mib: int) -> Step:
        x = torch.randn(1000, device=self.device)

        def step() -> torch.Tensor:
            held = torch.ones(mib << 20, dtype=torch.uint8, device=self.device)
            result = x.sin()
            del held
            return result

        return step


class Leak(Pair):
    """Both sides allocate `mib` MiB a step; the optimized one keeps them, of the last `most` steps for safety."""

    equal = Equal.BITWISE
    devices = ("cpu",)
    sizes: ClassVar[Mapping[str, int]] = {"mib": 4, "most": 256}
    test_sizes: ClassVar[Mapping[str, int]] = {"mib": 1}

    def step_keeping(self, most: int) -> Step:
        x = torch.randn(1000, device=self.device)
        kept: deque[torch.Tensor] = deque(maxlen=most)

        def step() -> torch.Tensor:
            kept.append(torch.ones(self.size["mib"] << 20, dtype=torch.uint8, device=self.device))
            return x.sin()

        return step

    def baseline(self) -> Step:
        return self.step_keeping(0)

    def optimized(self) -> Step:
        return self.step_keeping(self.size["most"])

    def mechanism(self, step: Step) -> int:
        """MiB of live tensors at most"""
        return (tensor_peak(lambda: step) or 0) >> 20

    def engaged(self, baseline: int, optimized: int) -> bool:
        return (baseline, optimized) == (self.size["mib"], STEPS * self.size["mib"])
