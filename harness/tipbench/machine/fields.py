"""One table of what is recorded of a machine, and one of what is recorded of each of its cards.

`describe` fills them, comparisons of runs go through them part by part, pages show them, and `publish` sends of each
field what its rule lets through. A field without a rule stays on its machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tipbench.machine.forms import (
    Rule,
    compiler,
    cpu_flags,
    flag,
    governors,
    hardware_name,
    libc,
    microarchitecture_name,
    number,
    numbers,
    one_of,
    quota,
    switch,
    version,
)
from tipbench.machine.gpu import COMPUTE_MODES, GPU_READINGS
from tipbench.machine.proc import DENIED, UNAVAILABLE

Part = Literal["hardware", "state", "software"]
PARTS: tuple[Part, ...] = ("hardware", "state", "software")


@dataclass(frozen=True)
class Field:
    """A field of a machine or of a card.

    Attributes:
        part: the part of a machine that differs if this field does; None: the field is not compared.
        meaning: what it holds, with its unit.
        rule: from its value to what may leave the machine; None: nothing may.
        in_bytes: whether its numbers are bytes, to be shown in binary units.
    """

    part: Part | None
    meaning: str
    rule: Rule | None = None
    in_bytes: bool = False


def _cards(value: Any) -> list[dict[str, Any]] | None:
    if not isinstance(value, list):
        return None
    return [{"name": UNAVAILABLE, **publishable(card, CARD_FIELDS)} for card in value if isinstance(card, Mapping)]


CARD_FIELDS: Mapping[str, Field] = {
    "index": Field(None, "the driver's number of the card, as nvidia-smi takes it"),
    "name": Field("hardware", "the card's name", hardware_name),
    "memory_bytes": Field("hardware", "its memory", number, in_bytes=True),
    "driver": Field("software", "the driver's version", version),
    "capability": Field("hardware", 'CUDA compute capability, such as "9.0"', version),
    "power_limit_w": Field("state", "the enforced power limit, in watts", number),
    "max_sm_mhz": Field("hardware", "highest clock of its multiprocessors", number),
    "max_memory_mhz": Field("hardware", "highest clock of its memory", number),
    "application_sm_mhz": Field("state", "clock that applications get", number),
    "application_memory_mhz": Field("state", "clock that applications get of its memory", number),
    "ecc": Field("state", "whether memory corrects errors, which takes bandwidth from some cards", switch),
    "mig": Field("state", "whether the card is split into instances", switch),
    "compute_mode": Field("state", "which processes may use it", one_of(*COMPUTE_MODES.values())),
    "readings": Field(None, "`GPU_READINGS` of the moment", numbers("|".join(GPU_READINGS))),
}
"""What `tipbench.machine.gpu.gpus` records of each card, in its order."""

MACHINE_FIELDS: Mapping[str, Field] = {
    "name": Field(None, "made of the hardware by `tipbench.machine.describe.name`"),
    "cpu": Field("hardware", "the processor's name", hardware_name),
    "microarchitecture": Field("hardware", 'such as "zen4", as archspec names it', microarchitecture_name),
    "family": Field("hardware", "number of an x86 processor's family", number),
    "model": Field("hardware", "number of an x86 processor's model", number),
    "stepping": Field("hardware", "number of an x86 processor's stepping", number),
    "cores": Field("state", "logical cores that this process may use", number),
    "physical_cores": Field("hardware", "cores of the machine", number),
    "logical_cores": Field("state", "cores of the machine as the kernel schedules them", number),
    "smt": Field("state", "whether cores run several threads, in the kernel's word", switch),
    "quota_cores": Field("state", 'processor time that the cgroup grants, in cores, or "none"', quota),
    "memory_bytes": Field("hardware", "memory installed, or the cgroup's limit if lower", number, in_bytes=True),
    "caches": Field("hardware", "one cache of each level, as the first core has them", numbers(r"L[1-5][di]?"), True),
    "flags": Field("hardware", "features that torch's kernels differ by", cpu_flags),
    "numa_nodes": Field("hardware", "NUMA nodes", number),
    "virtual": Field("hardware", "whether a hypervisor runs the machine", flag),
    "gpus": Field(None, "`CARD_FIELDS` of each NVIDIA card that CUDA may see", _cards),
    "os": Field("software", "the distribution with its version"),
    "kernel": Field("software", "version of Linux", version),
    "architecture": Field(
        "hardware",
        "the instruction set",
        one_of("x86_64", "aarch64", "arm64", "i686", "ppc64le", "riscv64", "s390x", "loongarch64"),
    ),
    "libc": Field("software", "the C library with its version", libc),
    "governor": Field("state", 'the frequency governor, joined by "+" where cores differ', governors),
    "turbo": Field("state", "whether cores may exceed their nominal clock", one_of("on", "off")),
    "cpu_max_mhz": Field("hardware", "the highest clock that a core can have", number),
    "cpu_limit_mhz": Field("state", "the highest clock that a core may have now", number),
    "swap_bytes": Field("state", "swap space, used or not; 0 without any", number, in_bytes=True),
    "transparent_huge_pages": Field("state", "the kernel's setting", one_of("always", "madvise", "never")),
    "address_randomisation": Field("state", "the kernel's setting, 0 to 2", one_of("0", "1", "2")),
    "python": Field("software", "version", version),
    "torch": Field("software", "version", version),
    "torchvision": Field("software", "version", version),
    "numpy": Field("software", "version", version),
    "triton": Field("software", "version", version),
    "compiler": Field("software", "the C++ compiler that torch.compile uses", compiler),
}
"""What `tipbench.machine.describe.describe` records, in its order."""


def publishable(values: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    """What may leave the machine of these values: of each field in the table what its rule lets through, and the words
    for what a machine does not report."""
    allowed = {
        name: value if (value := values[name]) in (UNAVAILABLE, DENIED) else field.rule(value)
        for name, field in fields.items()
        if field.rule is not None and name in values
    }
    return {name: value for name, value in allowed.items() if value is not None}


def of_part(part: Part, fields: Mapping[str, Field]) -> list[str]:
    """Names of the fields of a part, in the table's order."""
    return [name for name, field in fields.items() if field.part == part]
