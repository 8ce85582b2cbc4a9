"""The processor: its name, microarchitecture, features, caches and clocks."""

from __future__ import annotations

import re
from pathlib import Path

from tipbench.machine.proc import DENIED, ROOT, UNAVAILABLE, read

_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve", "bf16")
"""Processor features that torch's kernels differ by, as Linux names them; the last three are Arm's."""


def cpu_model(root: Path = ROOT) -> str:
    """The processor's name. On x86 the kernel gives it; py-cpuinfo knows where else to look."""
    if named := re.search(r"^model name\s*:[ \t]*(\S.*?)\s*$", read(root / "proc/cpuinfo"), re.MULTILINE):
        return named[1]
    if root != ROOT:
        return UNAVAILABLE
    try:
        import cpuinfo  # slow: it starts a process and sleeps a second to see the clock rate

        return str(cpuinfo.get_cpu_info().get("brand_raw") or UNAVAILABLE)
    except Exception:  # it raises plain Exception for processors unknown to it
        return UNAVAILABLE


def cpu_flags(root: Path = ROOT) -> list[str] | str:
    """Which of `_FLAGS` the processor has."""
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", read(root / "proc/cpuinfo"), re.MULTILINE)
    if line is None:
        return UNAVAILABLE
    present = set(line[1].split())
    return [flag for flag in _FLAGS if flag in present]


def virtual(root: Path = ROOT) -> bool | str:
    """Whether a hypervisor runs this; only x86 processors say so."""
    line = re.search(r"^flags\s*:(.*)$", read(root / "proc/cpuinfo"), re.MULTILINE)
    return "hypervisor" in line[1].split() if line else UNAVAILABLE


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
    governors = {read(path) for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return "+".join(sorted(governors)) or UNAVAILABLE


def turbo(root: Path = ROOT) -> str:
    """Whether cores may run above their nominal clock: "on" or "off"."""
    cpu = root / "sys/devices/system/cpu"
    for path, on in ((cpu / "intel_pstate/no_turbo", "0"), (cpu / "cpufreq/boost", "1")):
        bit = read(path)
        if bit in ("0", "1"):
            return "on" if bit == on else "off"
        if bit == DENIED:
            return DENIED
    return UNAVAILABLE


def highest_mhz(file: str, root: Path = ROOT) -> float | str:
    """The highest clock of all cores that a file of their cpufreq folders holds, in kHz there."""
    texts = [read(path) for path in (root / "sys/devices/system/cpu").glob(f"cpu[0-9]*/cpufreq/{file}")]
    limits = [int(text) for text in texts if text.isdigit()]
    return max(limits) / 1000 if limits else DENIED if DENIED in texts else UNAVAILABLE
