"""Forms in which a stored value may leave its machine; a value of another form is withheld.

Each rule is small and lets nothing through but what it is for: a number, a version, a processor's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tipbench.machine.microarchitecture import known_names
from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.machine.processor import FLAGS

Rule = Callable[[Any], Any]
"""From a stored value to what may be published of it; None: nothing."""

LARGEST = 2**63
"""Numbers are stored in 64 bits with a sign."""

VERSION = re.compile(r"(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:(?:a|b|rc|\.dev|\.post)\d{1,9})?)(\+.*|[-_~].*)?")
LOCAL = re.compile(r"\+(?:cpu|cu\d{2,4}|rocm\d[\d.]{0,6}|xpu|git[0-9a-f]{4,12})")
"""A version's local part as torch's own builds write it. Somebody's own build may carry any name."""

HARDWARE = re.compile(
    r"(\d+th Gen )?(Genuine )?(AMD|Intel|NVIDIA|Apple|Arm|ARM|Ampere|AWS|Neoverse|Cortex|Hygon|IBM|POWER|Kunpeng"
    r"|Fujitsu|Qualcomm|Loongson|Zhaoxin|QEMU|Common KVM|Tesla|Quadro|GeForce|TITAN)([ -]+(\d+\.\d+\w*|[\w+]+))*-*",
    re.ASCII,
)
"""A name that begins with its maker's, or with a line of products: any chip of theirs, and no address or path. No text
can be read in two ways, so that none takes long."""

COMPILER = re.compile(
    r"(?:.* )?(g\+\+|c\+\+|clang\+\+|clang|gcc|icpx|icpc)(?:-\d+)?(?= )"
    r".*?(?<![\d.])(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.]).*"
)

GOVERNORS = frozenset({"performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"})
SWITCHES = ("on", "off", "forceoff", "notsupported", "notimplemented")


def one_of(*words: str) -> Rule:
    return lambda value: value if isinstance(value, str) and value in words else None


def number(value: Any) -> int | float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST
    return value if fits else None


def flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def numbers(keys: str) -> Rule:
    """The entries of a mapping whose keys match and whose values are numbers, or words for why there is none."""

    def rule(value: Any) -> dict[str, Any] | None:
        entries = value.items() if isinstance(value, Mapping) else ()
        allowed = {key: item for key, item in entries if re.fullmatch(keys, str(key))}
        return {key: item for key, item in allowed.items() if item in (UNAVAILABLE, DENIED) or number(item) is not None}

    return rule


def version(value: Any) -> str | None:
    """A version without what a person's own build may have added to it. An address is none."""
    parts = VERSION.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        return None
    local = LOCAL.fullmatch(parts[2] or "")
    return parts[1] + (local[0] if local else "")


def hardware_name(value: Any) -> str | None:
    words = " ".join(re.sub(r"(?i)\((r|tm|c)\)|[®™@,]", " ", value[:100]).split()) if isinstance(value, str) else ""
    return words if HARDWARE.fullmatch(words) else None


def microarchitecture_name(value: Any) -> str | None:
    return value if isinstance(value, str) and value in known_names() else None


def compiler(value: Any) -> str | None:
    parts = COMPILER.fullmatch(value[:200]) if isinstance(value, str) else None
    return f"{parts[1]} {parts[2]}" if parts else None


def libc(value: Any) -> str | None:
    name, _, release = value.partition(" ") if isinstance(value, str) else ("", "", "")
    return value if name in ("glibc", "musl", "libc") and version(release) == release else None


def governors(value: Any) -> str | None:
    return value if isinstance(value, str) and set(value.split("+")) <= GOVERNORS else None


def quota(value: Any) -> Any:
    return value if value == "none" else number(value)


def switch(value: Any) -> bool | str | None:
    return value if isinstance(value, bool) or value in SWITCHES else None


def cpu_flags(value: Any) -> list[str] | None:
    return [flag for flag in FLAGS if flag in value] if isinstance(value, list) else None
