"""The processor: its name, microarchitecture, features, caches and clocks."""

from __future__ import annotations

import re
from pathlib import Path

from tipbench.machine.proc import DENIED, ROOT, UNAVAILABLE, read

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve", "bf16")
"""Processor features that torch's kernels differ by, as Linux names them; the last three are Arm's."""


def cpu_model(root: Path = ROOT) -> str:
    """The processor's name. Linux on x86 gives it; elsewhere py-cpuinfo knows where to look."""
    for line in read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    if root != ROOT:
        return UNAVAILABLE
    try:
        import cpuinfo  # slow: it starts a process and sleeps a second to see the clock rate

        return str(cpuinfo.get_cpu_info().get("brand_raw") or UNAVAILABLE)
    except Exception:  # it raises plain Exception for processors unknown to it
        return UNAVAILABLE


def cpu_flags(root: Path = ROOT) -> list[str] | str:
    """Which of `FLAGS` the processor has."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", read(root / "proc/cpuinfo"), re.MULTILINE)
    if not found:
        return UNAVAILABLE
    present = set(found[1].split())
    return [flag for flag in FLAGS if flag in present]


def virtual(root: Path = ROOT) -> bool | str:
    """Whether a hypervisor runs this; only x86 processors say so."""
    found = re.search(r"^flags\s*:(.*)$", read(root / "proc/cpuinfo"), re.MULTILINE)
    return "hypervisor" in found[1].split() if found else UNAVAILABLE


def caches(root: Path = ROOT) -> dict[str, int] | str:
    """Bytes of the first core's caches: {"L1d": 32768, "L1i": ..., "L2": ..., "L3": ...}."""
    sizes = {}
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index[0-9]*")):
        size = re.fullmatch(r"(\d+)([KM]?)", read(folder / "size"))
        if size:
            kind = {"Data": "d", "Instruction": "i"}.get(read(folder / "type"), "")
            sizes[f"L{read(folder / 'level')}{kind}"] = int(size[1]) << {"": 0, "K": 10, "M": 20}[size[2]]
    return sizes or UNAVAILABLE


def governor(root: Path = ROOT) -> str:
    """The frequency governor; several, joined by "+", where cores differ."""
    found = {read(path) for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return "+".join(sorted(found)) or UNAVAILABLE


def turbo(root: Path = ROOT) -> str:
    """Whether cores may run above their nominal clock: "on" or "off"."""
    cpu = root / "sys/devices/system/cpu"
    for path, on in ((cpu / "intel_pstate/no_turbo", "0"), (cpu / "cpufreq/boost", "1")):
        found = read(path)
        if found in ("0", "1"):
            return "on" if found == on else "off"
        if found == DENIED:
            return DENIED
    return UNAVAILABLE


def highest_mhz(file: str, root: Path = ROOT) -> float | str:
    """The highest clock of all cores that a file of their cpufreq folders holds, in kHz there."""
    found = [read(path) for path in (root / "sys/devices/system/cpu").glob(f"cpu[0-9]*/cpufreq/{file}")]
    limits = [int(text) for text in found if text.isdigit()]
    return max(limits) / 1000 if limits else DENIED if DENIED in found else UNAVAILABLE
