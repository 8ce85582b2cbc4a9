"""Start a job with PyTorch's launcher for CPUs.

`python -m torch.backends.xeon.run_cpu train.py` sets at once what other tips set one by one: as many threads as there
are physical cores, the process bound to these (numactl, or taskset where that is refused), Intel's OpenMP runtime with
a core for each thread (`libiomp`), and tcmalloc or jemalloc (`allocator`). It can also start several such processes, a
NUMA node each (`numa`).

Why people write the baseline: `python train.py` is how a program is started.

What to expect: what the two libraries bring, and nothing without them. The launcher looks for libtcmalloc.so and
libiomp5.so by exactly these names, and only in lib/ of an activated environment (CONDA_PREFIX, VIRTUAL_ENV), of
~/.local, of /usr and of /usr/local, so not where Debian puts them. What it does not find, it leaves out with a warning.
A setting that is there before stays.

When not: in a container that may use some cores only. The launcher counts those of the whole machine, and binds to
them. It also takes the numbers of cores for those of processors, which is wrong where a core's two hardware threads
are numbered side by side: then all threads share half of the cores.

The price: KMP_AFFINITY binds the main thread to one core, and processes that it starts are bound as it is. Intel's
runtime undoes that after a fork, but not where a DataLoader's workers are spawned or come from a fork server, which is
the default from Python 3.14 on: then all of them share the first core. `KMP_AFFINITY=none` before the line
prevents it. The launcher also writes `[run0]:` before every line that the job prints.
"""

import os
import shutil
from functools import partial

import psutil

from benchmarks.cpu.allocator import LAUNCHER, THRESHOLDS, allocator_in_use
from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import RunEncoder, TrainGPT
from tipbench.tip.words import *

CORES = psutil.cpu_count(logical=False) or available_cores()
THREADS = {"KMP_AFFINITY": "granularity=fine,compact,1,0", "KMP_BLOCKTIME": "1", "OMP_NUM_THREADS": str(CORES)}
BOUND = ("taskset", "-c", f"0-{CORES - 1}")
"""What the launcher sets for a single process, as its own run shows: see tests/test_do_in_shell.py."""


def no_taskset(device: str) -> Reason | None:
    return None if shutil.which("taskset") else Reason("needs.own", detail="no taskset here", fix="install util-linux")


def libraries_and_cores(step: Step) -> list[str | int]:
    step()
    # PyTorch's own libgomp stays mapped beside a preloaded libiomp5, and is not used any more.
    runtime = mapped_library(("libiomp5", "libgomp")) or "another"
    return [allocator_in_use(), runtime, len(os.sched_getaffinity(0))]


def all_three_changed(baseline: list[str | int], optimized: list[str | int]) -> bool:
    return all(before != after for before, after in zip(baseline, optimized, strict=True))


launched = partial(Way, prefix=BOUND, without=THRESHOLDS)
WITH_TCMALLOC = launched(
    do=(
        "python -m torch.backends.xeon.run_cpu --enable-tcmalloc train.py"
        "  # first, in an activated environment: conda install -c conda-forge gperftools; pip install intel-openmp. "
        "It misses, with a warning, what apt installed: LD_PRELOAD=libtcmalloc_minimal.so.4 python train.py. "
        "It undoes taskset, and ends with status 0 even if train.py fails"
    ),
    preload=("iomp5", "tcmalloc"),
    env=THREADS,
)
WITH_JEMALLOC = launched(
    name="jemalloc",
    do=(
        "python -m torch.backends.xeon.run_cpu --enable-jemalloc train.py"
        "  # first, in an activated environment: conda install -c conda-forge jemalloc; pip install intel-openmp. "
        "It misses, with a warning, what apt installed: LD_PRELOAD=libjemalloc.so.2 python train.py. "
        "It undoes taskset, and ends with status 0 even if train.py fails"
    ),
    preload=("iomp5", "jemalloc"),
    env={**THREADS, "MALLOC_CONF": LAUNCHER},
)

TIP = Tip(
    id="launcher",
    title="Start a job with PyTorch's CPU launcher",
    do=WITH_TCMALLOC.do,
    ways={WITH_JEMALLOC.name: WITH_JEMALLOC.do},
    against="`python train.py`: GNU's OpenMP runtime, and glibc's allocator with nothing set",
    guide=("M24",),
    when="glibc has nothing set so far, the machine is yours alone, exit status is unused, and it starts no threads",
    claim=Claim.FASTER,
    called="with tcmalloc",
    mechanism=Mechanism(
        "allocator, OpenMP runtime, and cores that the main thread may use", libraries_and_cores, all_three_changed
    ),
    note=(
        "threads and programs that yours starts, and a DataLoader's workers that are not forked, as from Python 3.14 "
        "on, share the first core: set KMP_AFFINITY=none before the line"
    ),
    why_not=(
        "Where there are two threads, these wait little for each other with either OpenMP runtime, and what is left "
        "is what the allocator brings."
    ),
)


class _Launched(SettingsPair, ways=(WITH_TCMALLOC, WITH_JEMALLOC)):
    """The same step, in a process that was just started and in one that has what the launcher sets."""

    needs = (cores(2), library("iomp5"), Need("taskset", no_taskset))


class ResNetInference(_Launched, RunResNet):
    """ResNet-18 run over JPEG files, loading included."""


class EncoderInference(_Launched, RunEncoder):
    """A TransformerEncoder run over text."""


class GPTTraining(_Launched, TrainGPT):
    """A GPT trained on text."""
