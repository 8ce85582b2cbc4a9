"""Set the number of OpenMP threads with OMP_NUM_THREADS.

On CPUs PyTorch divides the work of one operation among threads. Their number is fixed when the process
starts. Unless OMP_NUM_THREADS says otherwise it is the number of physical cores, as if the process
were alone on the machine.

Why people write the baseline: nothing is set. That is right for one process, and wrong for several: each of
them then has as many threads as the machine has cores.

What to expect: large operations want all cores; small ones, below the size at which PyTorch starts to
use threads, do not care. The great loss is several processes that nobody has set anything for: their threads
wait for one another's. torchrun sets OMP_NUM_THREADS=1 for the processes it starts; a shell does not.

The guide also binds each thread to a core, with OMP_PROC_BIND or with GNU's own GOMP_CPU_AFFINITY: a thread
that is not moved keeps its cache. Two programs that are bound to the same cores share them, whatever is free
beside. And the workers of a DataLoader inherit the one core of the thread that starts them: two of them had it to
share (https://github.com/pytorch/pytorch/issues/101850). So nothing is written here for it. The guide's OMP_SCHEDULE
changes nothing: it is for loops compiled with `schedule(runtime)`, and PyTorch has none.

Threads are set before the process starts, so each variant runs in a process of its own.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import RunEncoder, TrainGPT
from tipbench.tip.words import *

CORES = available_cores()
DEFAULT = min(CORES, psutil.cpu_count(logical=False) or CORES)
THREADS = tuple(sorted({1, CORES // 2, CORES} - {0, DEFAULT}))
"""One thread, half the cores, all cores: less the one that is the default anyway."""


def threads(step: Step) -> int:
    step()
    return torch.get_num_threads()


def threads_of_all(step: Step) -> int:
    return threads(step) * (dist.get_world_size() if dist.is_initialized() else 1)


def bound_threads(step: Step) -> int:
    step()
    found = (int(task.name) for task in Path("/proc/self/task").iterdir())
    return sum(len(os.sched_getaffinity(thread)) == 1 for thread in found)


HALF = Way(
    do="OMP_NUM_THREADS=$(($(env -u OMP_NUM_THREADS nproc) / 2)) python train.py",
    env={"OMP_NUM_THREADS": str(max(1, CORES // 2))},
    without=("OMP_NUM_THREADS",),
)
BOUND = Way(env={"OMP_PROC_BIND": "close"})
ALSO_BOUND = Way(name="bound", env=BOUND.env)
BOUND_BY_GNU = Way(name="gnu_affinity", env={"GOMP_CPU_AFFINITY": " ".join(map(str, sorted(os.sched_getaffinity(0))))})

TIP = Tip(
    id="openmp-threads",
    title="Set the number of OpenMP threads",
    do=f"{HALF.do}  # each of the two",
    ways={"bound": ""},
    when="two processes share the machine, with a thread for every core each so far",
    against="two with a thread for every core each",
    guide=("A2.2",),
    claim=Claim.FASTER,
    called="half as many threads",
    one_of="threads",
    mechanism=changes("threads that share the work of an operation", threads),
    note="the baseline is PyTorch's default, all physical cores, and not a single thread",
    why_not="For a process that has the machine to itself the default is right already: a thread for every core.",
    why_not_holds=lambda device: DEFAULT == CORES,
)


def chain(operations: int, elements: int) -> Step:
    """Operations one after the other, each of which waits for all threads to have ended the one before."""
    x = torch.randn(elements)

    def step() -> torch.Tensor:
        y = x
        for _ in range(operations):
            y = y + x
        return y

    return step


class _Threads(Pair):
    """The same step, in a process with the default number of threads and with others."""

    devices = ("cpu",)
    needs = (cores(2),)

    def build(self) -> Step:
        raise NotImplementedError

    @process_settings(without=("OMP_NUM_THREADS",))
    def baseline(self) -> Step:
        return self.build()

    @sweep(threads=THREADS)
    @process_settings(without=("OMP_NUM_THREADS",), env={"OMP_NUM_THREADS": "{threads}"})
    def optimized(self, threads: int = 1) -> Step:
        return self.build()


class SmallOperations(_Threads):
    """Many operations just large enough that PyTorch uses threads for them."""

    sizes = Sizes(dict(operations=100, elements=40_000), test=dict(operations=3))

    def build(self) -> Step:
        return chain(**self.size)


class BoundThreads(SettingsPair, ways=(BOUND, BOUND_BY_GNU)):
    """Many operations just large enough that PyTorch uses threads for them, each thread on a core of its own."""

    needs = (cores(2),)
    sizes = SmallOperations.sizes
    mechanism = appears("threads that may run on one core only", bound_threads)

    def build(self) -> Step:
        return chain(**self.size)


def threads_and_bound(step: Step) -> str:
    return f"{threads(step)}, {bound_threads(step)} bound"


class GPTTraining(SettingsPair, TrainGPT, ways=(HALF, ALSO_BOUND)):
    """Training a small GPT in one process, with half as many threads as cores, or with threads that are bound."""

    needs = (cores(2),)
    against = "a thread for every core"
    mechanism = changes("threads that share the work, and how many may run on one core only", threads_and_bound)


class _TwoProcesses(SettingsPair, ways=(HALF,)):
    """Two processes do the same job side by side: each with PyTorch's default of threads, or with half the cores."""

    ranks = 2
    needs = (cores(2),)
    mechanism = falls("threads of all processes", threads_of_all)

    @variant
    @process_settings(ranks=1, without=("OMP_NUM_THREADS",))
    def in_turn(self) -> Step:
        """One process does the work of both."""
        first, second = self.build(), self.build()
        return lambda: (second(), first())[1]


class TwoInstances(_TwoProcesses, RunResNet):
    """Two processes run ResNet-18 over JPEG files, loading included."""


class TwoEncoders(_TwoProcesses, RunEncoder):
    """Two processes run a TransformerEncoder over text."""


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def on_fewer(job: Job | None) -> str:
    now = torch.get_num_threads()
    return "" if now < DEFAULT else f"PyTorch uses {now} threads already, one a core"


def on_several(job: Job | None) -> str:
    return "" if torch.get_num_threads() > 1 else "PyTorch uses one thread already"


ON_ANY_JOB = (
    Way(
        applies=on_fewer,
        do=f"torch.set_num_threads({DEFAULT})",
        switch=partial(on_threads, DEFAULT),
        mends=True,
    ),
    Way(
        name="one-thread",
        applies=on_several,
        do="torch.set_num_threads(1)",
        switch=partial(on_threads, 1),
    ),
)
