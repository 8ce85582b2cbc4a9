"""What this machine is, and what disturbs measurements on it now.

Every field is a value, or says why there is none: "unavailable" (this machine does not report it) or
"denied" (it does, but not to us); nothing is guessed. What is described here is stored and published,
so it holds nothing that names a person or one particular machine: no hostname, user, path, address,
serial number or GPU UUID.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from tipbench.machine.gpu import gpus
from tipbench.machine.limits import memory_bytes, quota_cores
from tipbench.machine.microarchitecture import identity, microarchitecture
from tipbench.machine.proc import DENIED, ROOT, UNAVAILABLE, read
from tipbench.machine.processor import caches, cpu_flags, cpu_model, governor, highest_mhz, turbo, virtual
from tipbench.tip.needs import available_cores
from tipbench.tip.wording import plain

GIB = 1 << 30


def describe(root: Path = ROOT) -> dict[str, Any]:
    """What this machine is, as plain JSON: its name, its "gpus" and `tipbench.machine.fields.MACHINE_FIELDS`.

    Takes about half a second; not to be called while timing.
    """
    processor = identity(root)
    machine = {
        "cpu": cpu_model(root),
        "microarchitecture": microarchitecture(processor, root),
        "family": processor.family,
        "model": processor.model,
        "stepping": processor.stepping,
        "cores": available_cores(),
        "physical_cores": psutil.cpu_count(logical=False) or UNAVAILABLE,
        "logical_cores": psutil.cpu_count() or UNAVAILABLE,
        "smt": read(root / "sys/devices/system/cpu/smt/control"),
        "quota_cores": quota_cores(root),
        "memory_bytes": memory_bytes(root),
        "caches": caches(root),
        "flags": cpu_flags(root),
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or UNAVAILABLE,
        "virtual": virtual(root),
        "gpus": gpus(),
        "os": _os_name(root),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip() or UNAVAILABLE,
        "governor": governor(root),
        "turbo": turbo(root),
        "cpu_max_mhz": highest_mhz("cpuinfo_max_freq", root),
        "cpu_limit_mhz": highest_mhz("scaling_max_freq", root),
        "swap_bytes": swap_bytes(),
        "transparent_huge_pages": _chosen(read(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "address_randomisation": read(root / "proc/sys/kernel/randomize_va_space"),
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "torchvision", "numpy", "triton")},
        "compiler": compiler_version(),
    }
    return {"name": name(machine), **machine}


def name(machine: Mapping[str, Any]) -> str:
    """A readable name made from the hardware: `amd-epyc-zen4-2c-24g`, `intel-xeon-8380-icelake-80c-512g-h200`.

    The same machine always gets the same name; like machines share one. Letters, digits and dashes. Virtual machines
    call their processors "AMD EPYC", whichever generation it is, so the microarchitecture is part of the name.

    machine: as `describe` gives it; fields may be missing.
    """
    words = [_cpu_slug(str(machine.get("cpu", UNAVAILABLE)), str(machine.get("architecture", "")))]
    generation = str(machine.get("microarchitecture", UNAVAILABLE))
    if generation not in (UNAVAILABLE, DENIED) and _slug(generation) not in words[0]:
        words.append(_slug(generation))
    # The cores that it has, or fewer where affinity or quota allow fewer.
    limits = [machine.get(key) for key in ("cores", "physical_cores", "quota_cores")]
    if cores := [limit for limit in limits if isinstance(limit, int | float)]:
        words.append(f"{max(1, int(min(cores)))}c")
    if isinstance(memory := machine.get("memory_bytes"), int | float):
        words.append(f"{_nominal_gib(memory)}g")
    if isinstance(cards := machine.get("gpus"), list) and cards:
        slug = _slug(re.sub(r"(?i)nvidia|geforce|tesla|quadro", " ", str(cards[0]["name"])))
        words.append(slug if len(cards) == 1 else f"{len(cards)}x-{slug}")
        if cards[0].get("mig") is True:  # an instance of a card is another machine than the whole of it
            words.append("mig")
    return "-".join(words)


def _cpu_slug(model: str, architecture: str) -> str:
    if model in (UNAVAILABLE, DENIED):
        return _slug(architecture) or "machine"
    plain = re.sub(r"\((r|tm|c)\)|®|™|@.*|\bwith\b.*|\b\S+-core\b", " ", model, flags=re.IGNORECASE)
    return _slug(re.sub(r"(?i)\b(cpu|processor)\b", " ", plain)) or "machine"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _nominal_gib(size: float) -> int:
    """GiB as the memory is sold: kernels keep a few percent, which differ by version, for themselves."""
    gib = size / GIB
    sold = sorted(factor << power for factor in (1, 3) for power in range(20))
    fitting = [step for step in sold if gib <= step <= 1.1 * gib]
    return fitting[0] if fitting else max(1, round(gib))


def swap_bytes() -> int | str:
    """Swap space, used or not."""
    try:
        return psutil.swap_memory().total
    except PermissionError:
        return DENIED
    except OSError:
        return UNAVAILABLE


def version(package: str) -> str:
    """The installed version, read without importing the package."""
    try:
        return importlib.metadata.version(package) or UNAVAILABLE  # None if its metadata are broken
    except importlib.metadata.PackageNotFoundError:
        return UNAVAILABLE


def compiler_version() -> str:
    """The C++ compiler torch.compile would use, with its version."""
    for program in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        if program and shutil.which(program):
            try:
                answer = subprocess.run([program, "--version"], capture_output=True, timeout=20, check=False)
            except (OSError, subprocess.SubprocessError):
                continue
            # The line starts with the program as it was called, which may be a path.
            first = plain(answer.stdout.decode(errors="replace").partition("\n")[0])
            return first.replace(program, Path(program).name) if first else Path(program).name
    return UNAVAILABLE


def _chosen(text: str) -> str:
    """Of "always [madvise] never" the word in brackets."""
    word = re.search(r"\[(\w+)\]", text)
    return word[1] if word else text


def _os_name(root: Path) -> str:
    pretty = re.search(r'^PRETTY_NAME="?([^"\n]+)', read(root / "etc/os-release"), re.MULTILINE)
    return pretty[1] if pretty else platform.system() or UNAVAILABLE
