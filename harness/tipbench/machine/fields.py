"""One table of what is recorded of a machine, and one of what is recorded of each of its cards.

`describe` fills them, comparisons of runs go through them part by part, pages show them, and `publish` sends no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FieldPart = Literal["hardware", "state", "software"]
PARTS: tuple[FieldPart, ...] = ("hardware", "state", "software")


@dataclass(frozen=True)
class Field:
    """A field of a machine or of a card.

    Attributes:
        part: the part of a machine that differs if this field does; None: the field is not compared.
        meaning: what it holds, with its unit.
        in_bytes: whether its numbers are bytes, to be shown in binary units.
    """

    part: FieldPart | None
    meaning: str
    in_bytes: bool = False


CARD_FIELDS: Mapping[str, Field] = {
    "name": Field("hardware", "the card's name"),
    "memory_bytes": Field("hardware", "its memory", in_bytes=True),
    "driver": Field("software", "the driver's version"),
    "capability": Field("hardware", 'CUDA compute capability, such as "9.0"'),
    "power_limit_w": Field("state", "the enforced power limit, in watts"),
    "max_sm_mhz": Field("hardware", "highest clock of its multiprocessors"),
    "max_memory_mhz": Field("hardware", "highest clock of its memory"),
    "application_sm_mhz": Field("state", "clock that applications get"),
    "application_memory_mhz": Field("state", "clock that applications get of its memory"),
    "ecc": Field("state", "whether memory corrects errors, which takes bandwidth from some cards"),
    "mig": Field("state", "whether the card is split into instances"),
    "compute_mode": Field("state", "which processes may use it"),
}
"""What `tipbench.machine.gpu.gpus` records of each card, in its order."""

MACHINE_FIELDS: Mapping[str, Field] = {
    "name": Field(None, "made of the hardware by `tipbench.machine.describe.name`"),
    "cpu": Field("hardware", "the processor's name"),
    "microarchitecture": Field("hardware", 'such as "zen4", as archspec names it'),
    "family": Field("hardware", "number of an x86 processor's family"),
    "model": Field("hardware", "number of an x86 processor's model"),
    "stepping": Field("hardware", "number of an x86 processor's stepping"),
    "cores": Field("state", "logical cores that this process may use"),
    "physical_cores": Field("hardware", "cores of the machine"),
    "logical_cores": Field("state", "cores of the machine as the kernel schedules them"),
    "smt": Field("state", "whether cores run several threads, in the kernel's word"),
    "quota_cores": Field("state", 'processor time that the cgroup grants, in cores, or "none"'),
    "memory_bytes": Field("hardware", "memory installed, or the cgroup's limit if lower", in_bytes=True),
    "caches": Field("hardware", "one cache of each level, as the first core has them", True),
    "flags": Field("hardware", "features that torch's kernels differ by"),
    "numa_nodes": Field("hardware", "NUMA nodes"),
    "virtual": Field("hardware", "whether a hypervisor runs the machine"),
    "gpus": Field(None, "`CARD_FIELDS` of each NVIDIA card that CUDA may see"),
    "os": Field("software", "the distribution with its version"),
    "kernel": Field("software", "version of Linux"),
    "architecture": Field("hardware", "the instruction set"),
    "libc": Field("software", "the C library with its version"),
    "governor": Field("state", 'the frequency governor, joined by "+" where cores differ'),
    "turbo": Field("state", "whether cores may exceed their nominal clock"),
    "cpu_max_mhz": Field("hardware", "the highest clock that a core can have"),
    "cpu_limit_mhz": Field("state", "the highest clock that a core may have now"),
    "swap_bytes": Field("state", "swap space, used or not; 0 without any", in_bytes=True),
    "transparent_huge_pages": Field("state", "the kernel's setting"),
    "address_randomisation": Field("state", "the kernel's setting, 0 to 2"),
    "python": Field("software", "version"),
    "torch": Field("software", "version"),
    "torchvision": Field("software", "version"),
    "numpy": Field("software", "version"),
    "triton": Field("software", "version"),
    "compiler": Field("software", "the C++ compiler that torch.compile uses"),
}
"""What `tipbench.machine.describe.describe` records, in its order."""


WORDS = (
    *("performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"),
    *("on", "off", "forceoff", "notsupported", "notimplemented", "none", "always", "madvise", "never"),
    *("x86_64", "aarch64", "arm64", "i686", "ppc64le", "riscv64", "s390x", "loongarch64", "glibc", "musl", "libc"),
)
"""Words of the kernel and the C library that these fields hold. `publish` lets through what stands in this room."""


def fields_of_part(part: FieldPart, fields: Mapping[str, Field]) -> list[str]:
    """Names of the fields of a part, in the table's order."""
    return [name for name, field in fields.items() if field.part == part]
