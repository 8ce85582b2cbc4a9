"""The cases: identical code on both sides, and 3 % more of the same operation on one.

Every tool times the steps that these pairs build. The first four are the controls of
`benchmarks/control.py` whose sides share a process; the last two are of the kind that
`python -m tests.calibrate` measures.
"""

from benchmarks import control
from tests.planted import planted
from tipbench.tip.pair import Claim, Tip

TIP = Tip(
    id="peers",
    title="Identical code, and 3 % more of it",
    guide=(),
    claim=Claim.FASTER,
    mechanism=control.TIP.mechanism,
)


class Pointwise(control.Pointwise):
    """Identical: five operations, each with a temporary of 1 MB."""


class Convolution(control.Convolution):
    """Identical: one 3x3 convolution, by all threads."""


class TrainingStep(control.TrainingStep):
    """Identical: forward, backward and optimizer step of a small multilayer perceptron."""


class SmallOperations(control.SmallOperations):
    """Identical: a chain of operations so small that only their dispatch costs time."""


class MoreInOptimized(planted.Nothing):
    """The optimized side is slower: 200 sines against 206."""

    sizes = planted.amount(in_optimized=6)


class MoreInBaseline(planted.Nothing):
    """The optimized side is faster: 206 sines against 200."""

    sizes = planted.amount(in_baseline=6)
