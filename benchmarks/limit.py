"""What this machine reaches at most: two more controls, whose rates the other steps are set against.

Identical sides, as in `control.py`. How many numbers a copy moves and a matrix product multiplies is known,
so the time that a step of these takes is a rate; where another pair's work is known (`Pair.work`), the report
shows the share of that rate which each of its sides reaches.
"""

import torch

from benchmarks.control import TIP, _Control
from tipbench.tip.words import *

__all__ = ["TIP", "Copy", "MatrixProduct"]


class Copy(_Control):
    """A copy between two tensors that no cache holds: the rate is bytes read and written in a second."""

    sizes = Sizes(dict(elements=2**24), L=dict(elements=2**26), test=dict(elements=1000))
    flush_l2 = True

    def build(self) -> Step:
        source = torch.randn(self.size["elements"], device=self.device)
        copied = torch.empty_like(source)
        return lambda: copied.copy_(source)

    def work(self) -> dict[str, int]:
        return {"bytes": 2 * 4 * self.size["elements"]}


class MatrixProduct(_Control):
    """Two square matrices of 32-bit floats: the rate is their multiplications and additions in a second."""

    sizes = Sizes(dict(width=1024), L=dict(width=8192), test=dict(width=16))

    def build(self) -> Step:
        left, right = torch.randn(2, self.size["width"], self.size["width"], device=self.device)
        return lambda: left @ right

    def work(self) -> dict[str, int]:
        return {"flops": flops(self.build())}
