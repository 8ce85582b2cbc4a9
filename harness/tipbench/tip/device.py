"""What torch has on this machine, for a run that has to choose a device."""

from __future__ import annotations

import resource
from dataclasses import dataclass


class NoDevice(Exception):
    """The device asked for is missing; the message says so, and what to do."""


@dataclass(frozen=True)
class Torch:
    """torch on this machine.

    Attributes:
        torch: its version.
        threads: its default number of threads.
        device: the device of the run, "cpu" or "cuda".
        keeps_heap: whether the memory of a tensor on the CPU, once freed, is used for the next one, without a page
            fault.
    """

    torch: str
    threads: int
    device: str
    keeps_heap: bool


def torch_here(device: str) -> Torch:
    """device: "cpu", "cuda" or "auto", which takes a GPU if there is one. Raises NoDevice."""
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "auto":
        device = "cuda" if has_gpu else "cpu"
    if device == "cuda" and not has_gpu:
        raise NoDevice("--device cuda: torch finds no CUDA GPU here; run `tipbench doctor`")
    faults = []
    # The first leaves room for the others, whatever small ones come between. They are larger than 32 MiB, above which
    # glibc gives every block back by itself. Mapped anew, one has 32 huge pages, or 16,384 others.
    for mib in (128, 64, 64, 64):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.full((mib << 20,), 1, dtype=torch.uint8)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return Torch(torch.__version__, torch.get_num_threads(), device, keeps_heap=min(faults) < 32 / 2)
