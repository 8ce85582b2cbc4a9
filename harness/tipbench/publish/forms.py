"""Forms in which a machine's and a run's stored values may be published; a value of another form is withheld.

Each rule is small and holds nothing but what it should: a number, a version, a processor's name. What is in
no table stays on the machine: a new field is withheld until it is listed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tipbench.machine.controls import HEAP_KEPT
from tipbench.machine.gpu import COMPUTE_MODES, GPU_READINGS
from tipbench.machine.microarchitecture import known_names
from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.machine.processor import FLAGS
from tipbench.records.fields import LARGEST
from tipbench.records.record import PHASES
from tipbench.tip.pair import Equal
from tipbench.tip.sizes import RUNGS

Rule = Callable[[Any], Any]
"""From a stored value to what may be published of it; None: nothing."""

VERSION = re.compile(r"(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:(?:a|b|rc|\.dev|\.post)\d{1,9})?)(\+.*|[-_~].*)?")
LOCAL = re.compile(r"\+(?:cpu|cu\d{2,4}|rocm\d[\d.]{0,6}|xpu|git[0-9a-f]{4,12})")
"""Of a version's local part: what torch's own builds are called. Somebody's own build may carry any name."""

HARDWARE = re.compile(
    r"(\d+th Gen )?(Genuine )?(AMD|Intel|NVIDIA|Apple|Arm|ARM|Ampere|AWS|Neoverse|Cortex|Hygon|IBM|POWER|Kunpeng"
    r"|Fujitsu|Qualcomm|Loongson|Zhaoxin|QEMU|Common KVM|Tesla|Quadro|GeForce|TITAN)([ -](\d+\.\d+\w*|[\w+-]+))*",
    re.ASCII,
)
"""A name that begins with its maker's, or with a line of products: any chip of theirs, and no address or path."""

SYSTEM = re.compile(
    r"(Debian GNU/Linux|Ubuntu|Fedora(?: Linux)?|CentOS(?: Linux| Stream)?|Red Hat Enterprise Linux(?: Server)?|"
    r"Rocky Linux|AlmaLinux|Amazon Linux|Oracle Linux(?: Server)?|openSUSE (?:Leap|Tumbleweed)|"
    r"SUSE Linux Enterprise Server|Arch Linux|Alpine Linux|Linux Mint|NixOS|Gentoo(?: Linux)?|"
    r"Pop!_OS|macOS|Linux|Darwin)"
    r"(?: v?(\d{1,4}(?:\.\d{1,3}){0,2}))?(?: .*)?"
)
COMPILER = re.compile(
    r"(?:.* )?(g\+\+|c\+\+|clang\+\+|clang|gcc|icpx|icpc)(?:-\d+)?(?= )"
    r".*?(?<![\d.])(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.]).*"
)
INTERFACES = {"eth": "Ethernet", "en": "Ethernet", "ib": "InfiniBand", "wl": "wireless", "lo": "loopback"}
"""By how Linux begins their names; an interface's own name may hold its hardware address."""


def one_of(*words: str) -> Rule:
    return lambda found: found if isinstance(found, str) and found in words else None


def number(found: Any) -> int | float | None:
    fits = isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < LARGEST
    return found if fits else None


def measured(found: Any) -> int | float | str | None:
    """A number, or one of the words that stand for those that JSON has none for."""
    return found if found in ("nan", "inf", "-inf") else number(found)


def flag(found: Any) -> bool | None:
    return found if isinstance(found, bool) else None


def _or_unknown(rule: Rule) -> Rule:
    """The same for what a machine may not report."""
    return lambda found: found if found in (UNAVAILABLE, DENIED) else rule(found)


def version(found: Any) -> str | None:
    """A version without what a person's own build may have added to it. An address is none."""
    parts = VERSION.fullmatch(found) if isinstance(found, str) else None
    if parts is None:
        return None
    rest = LOCAL.fullmatch(parts[2] or "")
    return parts[1] + (rest[0] if rest else "")


def _hardware(found: Any) -> str | None:
    words = " ".join(re.sub(r"(?i)\((r|tm|c)\)|[®™@,]", " ", found[:100]).split()) if isinstance(found, str) else ""
    return words if HARDWARE.fullmatch(words) else None


def _system(found: Any) -> str | None:
    parts = SYSTEM.fullmatch(found) if isinstance(found, str) else None
    return " ".join(filter(None, parts.groups())) if parts else None


def _compiler(found: Any) -> str | None:
    parts = COMPILER.fullmatch(found[:200]) if isinstance(found, str) else None
    return f"{parts[1]} {parts[2]}" if parts else None


def _libc(found: Any) -> str | None:
    name, _, number_of = found.partition(" ") if isinstance(found, str) else ("", "", "")
    return found if name in ("glibc", "musl", "libc") and version(number_of) == number_of else None


def _governors(found: Any) -> str | None:
    known = {"performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"}
    return found if isinstance(found, str) and set(found.split("+")) <= known else None


def _quota(found: Any) -> Any:
    return found if found == "none" else number(found)


