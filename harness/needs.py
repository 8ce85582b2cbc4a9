"""What a pair or a variant needs of the machine, and what to do where that is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import native


@dataclass(frozen=True)
class Unmet:
    """Why something cannot run here, and what a person can do about it."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class Need:
    """One thing that must be there; `unmet()` says what is missing, or None."""

    text: str
    unmet: Callable[[], Unmet | None]


def gpu(count: int = 1) -> Need:
    """`count` CUDA (or ROCm, which answers as CUDA) devices."""

    def unmet() -> Unmet | None:
        import torch

        found = torch.cuda.device_count()
        if found >= count:
            return None
        why = f"{found} found" if torch.version.cuda or torch.version.hip else "this torch was built without CUDA"
        other = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        if other and other.type != "cuda":
            why += f", and no pair is written for {other.type}"
        return Unmet(
            f"needs {count} CUDA GPU{'s' * (count > 1)}: {why}",
            f"run on a machine with {count} GPU{'s' * (count > 1)} and a CUDA build of torch",
        )

    return Need(f"{count} GPU{'s' * (count > 1)}", unmet)


def cores(count: int) -> Need:
    """`count` processor cores that this process may use."""

    def unmet() -> Unmet | None:
        found = available_cores()
        if found >= count:
            return None
        return Unmet(f"needs {count} cores: {found} available", "run on a larger machine, or widen the CPU affinity")

    return Need(f"{count} cores", unmet)


def available_cores() -> int:
    """Cores in this process's affinity mask; all cores where the platform has no mask."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiler() -> Need:
    """A C++ compiler, which torch.compile uses on CPUs."""

    def unmet() -> Unmet | None:
        wanted = os.environ.get("CXX", "")
        if any(shutil.which(name) for name in (wanted, "g++", "c++", "clang++") if name):
            return None
        return Unmet("needs a C++ compiler: none of $CXX, g++, c++, clang++ found", "install g++ or clang++")

    return Need("C++ compiler", unmet)


def library(name: str) -> Need:
    """A native library that can be preloaded, such as "jemalloc"."""

    def unmet() -> Unmet | None:
        if sys.platform != "linux":
            return Unmet("LD_PRELOAD is tried on Linux only", "run on Linux")
        if native.find(name):
            return None
        return Unmet(f"lib{name} not found", "run `make native`")

    return Need(f"lib{name}", unmet)


def linux() -> Need:
    """The Linux kernel's /proc, which the mechanism is read from."""

    def unmet() -> Unmet | None:
        return None if sys.platform == "linux" else Unmet("reads /proc, which only Linux has", "run on Linux")

    return Need("Linux", unmet)


def numa_nodes(count: int) -> Need:
    """`count` NUMA nodes, and numactl to bind to one."""

    def unmet() -> Unmet | None:
        found = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
        if found < count:
            return Unmet(
                f"{found} NUMA node{'s' * (found != 1)}; needs {count}", "run on a machine with several sockets"
            )
        if not native.find("numactl"):
            return Unmet("numactl not found", "run `make native`")
        return None

    return Need(f"{count} NUMA nodes", unmet)


def bfloat16() -> Need:
    """Units that multiply bfloat16 numbers: a GPU from compute capability 8.0 on, or AVX512-BF16 or AMX on a CPU."""

    def unmet() -> Unmet | None:
        import torch

        if torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0):
            return None
        if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported():
            return None
        return Unmet(
            "needs units for bfloat16: neither a GPU of compute capability 8.0 nor AVX512-BF16 or AMX found",
            "run on a newer GPU or processor",
        )

    return Need("bfloat16 units", unmet)


def package(name: str) -> Need:
    """An importable Python package."""

    def unmet() -> Unmet | None:
        if importlib.util.find_spec(name):
            return None
        return Unmet(f"the Python package {name} is not installed", f"pip install {name}")

    return Need(name, unmet)


def torchvision() -> Need:
    """A torchvision that fits the installed torch.

    Its wheels for CUDA torch fail at import beside a CPU build ("operator torchvision::nms does not
    exist"), so being installed is not enough: it is imported.
    """

    def unmet() -> Unmet | None:
        try:
            import torchvision  # noqa: F401
        except Exception as error:  # a broken build raises RuntimeError, a missing one ImportError
            return Unmet(f"torchvision cannot be imported: {error}", "install the torchvision that fits this torch")
        return None

    return Need("torchvision", unmet)
