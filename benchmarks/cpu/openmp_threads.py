"""Serve with several instances that share the cores, and set OMP_NUM_THREADS for each.

On CPUs PyTorch divides the work of one operation among threads, and each waits for the last one at the end of the
operation. Unless OMP_NUM_THREADS says otherwise, their number is that of the physical cores, as if the process were
alone on the machine. Several processes (instances) that each run the model on batches of their own, with a share of the
cores as threads, wait less for each other.

Why people write the baseline: a program is one process, and by default it uses all cores.

What to expect: more batches a second, where operations are too small for all threads, or where a process does with one
thread what lies between two batches, such as decoding photos. The price is latency and memory: a batch has fewer
threads, and each instance holds the model. A step is as many batches as there are cores, shared among the instances, so
one batch takes instances / cores of a step.

The great loss is several instances for which nothing is set, as a shell, gunicorn or uvicorn start them: each has a
thread for every core then, and these compete for the cores. That is the variant `nothing_set`. torchrun sets
OMP_NUM_THREADS=1 for the processes that it starts.

The guide also binds each thread to a core, with OMP_PROC_BIND or GNU's GOMP_CPU_AFFINITY, so that it keeps its cache.
But two programs that are bound to the same cores share them, whatever is free beside, and the workers of a DataLoader
inherit the one core of the thread that starts them (https://github.com/pytorch/pytorch/issues/101850). So nothing is
written here for it. The guide's OMP_SCHEDULE is for loops compiled with `schedule(runtime)`: PyTorch has none.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist
from torch.utils.data import Subset

from benchmarks.jobs.image_classification import RunResNet
from tipbench.tip.words import *

DEFAULT = min(available_cores(), psutil.cpu_count(logical=False) or available_cores())
"""Threads that PyTorch uses if nothing is set."""

CORES = max(2, DEFAULT)
"""Cores that instances share: where one core has two hardware threads, each of these counts as one."""

INSTANCES = tuple(sorted({CORES} | {count for count in (2, 4, 8, 16, 32) if CORES % count == 0}))
UNSET = ("OMP_NUM_THREADS",)


def threads(step: Step) -> int:
    step()
    return torch.get_num_threads()


def threads_and_bound(step: Step) -> str:
    used, tasks = threads(step), (int(task.name) for task in Path("/proc/self/task").iterdir())
    return f"{used}, {sum(len(os.sched_getaffinity(thread)) == 1 for thread in tasks)} bound"


def batches_and_threads(step: Step) -> list[int]:
    return [calls(step, "aten::linear"), torch.get_num_threads()]  # ResNet-18 has one linear layer


TIP = Tip(
    id="openmp-threads",
    title="Divide the cores among processes and threads",
    do=(
        f"OMP_NUM_THREADS=$(( {CORES} / {{instances}} )) python train.py  # to infer: start {{instances}} of these, "
        "number n (from 0) on data[n::{instances}]; of a server: uvicorn --workers {instances}"
    ),
    ways={"nothing_set": ""},
    when="many batches wait, each of them may take longer, and the model fits into memory several times",
    against="one process with a thread for every core, the default",
    guide=("A2.2",),
    claim=Claim.FASTER,
    called="an instance a core",
    one_of="threads",
    mechanism=changes("threads that share the work of an operation", threads),
    note=(
        "a process that is alone on a machine needs no OMP_NUM_THREADS: by default it uses all physical cores. A step "
        "is a batch for each core: with several instances one batch takes instances / cores of it"
    ),
    why_not="Large operations keep all cores busy in one process, and several share the same caches and memory.",
)

ONE = Way(env={"OMP_NUM_THREADS": "1"}, without=UNSET)
BOUND = Way(name="bound", env={"OMP_PROC_BIND": "close"})
BOUND_BY_GNU = Way(name="gnu_affinity", env={"GOMP_CPU_AFFINITY": " ".join(map(str, sorted(os.sched_getaffinity(0))))})


class SmallOperations(SettingsPair, ways=(ONE, BOUND, BOUND_BY_GNU)):
    """Operations just large enough that PyTorch uses threads: on one thread, or each thread on a core of its own."""

    needs = (cores(2),)
    sizes = Sizes(dict(operations=100, elements=40_000), test=dict(operations=3))
    mechanism = changes("threads that share the work, and how many may run on one core only", threads_and_bound)

    def build(self) -> Step:
        x = torch.randn(self.size["elements"])

        def step() -> torch.Tensor:
            y = x
            for _ in range(self.size["operations"]):
                y = y + x  # each operation waits for all threads to have ended the one before
            return y

        return step


class SharedCores(ProcessSettings):
    """A process for each instance, with its share of the cores as threads."""

    def filled(self, arguments: Mapping[str, Any]) -> ProcessSettings:
        instances = arguments["instances"]
        return ProcessSettings(env=(("OMP_NUM_THREADS", str(CORES // instances)),), ranks=instances)


class ResNetInference(RunResNet):
    """ResNet-18 run over JPEG files, loading included: as many batches as there are cores, shared among instances."""

    devices = ("cpu",)
    needs = (cores(2), torchvision())
    sizes = Sizes(dict(batch=4, pixels=224), test=dict(batch=1, pixels=32))
    mechanism = falls("batches that a process runs, and its threads", batches_and_threads)

    def step_of(self, job: Job) -> Step:
        """The share of one process. All batches are of the same photos, so that all processes return the same."""
        job.data = Subset(job.data, range(self.size["batch"]))
        batches = CORES // (dist.get_world_size() if dist.is_initialized() else 1)
        return lambda: [job.step() for _ in range(batches)][-1]

    @process_settings(without=UNSET)
    def baseline(self) -> Step:
        return self.applied(as_it_is)

    @sweep(instances=INSTANCES)
    @mark_builder(settings=SharedCores())
    def optimized(self, instances: int = CORES) -> Step:
        return self.applied(as_it_is)

    @variant
    @process_settings(ranks=INSTANCES[0], without=UNSET)
    def nothing_set(self) -> Step:
        """Several instances with a thread for every core each."""
        return self.applied(as_it_is)


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
        when="",
        do=f"torch.set_num_threads({DEFAULT})",
        switch=partial(on_threads, DEFAULT),
        mends=True,
    ),
    Way(name="one-thread", applies=on_several, when="", do="torch.set_num_threads(1)", switch=partial(on_threads, 1)),
)
