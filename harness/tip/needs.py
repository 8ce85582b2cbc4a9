"""What a pair or a variant needs of the machine, and what to do where that is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Unmet:
    """Why something cannot run here, and what a person can do about it."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class Need:
    """One thing that must be there.

    unmet: called with the device of a run, "cpu" or "cuda"; returns what is missing for it, or None.
    native: the library or program outside Python, such as "libjemalloc" or "numactl", that must be found besides.
    """

    text: str
    unmet: Callable[[str], Unmet | None]
    native: str = ""


def gpu(count: int = 1) -> Need:
    """`count` CUDA (or ROCm, which answers as CUDA) devices, and a run that is on them."""

    def unmet(device: str) -> Unmet | None:
        import torch

        # A driver that is too old for this torch still counts its cards.
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if found >= count:
            return None if device == "cuda" else Unmet(f"runs on cuda, not on {device}", "--device cuda")
        why = f"{found} found" if torch.version.cuda or torch.version.hip else "this torch was built without CUDA"
        other = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        if other and other.type != "cuda":
            why += f", and no pair is written for {other.type}"
        return Unmet(
            f"needs {count} CUDA GPU{'s' * (count > 1)}: {why}",
            f"run on a machine with {count} GPU{'s' * (count > 1)} and a CUDA build of torch",
        )

    return Need(f"{count} GPU{'s' * (count > 1)}", unmet)


def cpu() -> Need:
    """A run on the processor, for a variant that is the baseline once more on a GPU."""
    return Need(
        "CPU", lambda device: None if device == "cpu" else Unmet(f"runs on cpu, not on {device}", "--device cpu")
    )


def cores(count: int) -> Need:
    """`count` processor cores that this process may use."""

    def unmet(device: str) -> Unmet | None:
        found = available_cores()
        if found >= count:
            return None
        return Unmet(f"needs {count} cores: {found} available", "run on a larger machine, or widen the CPU affinity")

    return Need(f"{count} cores", unmet)


def available_cores() -> int:
    """Cores in this process's affinity mask; all cores where the platform has no mask."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiler() -> Need:
    """What torch.compile needs: on CPUs a C++ compiler, on GPUs Triton, cards it compiles for, and a C compiler."""

    def unmet(device: str) -> Unmet | None:
        if device == "cuda":
            return _triton_unmet()
        wanted = os.environ.get("CXX", "")
        if any(shutil.which(name) for name in (wanted, "g++", "c++", "clang++") if name):
            return None
        return Unmet("needs a C++ compiler: none of $CXX, g++, c++, clang++ found", "install g++ or clang++")

    return Need("C++ compiler", unmet)


def _triton_unmet() -> Unmet | None:
    import torch

    if not importlib.util.find_spec("triton"):
        return Unmet("needs Triton, which torch.compile uses on GPUs: it is not installed", "pip install triton")
    if torch.version.cuda and (older := _older_than((7, 0), "are what Triton compiles for")):
        return older
    if not any(shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "clang", "cc") if name):
        return Unmet("needs a C compiler for Triton: none of $CC, gcc, clang, cc found", "install gcc or clang")
    return None


def library(name: str) -> Need:
    """A native library that can be preloaded, such as "jemalloc"."""

    def unmet(device: str) -> Unmet | None:
        if sys.platform != "linux":
            return Unmet("LD_PRELOAD is tried on Linux only", "run on Linux")
        return None

    return Need(f"lib{name}", unmet, native=f"lib{name}")


def linux() -> Need:
    """The Linux kernel's /proc, which the mechanism is read from."""

    def unmet(device: str) -> Unmet | None:
        return None if sys.platform == "linux" else Unmet("reads /proc, which only Linux has", "run on Linux")

    return Need("Linux", unmet)


def numa_nodes(count: int) -> Need:
    """`count` NUMA nodes, and numactl to bind to one."""

    def unmet(device: str) -> Unmet | None:
        found = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
        if found < count:
            return Unmet(
                f"{found} NUMA node{'s' * (found != 1)}; needs {count}", "run on a machine with several sockets"
            )
        return None

    return Need(f"{count} NUMA nodes", unmet, native="numactl")


def bfloat16() -> Need:
    """Units that multiply bfloat16 numbers: of GPUs from compute capability 8.0 on, of CPUs AVX512-BF16 or AMX."""

    def unmet(device: str) -> Unmet | None:
        import torch

        if device == "cuda":
            return _older_than((8, 0), "multiply bfloat16")
        if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported():
            return None
        return Unmet("needs AVX512-BF16 or AMX, which multiply bfloat16", "run on a newer processor, or on a GPU")

    return Need("bfloat16 units", unmet)


def tf32() -> Need:
    """GPUs whose tensor cores take float32 numbers, rounded to TF32: NVIDIA's from compute capability 8.0 on."""
    return Need("TF32", lambda device: _older_than((8, 0), "round to TF32") if device == "cuda" else None)


def _older_than(lowest: tuple[int, int], what: str) -> Unmet | None:
    """What is missing where a GPU is of a lower compute capability. what: which those of it do."""
    import torch

    cards = range(torch.cuda.device_count())
    if all(torch.cuda.get_device_capability(card) >= lowest for card in cards):
        return None
    return Unmet(f"needs GPUs of compute capability {lowest[0]}.{lowest[1]}, which {what}", "run on newer GPUs")


def package(name: str) -> Need:
    """An importable Python package."""

    def unmet(device: str) -> Unmet | None:
        if importlib.util.find_spec(name):
            return None
        return Unmet(f"the Python package {name} is not installed", f"pip install {name}")

    return Need(name, unmet)


def torchvision() -> Need:
    """A torchvision that fits the installed torch.

    Its wheels for CUDA torch fail at import beside a CPU build ("operator torchvision::nms does not
    exist"), so being installed is not enough: it is imported.
    """

    def unmet(device: str) -> Unmet | None:
        try:
            import torchvision  # noqa: F401
        except Exception as error:  # a broken build raises RuntimeError, a missing one ImportError
            return Unmet(f"torchvision cannot be imported: {error}", "install the torchvision that fits this torch")
        return None

    return Need("torchvision", unmet)
