"""Let PyTorch ask the kernel for huge pages.

The kernel maps memory page by page, 4 KiB each, when a program first writes to it. With huge pages it maps 2 MiB at
once: one page fault in place of 512, and one entry of the processor's address cache. Where
/sys/kernel/mm/transparent_hugepage/enabled says `madvise`, as most distributions have it, a program must ask for them.
PyTorch asks, from 2.2 on, if THP_MEM_ALLOC_ENABLE is 1 when it first allocates memory: for each tensor of 2 MiB or
more on a CPU. NumPy asks without being set to.

Why people write the baseline: PyTorch does not ask by default, and few know the variable.

What to expect: a gain where glibc gives large tensors back to the kernel and gets fresh pages for the next ones, which
is above 32 MiB always, and below it at times: see the tip `allocator`. An allocator that keeps its memory saves the
same page faults without this; then little is left to gain. In the variant `by_glibc`, glibc (2.35 or later) asks for
all of its heap, small tensors included.

The price: a page of 2 MiB is zeroed whole, and counts as used whole. If no huge page is free, the kernel may stop the
program to move memory together (its setting `defrag`); what was asked for stays asked for after the tensor is gone.

`tipbench advise` does not try it: what it recommends has glibc keep its heap, and then these page faults are gone.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.cpu.allocator import THRESHOLDS
from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.sequences import TransformerReader, line_vectors, vectors
from tipbench.tip.words import *

KERNELS = Path("/sys/kernel/mm/transparent_hugepage/enabled")

AS_ROOT = f"as root: echo madvise > {KERNELS}"


def not_on_request(device: str) -> Reason | None:
    """Why a program that asks for huge pages runs like one that does not."""
    if not KERNELS.exists():
        return Reason("needs.own", detail="this kernel has no transparent huge pages", fix="take another kernel")
    if "[always]" in KERNELS.read_text():
        return Reason("needs.own", detail="the kernel gives every program huge pages already", fix=AS_ROOT)
    if "[never]" in KERNELS.read_text():
        return Reason("needs.own", detail="the kernel gives no program huge pages", fix=AS_ROOT)
    return None


def older_glibc(device: str) -> Reason | None:
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "another libc").partition(" ")
    if name == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35):
        return None
    return Reason("needs.own", detail=f"needs glibc 2.35: this is {name} {version}", fix="set THP_MEM_ALLOC_ENABLE=1")


class _Most(TorchDispatchMode):
    """The most memory of this process that lay in huge pages after any operation, in MiB."""

    mib = 0

    def __torch_dispatch__(self, operation: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        (kib,) = (int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))
        self.mib = max(self.mib, kib // 1024)
        return result


def huge_pages_and_faults(step: Step) -> list[float]:
    with _Most() as most:
        step()
    return [most.mib, page_faults(step)]


BY_PYTORCH = Way(
    do="THP_MEM_ALLOC_ENABLE=1 python train.py",
    env={"THP_MEM_ALLOC_ENABLE": "1"},
    without=THRESHOLDS,
)
BY_GLIBC = Way(
    name="by_glibc",
    do="GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python train.py",
    env={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
    needs=(Need("glibc 2.35", older_glibc),),
)

TIP = Tip(
    id="huge-pages",
    title="Let PyTorch use huge pages",
    do=BY_PYTORCH.do,
    ways={BY_GLIBC.name: BY_GLIBC.do},
    when="you use glibc's own allocator, and none of its `MALLOC_` thresholds is set",
    against="glibc's allocator and pages of 4 KiB, with nothing set",
    guide=("M25",),
    claim=Claim.FASTER,
    called="by PyTorch",
    mechanism=Mechanism(
        "MiB in huge pages at most, and page faults a step",
        huge_pages_and_faults,
        # How many pages are faulted depends on the heap's history as well; huge pages are there or not.
        lambda baseline, optimized: optimized[0] > baseline[0],
    ),
    published='"substantial improvement" where tensors are larger than 100 MB (PyTorch pull request 107697)',
    why_not="Where glibc has kept the memory of the step before, no page is faulted with pages of either size.",
)


class _HugePages(SettingsPair, ways=(BY_PYTORCH, BY_GLIBC)):
    """The same step, in processes that ask for huge pages or do not."""

    needs = (Need("huge pages on request", not_on_request),)


class Temporaries(_HugePages):
    """A formula of five operations, each with a temporary of 40 MB: above 32 MB glibc keeps none."""

    sizes = Sizes(dict(elements=10 * 2**20), test=dict(elements=2**20))

    def build(self) -> Step:
        x = torch.randn(self.size["elements"])
        return lambda: x * 0.5 * (1 + torch.erf(x / 1.41421))


class ResNetInference(_HugePages, RunResNet):
    """ResNet-18 run over JPEG files, loading included."""


class TransformerEpoch(_HugePages, MacroPair):
    """A small Transformer run over lines of text. Each batch is as long as its longest line, so sizes change."""

    task = "inference"
    sizes = Sizes(
        dict(lines=128, batch=32, layers=2, width=256),
        M=dict(lines=512, batch=64, layers=4, width=512),
        test=dict(lines=32, batch=32, layers=1, width=256),
    )

    def job(self) -> Job:
        return line_vectors(self.device, TransformerReader, **self.size)

    def step_of(self, job: Job) -> Step:
        return lambda: vectors(job)
