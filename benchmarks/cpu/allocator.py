"""Use jemalloc or tcmalloc instead of glibc's allocator, or have glibc's fault fewer pages.

Every operation on a CPU asks for memory for its result and gives it back soon. glibc returns large
blocks to the kernel; the next operation gets fresh pages, which the kernel must zero and map in one by
one: page faults. jemalloc and tcmalloc keep what was given back, for a while at least.

Why people write the baseline: glibc's allocator is what a program gets.

What to expect: the more, the more of the time is page faults: large temporaries, many of them. The guide preloads
jemalloc and sets nothing, which is the variant `jemalloc_bare`. PyTorch's own launcher (`python -m
torch.backends.xeon.run_cpu --enable-jemalloc`) sets MALLOC_CONF as well, and that is what is judged. With neither does
jemalloc 5.3.0 keep blocks of 8 MB and more, or smaller ones that lie side by side and are as large together: it gives
them back at once, and gains nothing on them. `jemalloc_keeping` sets it to keep them for ever. glibc can be set so by
two environment variables and without a library: that is `glibc_keeping`. (Both must be set: one alone turns off glibc's
own adjustment and makes it worse. MALLOC_MMAP_THRESHOLD_, often named in place of the second, is refused silently by
glibc up to 2.34 if it is above 32 MiB.)

`huge_pages` leaves glibc as it is, and has PyTorch (2.2 and later) ask for pages of 2 MiB in place of 4 KiB for each
tensor of 2 MiB or more: one fault in place of 512. An allocator that keeps its memory saves the same faults, and then
little is left to gain. A page of 2 MiB is zeroed whole and counts as used whole; if none is free, the kernel may stop
the program to move memory together (its setting `defrag`).

The harness sets the variables of `glibc_keeping` for all other pairs, so here the baseline runs without them: what that
way brings is what all others have been spared.
"""

import ctypes
import os
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.jobs.image_classification import RunResNet, image_inference
from benchmarks.jobs.sequences import RunReader
from tipbench.tip.words import *

LAUNCHER = "oversize_threshold:1,background_thread:true,metadata_thp:auto"
"""MALLOC_CONF as torch.backends.xeon.run_cpu sets it."""
KEEP_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(2**34), "MALLOC_MMAP_MAX_": "0"}
THRESHOLDS = tuple(KEEP_HEAP)
ASK_FOR_HUGE = {"THP_MEM_ALLOC_ENABLE": "1"}


def allocator_in_use() -> str:
    """Not what is mapped: a shell may preload another one, which the variant's own comes before."""
    library = library_of("malloc")
    return next((name for name in ("jemalloc", "tcmalloc") if name in library), "glibc")


def allocator_and_faults(step: Step) -> str:
    allocator = allocator_in_use()
    settings = jemalloc_settings() if allocator == "jemalloc" else ""
    for name, env in (("keeping", KEEP_HEAP), ("with huge pages", ASK_FOR_HUGE)):
        if allocator == "glibc" and env.items() <= os.environ.items():
            settings = f" {name}"
    return f"{allocator}{settings}: {page_faults(step):.0f}"


def jemalloc_settings() -> str:
    """What the jemalloc of this process does with blocks that are given back, by its own answer."""
    no_block_is_oversize = jemalloc_answers("opt.oversize_threshold", ctypes.c_size_t()) == 0
    purges_beside = jemalloc_answers("opt.background_thread", ctypes.c_bool())
    keeps_for_ever = jemalloc_answers("opt.dirty_decay_ms", ctypes.c_ssize_t()) == -1
    as_launched = " as PyTorch's launcher sets it" if no_block_is_oversize and purges_beside else ""
    return as_launched + (" keeping" if keeps_for_ever else "")


