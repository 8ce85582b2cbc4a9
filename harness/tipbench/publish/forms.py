"""Forms in which a text that is not the suite's own may leave its machine: a version, or a name of hardware.

Each lets nothing through but what it is for.
"""

from __future__ import annotations

import re

VERSION = re.compile(r"(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:(?:a|b|rc|\.dev|\.post)\d{1,9})?)(\+.*|[-_~].*)?")
LOCAL = re.compile(r"\+(?:cpu|cu\d{2,4}|rocm\d[\d.]{0,6}|xpu|git[0-9a-f]{4,12})")
"""A version's local part as torch's own builds write it. Somebody's own build may carry any name."""

HARDWARE_NAME = re.compile(
    r"(\d+th Gen )?(Genuine )?(AMD|Intel|NVIDIA|Apple|Arm|ARM|Ampere|AWS|Neoverse|Cortex|Hygon|IBM|POWER|Kunpeng"
    r"|Fujitsu|Qualcomm|Loongson|Zhaoxin|QEMU|Common KVM|Tesla|Quadro|GeForce|TITAN)([ -]+(\d+\.\d+\w*|[\w+]+))*-*",
    re.ASCII,
)
"""A name that begins with its maker's, or with a line of products: any chip of theirs, and no address or path. No text
can be read in two ways, so that none takes long."""

_COMPILER = re.compile(
    r"(?:.* )?(g\+\+|c\+\+|clang\+\+|clang|gcc|icpx|icpc)(?:-\d+)?(?= )"
    r".*?(?<![\d.])(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.]).*"
)


def version_form(text: str) -> str:
    """A version without what a person's own build may have added to it; "" for what is none, such as an address."""
    parts = VERSION.fullmatch(text)
    if parts is None:
        return ""
    local = LOCAL.fullmatch(parts[2] or "")
    return parts[1] + (local[0] if local else "")


def hardware_name(text: str) -> str:
    words = " ".join(re.sub(r"(?i)\((r|tm|c)\)|[®™@,]", " ", text[:100]).split())
    return words if HARDWARE_NAME.fullmatch(words) else ""


def compiler_form(text: str) -> str:
    parts = _COMPILER.fullmatch(text[:200])
    return f"{parts[1]} {parts[2]}" if parts else ""
