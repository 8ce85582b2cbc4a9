"""How far two runs may be compared, and what differs between them, field by field.

A field that a machine does not tell, or that an older tipbench did not record, is unknown: it is neither equal
nor different, and is named as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.records.record import Run
from tipbench.report.wording import size, value

SAME, STATE, HARDWARE, NOT = (
    "same machine and state",
    "same hardware, other state",
    "other hardware",
    "not comparable",
)

NOT_RECORDED = "not recorded"
NOT_SET = "not set"
UNKNOWN = (UNAVAILABLE, DENIED, NOT_RECORDED)

MEMORY_SLACK = 0.03
"""Kernels keep up to a few percent of the memory for themselves, and differ in it by version."""

ESSENTIAL = ("cpu", "memory_bytes")
"""Hardware is never called the same where one of these is unknown."""

CONTROL = "control "
"""How the name of a field begins that is one of `Run.controls`."""

FIELDS: dict[str, tuple[str, ...]] = {
    "hardware": (
        "cpu", "microarchitecture", "family", "model", "stepping", "physical_cores", "memory_bytes", "caches", "flags",
        "numa_nodes", "virtual", "architecture", "cpu_max_mhz",
    ),
    "state": (
        "cores", "logical_cores", "smt", "quota_cores", "governor", "turbo", "cpu_limit_mhz", "swap_bytes",
        "transparent_huge_pages", "address_randomisation",
    ),
    "software": ("os", "kernel", "libc", "python", "torch", "torchvision", "numpy", "triton", "compiler"),
}  # fmt: skip
"""Fields of `tipbench.machine.describe.describe` by what they are a part of."""

CARD: dict[str, tuple[str, ...]] = {
    "hardware": ("name", "memory_bytes", "capability", "max_sm_mhz", "max_memory_mhz"),
    "state": ("power_limit_w", "application_sm_mhz", "application_memory_mhz", "ecc", "mig", "compute_mode"),
    "software": ("driver",),
}
"""The same of each card in `gpus`. Not its readings: they are of one moment."""


Facts = Mapping[tuple[str, str], Any]
"""By part and field what is compared of a run."""


@dataclass(frozen=True)
class Difference:
    """A field with its values in two runs. part: hardware, state, software, suite, code or profile."""

    part: str
    field: str
    left: Any
    right: Any

    def __str__(self) -> str:
        left, right = shown(self.field, self.left), shown(self.field, self.right)
        return f"{self.field} {left}" if left == right else f"{self.field} {left} / {right}"


@dataclass(frozen=True)
class Grade:
    """differing: known on both sides, and not equal. unknown: not known on one side or both."""

    grade: str
    differing: tuple[Difference, ...]
    unknown: tuple[Difference, ...]

    @property
    def shown(self) -> str:
        return f"{self.grade}, as far as recorded" if self.grade == SAME and self.unknown else self.grade


def grade(one: Facts, other: Facts) -> Grade:
    """The grade of a comparison of two runs, from the `facts` of each.

    Another version of the suite, `--bare` on one side only, or another number of nodes: not comparable, as the code
    or its process settings were others. Other versions of torch, of a driver or of anything else are another state.
    Named without lowering the grade: quick and full profiles, and the rules by which verdicts are made, as all time
    the same steps, if not equally often, as the intervals show; the sizes of `--size`, and the suite's commit, as most
    commits leave most pairs alone (each pair's sizes and file are compared beside this).
    """
    differing, unknown = [], []
    for place in dict.fromkeys([*one, *other]):
        part, field = place
        if not field.startswith(CONTROL) and (place not in one or place not in other):
            continue  # of cards or nodes that only one has, which `gpus` and `nodes` say already; sizes of an older run
        values = one.get(place, NOT_SET), other.get(place, NOT_SET)
        found = Difference(part, field, *values)
        if any(map(is_unknown, values)):
            unknown.append(found)
        elif not _alike(field, *values):
            differing.append(found)
    parts = {found.part for found in differing}
    blind = any(found.part == "hardware" and found.field in ESSENTIAL for found in unknown)
    word = SAME
    if "suite" in parts:
        word = NOT
    elif "hardware" in parts or blind:
        word = HARDWARE
    elif parts & {"state", "software"}:
        word = STATE
    return Grade(word, tuple(differing), tuple(unknown))


def facts(run: Run) -> Facts:
    """All that is compared of a run, in a fixed order."""
    return dict(_facts(run))


def _facts(run: Run) -> Iterator[tuple[tuple[str, str], Any]]:
    yield ("suite", "suite"), run.suite
    yield ("suite", "bare"), bool(run.options.get("bare"))
    yield ("suite", "nodes"), _nodes(run)
    for part, fields in FIELDS.items():
        for field in fields:
            yield (part, field), run.machine.get(field, NOT_RECORDED)
    for part, field, found in _cards(run.machine):
        yield (part, field), found
    nodes = run.machine.get("nodes")
    if isinstance(nodes, list) and len(nodes) > 1:
        yield ("hardware", "nodes' machines"), [_get(node, "name") for node in nodes]
        yield ("hardware", "nodes' network (Mbit/s)"), [_get(node, "mbit") for node in nodes]
    for name in sorted(run.controls):
        yield ("state", f"{CONTROL}{name}"), run.controls[name]
    yield ("code", "commit"), UNAVAILABLE if not run.commit or run.commit.endswith("-dirty") else run.commit
    yield ("profile", "profile"), run.options.get("profile", NOT_RECORDED)
    if "size" in run.options:  # older runs knew one size alone
        yield ("profile", "size"), run.options["size"]
    yield ("profile", "rules"), run.options.get("rules", 1)


def hardware(run: Run) -> str:
    """The hardware in few words, for a legend."""
    words = [shown("cpu", run.machine.get("cpu", NOT_RECORDED))]
    cores, memory = run.machine.get("cores"), run.machine.get("memory_bytes")
    words += [f"{cores} cores"] if isinstance(cores, int) else []
    words += [size(memory)] if isinstance(memory, int) else []
    cards = run.machine.get("gpus")
    words += [str(_get(card, "name")) for card in cards] if isinstance(cards, list) else []
    return ", ".join(words)


def is_unknown(found: Any) -> bool:
    """Also where one card's or node's field is not recorded."""
    return any(map(is_unknown, found)) if isinstance(found, list) else isinstance(found, str) and found in UNKNOWN


def shown(field: str, found: Any) -> str:
    if field.endswith("memory_bytes") or field == "swap_bytes":
        listed = found if isinstance(found, list) else [found]
        return ", ".join(size(one) if _is_count(one) else value(one) for one in listed)
    return value(found)


def _nodes(run: Run) -> int:
    listed, wanted = run.machine.get("nodes"), run.options.get("nnodes")
    return len(listed) if isinstance(listed, list) else wanted if isinstance(wanted, int) else 1


def _cards(machine: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    cards = machine.get("gpus", NOT_RECORDED)
    if not isinstance(cards, list):
        yield "hardware", "gpus", cards
        return
    yield "hardware", "gpus", len(cards)
    for part, fields in CARD.items():
        for field in fields if cards else ():
            yield part, f"gpu {field}", [_get(card, field) for card in cards]


def _get(found: Any, field: str) -> Any:
    return found.get(field, NOT_RECORDED) if isinstance(found, Mapping) else NOT_RECORDED


def _alike(field: str, left: Any, right: Any) -> bool:
    if field == "memory_bytes" and _is_count(left) and _is_count(right):
        return bool(abs(left - right) <= MEMORY_SLACK * max(left, right))
    if field == "commit":  # git abbreviates as far as it must
        return str(left).startswith(str(right)) or str(right).startswith(str(left))
    return bool(left == right)


def _is_count(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)
