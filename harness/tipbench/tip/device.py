"""What torch has on this machine, for a run that has to choose a device."""

from __future__ import annotations

import resource
from typing import Any


def torch_here(device: str) -> dict[str, Any]:
    """What `tipbench.suite.discover.Discovery` has of torch; or why the device is "unusable".

    device: "cpu", "cuda" or "auto", which takes a GPU if there is one.
    """
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        return {"unusable": "--device cuda: torch finds no CUDA GPU here; run `tipbench doctor`"}
    faults = []
    # The first leaves room for the others, whatever small ones come between. They are larger than 32 MiB, above which
    # glibc gives every block back by itself. Mapped anew, one has 32 huge pages, or 16,384 others.
    for mib in (128, 64, 64, 64):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.full((mib << 20,), 1, dtype=torch.uint8)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": "cuda" if has_gpu and device != "cpu" else "cpu",
        "keeps_heap": min(faults) < 32 / 2,
    }
