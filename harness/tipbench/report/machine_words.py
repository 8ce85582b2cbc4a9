"""The machine of a run, in few words and in all its fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.records.record import Run
from tipbench.report.cells import table
from tipbench.report.document import Block, Heading, Line, Literal, Paragraph
from tipbench.report.grade import shown
from tipbench.report.wording import plural, size

UNKNOWN = (UNAVAILABLE, DENIED)


def machine_words(machine: Mapping[str, Any]) -> str:
    """`AMD EPYC (Zen 4), 2 cores, 24 GiB, no GPU`, or its name where the description is another."""
    cpu, cores, memory = (machine.get(key) for key in ("cpu", "cores", "memory_bytes"))
    if not isinstance(cpu, str) or not isinstance(cores, int) or not isinstance(memory, int):
        return str(machine.get("name") or "an unnamed machine")
    march = machine.get("microarchitecture")
    known = isinstance(march, str) and march not in ("", UNAVAILABLE, DENIED)
    kind = f" ({re.sub(r'^zen(?=[0-9])', 'Zen ', str(march))})" if known else ""
    return ", ".join([f"{cpu}{kind}", plural(cores, "core"), size(memory), *_gpus(machine)])


def _gpus(machine: Mapping[str, Any]) -> list[str]:
    gpus = machine.get("gpus")
    names = [str(gpu.get("name")) for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, list) else []
    return [f"{number} x {name}" if number > 1 else name for name, number in Counter(names).items()] or ["no GPU"]


def versions(machine: Mapping[str, Any]) -> str:
    """`torch 2.15.0, Python 3.11.7`, as far as they are known."""
    named = {"torch": "torch", "python": "Python"}
    return ", ".join(f"{shown} {machine[name]}" for name, shown in named.items() if machine.get(name))


def brief_lines(machine: Mapping[str, Any]) -> list[str]:
    """Four lines, one more where several machines share the ranks; what a machine does not tell is left out."""
    cores, memory, kernel = machine.get("cores"), machine.get("memory_bytes"), machine.get("kernel")
    caches = machine.get("caches")
    parts: dict[str, list[Any]] = {
        "Processor": [
            machine.get("cpu"),
            plural(cores, "core") if isinstance(cores, int) else None,
            shown("caches", caches) if isinstance(caches, Mapping) and caches else None,
        ],
        "Memory": [size(memory) if isinstance(memory, int) else None, *_gpus(machine)],
        "System": [machine.get("os"), kernel and f"kernel {kernel}", machine.get("libc"), machine.get("compiler")],
        "Software": [
            f"{name} {machine[name]}"
            for name in ("torch", "torchvision", "numpy", "triton", "python")
            if machine.get(name)
        ],
    }
    told = {label: [str(part) for part in listed if part and part not in UNKNOWN] for label, listed in parts.items()}
    return [*(f"{label}: {', '.join(listed)}." for label, listed in told.items() if listed), *_node_lines(machine)]


def _node_lines(machine: Mapping[str, Any]) -> list[str]:
    """Each of several machines with the network it is reached through."""
    nodes = machine.get("nodes")
    listed = [node for node in nodes if isinstance(node, Mapping)] if isinstance(nodes, list) else []
    if len(listed) < 2:
        return []
    named = [
        f"{node.get('name')} by {node.get('interface')}" + (f" ({node['mbit']} Mbit/s)" if node.get("mbit") else "")
        for node in listed
    ]
    return [f"{len(listed)} machines share the ranks of a variant, node 0 first: {', '.join(named)}."]


def field_rows(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(field, value) of everything that is recorded of the machine."""
    return [(name, shown(name, recorded)) for name, recorded in machine.items()]


def in_brief(run: Run) -> Iterator[Line]:
    """At most five lines and those of further nodes."""
    machine = run.machine
    cores = machine.get("cores")
    caches = machine.get("caches")
    levels = shown("caches", caches) if isinstance(caches, Mapping) and caches else None
    yield from _line("Processor", machine.get("cpu"), plural(cores, "core") if isinstance(cores, int) else None, levels)
    memory = machine.get("memory_bytes")
    yield from _line("Memory", size(memory) if isinstance(memory, int) else None, *_gpus(machine))
    kernel = f"kernel {machine['kernel']}" if machine.get("kernel") else None
    yield from _line("System", machine.get("os"), kernel, machine.get("libc"), machine.get("compiler"))
    names = ("torch", "torchvision", "numpy", "triton", "python")
    yield from _line("Software", *(f"{name} {machine[name]}" for name in names if machine.get(name)))
    if run.controls:
        yield "Set for every process, the same on both sides: ", Literal(_settings(run)), "."
    else:
        yield "Nothing was set for the processes: the run was made with ", Literal("--bare"), "."
    yield from _nodes(machine)


def _line(label: str, *found: Any) -> Iterator[Line]:
    known = [str(part) for part in found if part and part not in (UNAVAILABLE, DENIED)]
    if known:
        yield (f"{label}: {', '.join(known)}.",)


def _settings(run: Run) -> str:
    return " ".join(f"{name}={found}" for name, found in run.controls.items())


def _nodes(machine: Mapping[str, Any]) -> Iterator[Line]:
    """Each of several machines with the network it is reached through."""
    nodes = machine.get("nodes")
    listed = [node for node in nodes if isinstance(node, Mapping)] if isinstance(nodes, list) else []
    if len(listed) < 2:
        return
    named = [
        f"{node.get('name')} by {node.get('interface')}" + (f" ({node['mbit']} Mbit/s)" if node.get("mbit") else "")
        for node in listed
    ]
    yield (f"{len(listed)} machines share the ranks of a variant, node 0 first: {', '.join(named)}.",)


def all_fields(run: Run) -> list[Block]:
    """Everything that is recorded of the machine, and what was set for every worker."""
    described = [(name, shown(name, recorded)) for name, recorded in run.machine.items()]
    blocks: list[Block] = [
        Heading("The machine, all that is recorded"),
        table("machine", ("field", "value"), described),
    ]
    if run.controls:
        blocks.append(Paragraph(("Set for every worker, the same on both sides:",)))
        blocks.append(table("settings", ("variable", "value"), run.controls.items()))
    return blocks