def jemalloc_answers(setting: str, value: Any) -> Any:
    size = ctypes.c_size_t(ctypes.sizeof(value))
    try:
        ask = ctypes.CDLL(None).mallctl
    except AttributeError:  # built with a prefix for its names
        raise Unseen("this jemalloc cannot be asked for its settings") from None
    ask(setting.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return value.value


def other_allocator(baseline: str, optimized: str) -> bool:
    """The page faults are worth reading, but differ a little from run to run; the allocator does not."""
    return baseline.partition(":")[0] != optimized.partition(":")[0]


def no_huge_pages_on_request(device: str) -> Reason | None:
    """Why a program that asks for huge pages runs like one that does not."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    now = setting.read_text() if setting.exists() else "[never]"
    if "[madvise]" in now:
        return None
    gives = "every program huge pages already" if "[always]" in now else "no program huge pages"
    return Reason("needs.own", detail=f"the kernel gives {gives}", fix=f"as root: echo madvise > {setting}")


allocator = partial(Way, without=THRESHOLDS, devices=("cpu",))
JEMALLOC = allocator(
    do=(
        "LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=oversize_threshold:1,background_thread:true,metadata_thp:auto python "
        "train.py  # Debian: libjemalloc2"
    ),
    preload=("jemalloc",),
    env={"MALLOC_CONF": LAUNCHER},
)
JEMALLOC_BARE = allocator(name="jemalloc_bare", preload=("jemalloc",))
JEMALLOC_KEEPING = allocator(
    name="jemalloc_keeping",
    do=(
        "LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1 "
        "python train.py  # keeps what was freed for ever; Debian: libjemalloc2"
    ),
    preload=("jemalloc",),
    env={"MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1"},
)
TCMALLOC = allocator(
    name="tcmalloc",
    do="LD_PRELOAD=libtcmalloc_minimal.so.4 python train.py  # Debian: libtcmalloc-minimal4",
    preload=("tcmalloc",),
)
GLIBC_KEEPING = allocator(
    name="glibc_keeping",
    do=(
        "MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_MMAP_MAX_=0 python train.py"
        "  # gives no memory back, and can grow at each step that keeps a small tensor, such as a loss"
    ),
    env=KEEP_HEAP,
)
HUGE_PAGES = allocator(
    name="huge_pages",
    do="THP_MEM_ALLOC_ENABLE=1 python train.py  # with glibc's allocator, and none of its MALLOC_ thresholds set",
    env=ASK_FOR_HUGE,
    needs=(Need("huge pages on request", no_huge_pages_on_request),),
)
WAYS = JEMALLOC, JEMALLOC_BARE, JEMALLOC_KEEPING, TCMALLOC, GLIBC_KEEPING, HUGE_PAGES

TIP = Tip(
    id="allocator",
    title="Use another memory allocator",
    do=JEMALLOC.do,
    ways={way.name: way.do for way in WAYS[1:]},
    when="memory is ample, as none is given back",
    against="glibc, with nothing set",
    guide=("A2.4", "M25"),
    claim=Claim.FASTER,
    called="jemalloc as PyTorch's launcher sets it",
    one_of="allocator",
    mechanism=Mechanism("allocator in use, and page faults a step", allocator_and_faults, other_allocator),
    published="ResNet-50, batch 32: 304 -> 262 ms; TorchServe 2.2x (PyTorch Performance Tuning Guide)",
    note=(
        "jemalloc gives blocks of 8 MB and more back at once, also as PyTorch's launcher sets it: set "
        "dirty_decay_ms:-1 as well"
    ),
    why_not=(
        "A library that gives large blocks back to the kernel at once saves no page fault: glibc does, and so does "
        "jemalloc where it is not set to keep them."
    ),
)


class Temporaries(SettingsPair, ways=WAYS):
    """A formula of five operations, each with a temporary of 40 MB.

    Up to 32 MB glibc adjusts itself to what it has seen, and the result depends on the heap's history.
    """

    sizes = Sizes(dict(elements=10 * 2**20), test=dict(elements=1000))

    def build(self) -> Step:
        x = torch.randn(self.size["elements"])
        return lambda: x * 0.5 * (1 + torch.erf(x / 1.41421))


class ResNet50Inference(SettingsPair, RunResNet, ways=WAYS):
    """ResNet-50, the guide's own example, run over JPEG files, loading included."""

    sizes = Sizes(dict(batch=4, pixels=224), M=dict(batch=32), test=dict(batch=1, pixels=32))

    def job(self) -> Job:
        return image_inference(self.device, model="resnet50", **self.size)


class TransformerEpoch(SettingsPair, RunReader, ways=WAYS):
    """A small Transformer run over lines of text. Each batch is as long as its longest line, so sizes change."""

    sizes = Sizes(
        dict(lines=128, batch=32, layers=2, width=256),
        M=dict(lines=512, batch=64, layers=4, width=512),
        test=dict(lines=16, batch=4, layers=1, width=16),
    )


ON_ANY_JOB = JEMALLOC, TCMALLOC, GLIBC_KEEPING
