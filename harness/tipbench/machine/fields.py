"""What is recorded of a machine, and of each of its cards: names of fields, by the part of a machine that they are of.

`describe` fills them, comparisons of runs go through them part by part, pages show them, and `publish` sends no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

FieldPart = Literal["hardware", "state", "software"]
PARTS: tuple[FieldPart, ...] = ("hardware", "state", "software")

CARD_FIELDS: Mapping[FieldPart, tuple[str, ...]] = {
    "hardware": ("name", "memory_bytes", "capability", "max_sm_mhz", "max_memory_mhz"),
    "state": ("power_limit_w", "application_sm_mhz", "application_memory_mhz", "ecc", "mig", "compute_mode"),
    "software": ("driver",),
}
"""Of each NVIDIA card that CUDA may see; `tipbench.machine.gpu` says where each comes from."""

MACHINE_FIELDS: Mapping[FieldPart, tuple[str, ...]] = {
    "hardware": (
        *("cpu", "microarchitecture", "family", "model", "stepping", "physical_cores", "memory_bytes", "caches"),
        *("flags", "numa_nodes", "virtual", "architecture", "cpu_max_mhz"),
    ),
    "state": (
        *("cores", "logical_cores", "smt", "quota_cores", "governor", "turbo", "cpu_limit_mhz", "swap_bytes"),
        *("transparent_huge_pages", "address_randomisation"),
    ),
    "software": ("os", "kernel", "libc", "python", "torch", "torchvision", "numpy", "triton", "compiler"),
}
"""`tipbench.machine.describe` says where each comes from, and records the machine's name and its "gpus" besides."""

IN_BYTES = ("memory_bytes", "caches", "swap_bytes")
"""Fields whose numbers are bytes, to be shown in binary units."""

WORDS = (
    *("performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"),
    *("on", "off", "forceoff", "notsupported", "notimplemented", "none", "always", "madvise", "never"),
    *("x86_64", "aarch64", "arm64", "i686", "ppc64le", "riscv64", "s390x", "loongarch64", "glibc", "musl", "libc"),
)
"""Words of the kernel and the C library that these fields hold. `publish` lets through what stands in this room."""