def numbers(keys: str) -> Rule:
    """Of a mapping the entries whose keys match and whose values are numbers, or words for why there is none."""

    def rule(found: Any) -> dict[str, Any] | None:
        entries = found.items() if isinstance(found, Mapping) else ()
        kept = {key: _or_unknown(number)(item) for key, item in entries if re.fullmatch(keys, str(key))}
        return {key: item for key, item in kept.items() if item is not None}

    return rule


def _flags(found: Any) -> list[str] | None:
    return [flag for flag in FLAGS if flag in found] if isinstance(found, list) else None


def _cards(found: Any) -> list[dict[str, Any]] | None:
    listed = [fields(card, CARD) for card in found if isinstance(card, Mapping)] if isinstance(found, list) else None
    return None if listed is None else [{"name": UNAVAILABLE, **card} for card in listed]


def _nodes(found: Any) -> list[dict[str, Any]] | None:
    listed = [node for node in found if isinstance(node, Mapping)] if isinstance(found, list) else []
    return [
        {"name": f"node {index}", "interface": _interface(node.get("interface")), "mbit": number(node.get("mbit"))}
        for index, node in enumerate(listed)
    ] or None


def _interface(found: Any) -> str:
    return next((kind for begun, kind in INTERFACES.items() if str(found).startswith(begun)), "another network")


def _switch(found: Any) -> bool | str | None:
    return (
        found
        if isinstance(found, bool) or found in ("on", "off", "forceoff", "notsupported", "notimplemented")
        else None
    )


CARD: Mapping[str, Rule] = {
    "name": _or_unknown(_hardware),
    "memory_bytes": _or_unknown(number),
    "driver": _or_unknown(version),
    "capability": _or_unknown(version),
    "power_limit_w": _or_unknown(number),
    "readings": numbers("|".join(GPU_READINGS)),
    **dict.fromkeys(
        ("max_sm_mhz", "max_memory_mhz", "application_sm_mhz", "application_memory_mhz"), _or_unknown(number)
    ),
    **dict.fromkeys(("ecc", "mig"), _or_unknown(_switch)),
    "compute_mode": _or_unknown(one_of(*COMPUTE_MODES.values())),
}

MACHINE: Mapping[str, Rule] = {
    "cpu": _or_unknown(_hardware),
    "microarchitecture": _or_unknown(lambda found: found if found in known_names() else None),
    **dict.fromkeys(("family", "model", "stepping"), _or_unknown(number)),
    "cores": _or_unknown(number),
    "physical_cores": _or_unknown(number),
    "logical_cores": _or_unknown(number),
    "quota_cores": _or_unknown(_quota),
    "memory_bytes": _or_unknown(number),
    "caches": _or_unknown(numbers(r"L[1-5][di]?")),
    "flags": _or_unknown(_flags),
    "numa_nodes": _or_unknown(number),
    "virtual": _or_unknown(flag),
    "gpus": _or_unknown(_cards),
    "os": _or_unknown(_system),
    "kernel": _or_unknown(version),
    "architecture": one_of("x86_64", "aarch64", "arm64", "i686", "ppc64le", "riscv64", "s390x", "loongarch64"),
    "libc": _or_unknown(_libc),
    "governor": _or_unknown(_governors),
    "turbo": _or_unknown(one_of("on", "off")),
    "transparent_huge_pages": _or_unknown(one_of("always", "madvise", "never")),
    "address_randomisation": _or_unknown(one_of("0", "1", "2")),
    "python": _or_unknown(version),
    **dict.fromkeys(("torch", "torchvision", "numpy", "triton"), _or_unknown(version)),
    "compiler": _or_unknown(_compiler),
    "nodes": _nodes,
    **dict.fromkeys(("cpu_max_mhz", "cpu_limit_mhz", "swap_bytes"), _or_unknown(number)),
    "smt": _or_unknown(_switch),
}
"""What may be published of `tipbench.machine.describe.describe()`, beside the name; "name" is made of these."""

CONTROLS: Mapping[str, Rule] = {
    "MALLOC_TRIM_THRESHOLD_": one_of(HEAP_KEPT),
    "MALLOC_MMAP_THRESHOLD_": one_of(HEAP_KEPT),
    "OMP_NUM_THREADS": lambda found: found if isinstance(found, str) and re.fullmatch(r"\d{1,4}", found) else None,
    "PYTHONHASHSEED": one_of("0"),
}
"""What `tipbench.machine.controls` itself sets, and nothing that was ever taken from a person's shell."""

OPTIONS: Mapping[str, Rule] = {
    "profile": one_of("quick", "full"),
    "size": one_of(*RUNGS),
    "budget_s": number,
    "rules": number,
    "device": one_of("auto", "cpu", "cuda"),
    "seed": number,
    "bare": flag,
    "nnodes": number,
}

EQUAL: Mapping[str, Rule] = {
    "method": one_of(*map(str, Equal)),
    **dict.fromkeys(("worst", "tolerance", "seeds", "error", "baseline_error", "target", "lowest"), measured),
}

MEMORY = "tensor_peak|steady_peak|resident_peak|tree|allocated_peak|reserved_peak|device_used"

JOB_CARD = "|".join(("parameters", "flops", "bytes", *PHASES))


def fields(found: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    kept = {name: rule(found[name]) for name, rule in rules.items() if name in found}
    return {name: item for name, item in kept.items() if item is not None}
