"""Which generation a processor is of: virtual machines call Zen 4 and Zen 5 alike "AMD EPYC".

x86 processors are known by family and model. archspec, which knows the others, goes by the features that a processor
shows, and hypervisors hide some: on a virtual machine with Zen 4 it finds x86_64_v4, as `pku` is missing there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tipbench.machine.proc import ROOT, UNAVAILABLE, read

AMD = {
    0x17: {
        **dict.fromkeys((*range(0x00, 0x30), *range(0x50, 0x60)), "zen"),
        **dict.fromkeys((*range(0x30, 0x50), *range(0x60, 0x80), 0x90, 0x91, *range(0xA0, 0xB0)), "zen2"),
    },
    0x19: {
        **dict.fromkeys((*range(0x00, 0x10), *range(0x20, 0x60)), "zen3"),
        **dict.fromkeys((*range(0x10, 0x20), *range(0x60, 0xB0)), "zen4"),
    },
    0x1A: dict.fromkeys((*range(0x00, 0x30), *range(0x40, 0x50), *range(0x60, 0x80)), "zen5"),
}
"""Names by family and model, after arch/x86/kernel/cpu/amd.c of Linux."""

INTEL = {
    **dict.fromkeys((0x3C, 0x3F, 0x45, 0x46), "haswell"),
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), "broadwell"),
    **dict.fromkeys((0x4E, 0x5E), "skylake"),
    **dict.fromkeys((0x8E, 0x9E), "kabylake"),
    **dict.fromkeys((0xA5, 0xA6), "cometlake"),
    **dict.fromkeys((0x6A, 0x6C, 0x7D, 0x7E), "icelake"),
    **dict.fromkeys((0x8C, 0x8D), "tigerlake"),
    **dict.fromkeys((0x97, 0x9A), "alderlake"),
    **dict.fromkeys((0xB7, 0xBA, 0xBF), "raptorlake"),
    **dict.fromkeys((0xAA, 0xAC), "meteorlake"),
    **dict.fromkeys((0xC5, 0xC6), "arrowlake"),
    **dict.fromkeys((0xAD, 0xAE), "graniterapids"),
    0x8F: "sapphirerapids",
    0xCF: "emeraldrapids",
    0xAF: "sierraforest",
    0xA7: "rocketlake",
    0xBD: "lunarlake",
}
"""By model of Intel's family 6, after arch/x86/include/asm/intel-family.h of Linux."""


WITH_AMX = ("sapphirerapids", "emeraldrapids", "graniterapids")

XEONS = {"cooperlake": 10, "cascadelake": 5, "skylake_avx512": 0}
"""Three generations of servers that are all Intel's model 0x55, with the first stepping of each, newest first."""


@dataclass(frozen=True)
class Identity:
    """The numbers that identify an x86 processor; "unavailable" on others.

    Attributes:
        vendor: such as "AuthenticAMD".
        family: its family's number.
        model: its model's number.
        stepping: its stepping's number.
    """

    vendor: str = UNAVAILABLE
    family: int | str = UNAVAILABLE
    model: int | str = UNAVAILABLE
    stepping: int | str = UNAVAILABLE


def identity(root: Path = ROOT) -> Identity:
    """Of the first processor in /proc/cpuinfo."""
    first = read(root / "proc/cpuinfo").partition("\n\n")[0]
    fields = dict(re.findall(r"^(vendor_id|cpu family|model|stepping)[ \t]*: *(\S+)$", first, re.MULTILINE))
    numbers = [fields.get(key, "") for key in ("cpu family", "model", "stepping")]
    if not all(number.isdigit() for number in numbers):
        return Identity()
    return Identity(fields.get("vendor_id", UNAVAILABLE), *map(int, numbers))


def microarchitecture(processor: Identity, root: Path = ROOT) -> str:
    """As archspec names it, such as "zen4", "icelake" or "neoverse_v2".

    An x86 processor that is not in these tables, because it is newer for example, is "f27m3": family 27, model 3.
    """
    if isinstance(processor.family, int) and isinstance(processor.model, int):
        name = _x86(processor)
        # Of an Intel Xeon with AMX a hypervisor showed the model number of Rocket Lake, which has none.
        is_plausible = name in WITH_AMX or " amx_tile" not in read(root / "proc/cpuinfo")
        return name if name and is_plausible else f"f{processor.family}m{processor.model}"
    if root != ROOT:
        return UNAVAILABLE
    import archspec.cpu

    host = archspec.cpu.host()
    return UNAVAILABLE if host.vendor == "generic" else host.name


def _x86(processor: Identity) -> str:
    family, model, stepping = (int(number) for number in (processor.family, processor.model, processor.stepping))
    if processor.vendor == "AuthenticAMD":
        return AMD.get(family, {}).get(model, "")
    if processor.vendor != "GenuineIntel" or family != 6:
        return ""
    if model == 0x55:
        return next(name for name, first in XEONS.items() if stepping >= first)
    return INTEL.get(model, "")
