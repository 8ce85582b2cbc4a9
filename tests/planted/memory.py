"""Memory that is known because it was planted: held, taken for a moment, and leaked.

`live_mib` is how many MiB of live tensors the optimized side takes beyond its baseline, at most, and `resident_mib`
how many MiB of resident memory, where that is known. Both sides of a pair take about as long: a block lasts as many
steps as the faster one needs, so a side that takes a thousand times longer would be timed for minutes.
"""

from __future__ import annotations

from collections import deque

import torch

from tipbench.tip.words import Claim, Equal, Mechanism, Pair, Sizes, Step, Tip, falls, operations, stays
from tipbench.worker.memory import STEPS, tensor_peaks

TIP = Tip(
    id="memory",
    title="Memory, planted to be found",
    guide=(),
    claim=Claim.LEANER,
    mechanism=stays("operations dispatched", operations),
    status="calibration: the truth is known",
)


class _Memory(Pair):
    equal = Equal.BITWISE
    devices = ("cpu",)

    def taken(self, mib: int) -> torch.Tensor:
        """So many MiB, written to, so that they are resident and not only promised."""
        return torch.ones(mib << 20, dtype=torch.uint8, device=self.device)


class Held(_Memory):
    """All the while, the optimized side holds what the baseline does not."""

    sizes = Sizes(dict(live_mib=512, resident_mib=512), test=dict(live_mib=8, resident_mib=8))

    def step_holding(self, mib: int) -> Step:
        x = torch.randn(1000, device=self.device)
        held = self.taken(mib)

        def step() -> torch.Tensor:
            _ = held  # alive as long as the step
            return x.sin()

        return step

    def baseline(self) -> Step:
        return self.step_holding(0)

    def optimized(self) -> Step:
        return self.step_holding(self.size["live_mib"])


class Transient(_Memory):
    """Each step writes the same bytes: the baseline in portions, each let go before the next, the other at once.

    What becomes resident is the allocator's affair: a block that was let go is taken again only if it is
    large enough, alignment included, and small tensors in between keep it from growing back together.
    """

    mechanism = falls("operations dispatched", operations)
    sizes = Sizes(dict(live_mib=240, portion_mib=16), test=dict(live_mib=6, portion_mib=2))

    def step_taking(self, portions: int, mib: int) -> Step:
        x = torch.randn(1000, device=self.device)

        def step() -> torch.Tensor:
            for _ in range(portions):
                self.taken(mib)
            return x.sin()

        return step

    def baseline(self) -> Step:
        portion = self.size["portion_mib"]
        return self.step_taking(self.size["live_mib"] // portion + 1, portion)

    def optimized(self) -> Step:
        return self.step_taking(1, self.size["live_mib"] + self.size["portion_mib"])


class Leak(_Memory):
    """Both sides take `mib` a step; the optimized one keeps them, of the last `most` steps for safety.

    The memory pass watches live tensors for STEPS steps, so what all but the last of them kept is beyond the baseline.
    It has no word for growth: a leak shows as more memory.
    """

    sizes = Sizes(dict(mib=4, most=64, live_mib=4 * (STEPS - 1)), test=dict(mib=1, live_mib=STEPS - 1))

    def step_keeping(self, most: int) -> Step:
        x = torch.randn(1000, device=self.device)
        kept: deque[torch.Tensor] = deque(maxlen=most)

        def step() -> torch.Tensor:
            result = x.sin()  # before, so that both sides have it beside what they take
            kept.append(self.taken(self.size["mib"]))
            return result

        return step

    def baseline(self) -> Step:
        return self.step_keeping(0)

    def optimized(self) -> Step:
        return self.step_keeping(self.size["most"])

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism("MiB of live tensors at most", live_mib, self.is_as_planted)

    def is_as_planted(self, baseline: int, optimized: int) -> bool:
        return optimized - baseline == self.size["live_mib"]


def live_mib(step: Step) -> int:
    return tensor_peaks(lambda: step).get("tensor_peak", 0) >> 20
