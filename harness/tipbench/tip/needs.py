"""What a pair or a variant needs of the machine, and what to do if it is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tipbench.tip.reason import Reason


@dataclass(frozen=True)
class Need:
    """One thing that must be there.

    Attributes:
        text: what it is, as lists show it.
        unmet: takes the device of a run, "cpu" or "cuda"; why it cannot run on it, or None. The reason's code is
            "needs.own", with a `detail` and a `fix`, for a need that the suite itself does not have.
        native: the library or program outside Python, such as "libjemalloc" or "numactl", that must exist as well.
    """

    text: str
    unmet: Callable[[str], Reason | None]
    native: str = ""


def gpu(count: int = 1) -> Need:
    """`count` CUDA (or ROCm, which answers as CUDA) devices, and a run that is on them."""

    def unmet(device: str) -> Reason | None:
        import torch

        # A driver that is too old for this torch still counts its cards.
        usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if usable >= count:
            return None if device == "cuda" else other_device(("cuda",), device)
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        foreign = accelerator is not None and accelerator.type != "cuda"
        more = f", and no pair is written for {accelerator.type}" if accelerator and foreign else ""
        if not torch.version.cuda and not torch.version.hip:
            return Reason("needs.cuda", {"wanted": count}, more)
        return Reason("needs.gpus", {"wanted": count, "found": usable}, more)

    return Need(f"{count} GPU{'s' * (count > 1)}", unmet)


def cpu() -> Need:
    """A run on the processor, for a variant that is the baseline once more on a GPU."""
    return Need("CPU", lambda device: None if device == "cpu" else other_device(("cpu",), device))


def other_device(devices: Sequence[str], device: str) -> Reason:
    """Why what runs on `devices` does not run on `device`."""
    return Reason("needs.device", {"devices": " or ".join(devices), "device": device, "other": devices[0]})


def cores(count: int) -> Need:
    """`count` processor cores that this process may use."""

    def unmet(device: str) -> Reason | None:
        available = available_cores()
        return None if available >= count else Reason("needs.cores", {"wanted": count, "found": available})

    return Need(f"{count} cores", unmet)


def available_cores() -> int:
    """Cores in this process's affinity mask."""
    return len(os.sched_getaffinity(0))


def compiler() -> Need:
    """What torch.compile needs: on CPUs a C++ compiler, on GPUs Triton, cards it compiles for, and a C compiler."""

    def unmet(device: str) -> Reason | None:
        if device == "cuda":
            return _triton_unmet()
        if any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++") if name):
            return None
        return Reason("needs.c++-compiler")

    return Need("C++ compiler", unmet)


def _triton_unmet() -> Reason | None:
    import torch

    if not find_spec("triton"):
        return Reason("needs.triton")
    if torch.version.cuda and _older_than((7, 0)):
        return Reason("needs.triton-gpu")
    if not any(shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "clang", "cc") if name):
        return Reason("needs.c-compiler")
    return None


def library(name: str) -> Need:
    """A native library that can be preloaded, such as "jemalloc"."""

    return Need(f"lib{name}", lambda device: None, native=f"lib{name}")


def numa_nodes(count: int) -> Need:
    """`count` NUMA nodes, and numactl to bind to one."""

    def unmet(device: str) -> Reason | None:
        nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
        return None if nodes >= count else Reason("needs.numa-nodes", {"found": nodes, "wanted": count})

    return Need(f"{count} NUMA nodes", unmet, native="numactl")


def bfloat16() -> Need:
    """Units that multiply bfloat16 numbers: of GPUs from compute capability 8.0 on, of CPUs AVX512-BF16 or AMX."""

    def unmet(device: str) -> Reason | None:
        if device == "cuda":
            return Reason("needs.bfloat16-gpu") if _older_than((8, 0)) else None
        return _unless_cpu_has("needs.bfloat16-cpu", "avx512_bf16", "amx_tile")

    return Need("bfloat16 units", unmet)


def _unless_cpu_has(code: str, *features: str) -> Reason | None:
    """The reason with this code where the CPU has none of these features, as `torch.cpu` names them."""
    import torch

    has_one = any(getattr(torch.cpu, f"_is_{feature}_supported")() for feature in features)
    return None if has_one else Reason(code)


def amx() -> Need:
    """A CPU with AMX, without which oneDNN multiplies float32 numbers as such, whatever it is allowed to do."""
    return Need("AMX", lambda device: _unless_cpu_has("needs.amx", "amx_tile"))


def int8() -> Need:
    """A CPU that multiplies integers of 8 bits and adds up in 32. Without AVX512-VNNI or AMX sums may overflow."""
    return Need("AVX512-VNNI or AMX", lambda device: _unless_cpu_has("needs.int8-cpu", "vnni", "amx_tile"))


def tf32() -> Need:
    """GPUs whose tensor cores take float32 numbers, rounded to TF32: NVIDIA's from compute capability 8.0 on."""
    return Need("TF32", lambda device: Reason("needs.tf32-gpu") if device == "cuda" and _older_than((8, 0)) else None)


def float8_units() -> Need:
    """GPUs that multiply numbers of 8 bits: NVIDIA's from compute capability 8.9 on."""
    return Need("float8 units", lambda device: Reason("needs.float8-gpu") if _older_than((8, 9)) else None)


def _older_than(lowest: tuple[int, int]) -> bool:
    """Whether a GPU here is of a lower compute capability."""
    import torch

    cards = range(torch.cuda.device_count())
    return any(torch.cuda.get_device_capability(card) < lowest for card in cards)


def torch_from(major: int, minor: int) -> Need:
    """This version of torch, or a later one."""
    wanted = f"{major}.{minor}"

    def unmet(device: str) -> Reason | None:
        import torch

        here = tuple(map(int, torch.__version__.split(".")[:2]))
        return None if here >= (major, minor) else Reason("needs.torch", {"wanted": wanted})

    return Need(f"torch {wanted}", unmet)


def torchao() -> Need:
    """torchao, which quantizes: an extra of this package."""
    return Need("torchao", lambda device: None if find_spec("torchao") else Reason("needs.torchao"))


def torchvision() -> Need:
    """A torchvision that fits the installed torch.

    Its wheels for CUDA torch fail at import beside a CPU build ("operator torchvision::nms does not
    exist"), so being installed is not enough: it is imported.
    """

    def unmet(device: str) -> Reason | None:
        try:
            import torchvision  # noqa: F401
        except Exception as error:  # a broken build raises RuntimeError, a missing one ImportError
            return Reason("needs.torchvision", detail=f": {error}")
        return None

    return Need("torchvision", unmet)
