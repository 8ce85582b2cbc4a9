"""The machine of a run in few words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.tip.wording import plural, size


def machine_words(machine: Mapping[str, Any]) -> str:
    """`AMD EPYC (Zen 4), 2 cores, 24 GiB, no GPU`, or its name where the description is another."""
    cpu, cores, memory = (machine.get(key) for key in ("cpu", "cores", "memory_bytes"))
    if not isinstance(cpu, str) or not isinstance(cores, int) or not isinstance(memory, int):
        return str(machine.get("name") or "an unnamed machine")
    march = machine.get("microarchitecture")
    is_named = isinstance(march, str) and march not in ("", UNAVAILABLE, DENIED)
    kind = f" ({re.sub(r'^zen(?=[0-9])', 'Zen ', str(march))})" if is_named else ""
    return ", ".join([f"{cpu}{kind}", plural(cores, "core"), size(memory), *_gpus(machine)])


def _gpus(machine: Mapping[str, Any]) -> list[str]:
    gpus = machine.get("gpus")
    names = [str(gpu.get("name")) for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, list) else []
    return [f"{number} x {name}" if number > 1 else name for name, number in Counter(names).items()] or ["no GPU"]


def versions(machine: Mapping[str, Any]) -> str:
    """`torch 2.15.0, Python 3.11.7`, as far as they are known."""
    named = {"torch": "torch", "python": "Python"}
    return ", ".join(f"{shown} {machine[name]}" for name, shown in named.items() if machine.get(name))
