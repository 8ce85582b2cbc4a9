"""The surroundings every worker gets, the same for both sides, and recorded with the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from harness import native
from harness.launch import Surroundings

HEAP_KEPT = str(1 << 34)
"""16 GiB, above any tensor here. glibc otherwise lands, by heap layout, in a mode that faults fresh
pages at every large temporary or in one that does not; the two differ by up to 2.5x. Both thresholds
must be raised: setting one alone turns off glibc's own adjustment and makes it worse."""

FOREIGN = (
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "TORCH",
    "PYTORCH_",
    "PYTHONHASHSEED",
)
"""Variables by these prefixes change what is measured; a person's shell must not decide that unseen."""

NEEDED = ("TORCHINDUCTOR_CXX", "TORCH_HOME")


def controls(threads: int) -> dict[str, str]:
    """What is set for every worker; `threads` is torch's own default here, made explicit."""
    heap = {"MALLOC_TRIM_THRESHOLD_": HEAP_KEPT, "MALLOC_MMAP_THRESHOLD_": HEAP_KEPT} if sys.platform == "linux" else {}
    return {**heap, "OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": "0"}


def environment(controlled: Mapping[str, str], surroundings: Surroundings, nodes: int = 1) -> dict[str, str]:
    """The variables a worker starts with: the caller's without the foreign ones, controls, its own.

    With no controls (`--bare`) the caller's variables are left alone. Ranks of one node share its threads:
    all of them for each rank would measure how they wait for one another. nodes: how many the ranks are
    spread over.
    """
    env = cleaned() if controlled else callers()
    env.update((name, value) for name, value in controlled.items() if name not in surroundings.without)
    if surroundings.ranks > 1 and "OMP_NUM_THREADS" in controlled:
        env["OMP_NUM_THREADS"] = str(max(1, int(controlled["OMP_NUM_THREADS"]) * nodes // surroundings.ranks))
    env.update(surroundings.env)
    libraries = [str(native.find(name) or name) for name in surroundings.preload]
    if libraries:
        env["LD_PRELOAD"] = ":".join(libraries)
    return env


def cleaned() -> dict[str, str]:
    """The caller's variables without the foreign ones: torch then shows its own defaults."""
    return {name: value for name, value in callers().items() if name in NEEDED or not name.startswith(FOREIGN)}


def callers() -> dict[str, str]:
    """The caller's variables, with this checkout importable by the processes started from it."""
    home = str(Path(__file__).parent.parent)
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
