"""Use Intel's OpenMP runtime instead of GNU's.

PyTorch divides the work of one operation among threads with OpenMP, and its wheels bring GNU's runtime,
libgomp. Intel's, libiomp5, takes its place when it is loaded first, with LD_PRELOAD. The two differ in
how threads are woken for an operation, how they meet at its end, and what they do in between: Intel's
spin for KMP_BLOCKTIME milliseconds, by default 200, before they sleep. KMP_AFFINITY binds
each of them to a core.

Why people write the baseline: libgomp is what comes with PyTorch.

What to expect: a difference where operations are small and many, so that starting and ending their
parallel parts is a large share of the time; little where operations are large. Threads that spin are
there at once for the next operation, and in the way of everything else that wants their core:
KMP_BLOCKTIME=0 or 1 is for programs that have other work in between, such as loading data.

The runtime is chosen before the process starts, so each variant runs in a process of its own.
"""

import os
from functools import partial

import torch

from benchmarks.jobs.image_classification import RunResNet
from tipbench.tip.words import *

SETTINGS = ("KMP_AFFINITY", "KMP_BLOCKTIME")


def runtime_and_settings(step: Step) -> str:
    step()
    # PyTorch's own libgomp stays mapped beside a preloaded libiomp5, and is not used any more.
    runtime = mapped_library(("libiomp5", "libgomp")) or "another"
    return ", ".join([runtime, *(f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ)])


def only_optimized_is_intels(baseline: str, optimized: str) -> bool:
    return "libiomp5" in optimized and "libiomp5" not in baseline


intel = partial(Way, preload=("iomp5",), devices=("cpu",))
INTEL = intel(
    do="LD_PRELOAD=libiomp5.so python train.py  # with its path, lib/libiomp5.so after: pip install intel-openmp"
)
SLEEPING_AT_ONCE = intel(name="blocktime=0", env={"KMP_BLOCKTIME": "0"})
SLEEPING_SOON = intel(
    name="blocktime=1",
    do="LD_PRELOAD=libiomp5.so KMP_BLOCKTIME=1 python train.py",
    env={"KMP_BLOCKTIME": "1"},
)
BOUND = intel(
    name="bound",
    do="LD_PRELOAD=libiomp5.so KMP_AFFINITY=granularity=fine,compact,1,0 python train.py",
    env={"KMP_AFFINITY": "granularity=fine,compact,1,0"},
)
WAYS = INTEL, SLEEPING_AT_ONCE, SLEEPING_SOON

TIP = Tip(
    id="libiomp",
    title="Use Intel's OpenMP runtime",
    do=INTEL.do,
    ways={way.name: way.do for way in (*WAYS[1:], BOUND)},
    against="GNU's OpenMP runtime, which comes with torch",
    guide=("A2.3",),
    claim=Claim.FASTER,
    called="libiomp5",
    one_of="OpenMP",
    mechanism=Mechanism("OpenMP runtime in use, and its settings", runtime_and_settings, only_optimized_is_intels),
    why_not=(
        "Where there are two threads, waking and joining them costs little with either runtime; what the runtimes "
        "differ in grows with the number of threads."
    ),
)


class _OpenMP(SettingsPair, ways=WAYS):
    """The same step, in processes with different OpenMP runtimes, or with settings of Intel's."""

    needs = (cores(2), library("iomp5"))


class SmallOperations(_OpenMP, ways=(*WAYS, BOUND)):
    """Many operations just large enough that PyTorch uses threads for them: above 32768 elements."""

    sizes = Sizes(dict(operations=200, elements=40_000), test=dict(operations=3))

    def build(self) -> Step:
        x = torch.randn(self.size["elements"])

        def step() -> torch.Tensor:
            y = x
            for _ in range(self.size["operations"]):
                y = y + x
            return y

        return step


class ResNetInference(_OpenMP, RunResNet):
    """ResNet-18 run over JPEG files, loading included."""


ON_ANY_JOB = (INTEL,)
