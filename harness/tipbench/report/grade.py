"""How far two runs may be compared, and what differs between them, field by field.

Runs of one kind have equal hardware and state. A field that one of the runs lacks, or could not read, is not
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tipbench.machine.controls import HEAP, HEAP_BEFORE, controls_heap
from tipbench.machine.fields import CARD_FIELDS, IN_BYTES, MACHINE_FIELDS, PARTS
from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.records.record import Run
from tipbench.tip.wording import size
from tipbench.tip.wording import value as as_text

SAME, STATE, HARDWARE, NOT = (
    "same kind",
    "same hardware, other state",
    "other hardware",
    "not comparable",
)

NOT_SET = "not set"
UNKNOWN = (UNAVAILABLE, DENIED)

MEMORY_SLACK = 0.03
"""Kernels keep up to a few percent of the memory for themselves, and differ in it by version."""

ESSENTIAL = ("cpu", "memory_bytes")
"""Hardware is never called the same where a run lacks one of these."""

CONTROL_PREFIX, CARD = "control ", "gpu "
"""How the name of a field begins that is one of `Run.controls`, or one of the cards."""

Facts = Mapping[tuple[str, str], Any]
"""By part and field what is compared of a run."""


@dataclass(frozen=True)
class Difference:
    """A field that two runs do not share.

    Attributes:
        part: hardware, state, software, suite, code or options.
        field: its name, with `CONTROL_PREFIX` or `CARD` before that of a control or of the cards.
        left: its value in the first run.
        right: its value in the second run.
    """

    part: str
    field: str
    left: Any
    right: Any

    def __str__(self) -> str:
        left, right = format_value(self.field, self.left), format_value(self.field, self.right)
        return f"{self.field} {left}" if left == right else f"{self.field} {left} / {right}"


@dataclass(frozen=True)
class Grade:
    """How far two runs may be compared.

    Attributes:
        grade: SAME, STATE, HARDWARE or NOT.
        differing: fields that both runs have, with different values.
    """

    grade: str
    differing: tuple[Difference, ...]


def grade(left: Facts, right: Facts) -> Grade:
    """The grade of a comparison of two runs, from the `facts` of each.

    Not comparable: another version of the suite, or `--bare` on one side only, as the code or its process settings
    differ. Another state: also other versions of torch, of a driver or of anything else. Named without lowering the
    grade: `--size` and the suite's commit, since most commits leave most pairs alone (each pair's sizes and code are
    compared as well).
    """
    differing = []
    for place in dict.fromkeys([*left, *right]):
        part, field = place
        if not field.startswith(CONTROL_PREFIX) and (place not in left or place not in right):
            continue
        values = left.get(place, NOT_SET), right.get(place, NOT_SET)
        if field not in ESSENTIAL and any(map(_is_hidden, values)):
            continue  # as a container hides some
        if not _alike(field, *values):
            differing.append(Difference(part, field, *values))
    parts = {difference.part for difference in differing}
    word = SAME
    if "suite" in parts:
        word = NOT
    elif "hardware" in parts:
        word = HARDWARE
    elif parts & {"state", "software"}:
        word = STATE
    return Grade(word, tuple(differing))


def _is_hidden(value: Any) -> bool:
    """Whether a value, or that of any card, could not be read."""
    return value in UNKNOWN or (isinstance(value, list) and any(each in UNKNOWN for each in value))


def facts(run: Run) -> Facts:
    """All that is compared of a run, in a fixed order."""
    return dict(_facts(run))


def _facts(run: Run) -> Iterator[tuple[tuple[str, str], Any]]:
    yield ("suite", "suite"), run.suite
    yield ("suite", "bare"), bool(run.options.get("bare"))
    for part in PARTS:
        for field in MACHINE_FIELDS[part]:
            if field in run.machine or field in ESSENTIAL:
                yield (part, field), run.machine.get(field, UNAVAILABLE)
    yield from _cards(run.machine)
    kept = controls_heap(run.controls, str(run.machine.get("libc")))
    if kept:  # which older runs set in another way
        yield ("state", f"{CONTROL_PREFIX}heap"), "kept by glibc"
    for name in sorted(run.controls):
        if not (kept and name in {**HEAP, **HEAP_BEFORE}):
            yield ("state", f"{CONTROL_PREFIX}{name}"), run.controls[name]
    if run.commit and not run.commit.endswith("-dirty"):  # what nobody committed may be anything
        yield ("code", "commit"), run.commit
    if "size" in run.options:  # older runs knew one size alone
        yield ("options", "size"), run.options["size"]


def hardware(run: Run) -> str:
    """The hardware in few words, for a legend."""
    words = [format_value("cpu", run.machine.get("cpu", UNAVAILABLE))]
    cores, memory = run.machine.get("cores"), run.machine.get("memory_bytes")
    words += [f"{cores} cores"] if isinstance(cores, int) else []
    words += [size(memory)] if isinstance(memory, int) else []
    cards = run.machine.get("gpus")
    cards = [card for card in cards if isinstance(card, Mapping)] if isinstance(cards, list) else []
    words += [str(card.get("name", UNAVAILABLE)) for card in cards]
    return ", ".join(words)


def format_value(field: str, value: Any) -> str:
    """A field's value as a person reads it. field: its name, after `CARD` where it is one of the cards."""
    return _in_bytes(value) if field.removeprefix(CARD) in IN_BYTES else as_text(value)


def _in_bytes(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_in_bytes, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_in_bytes(item)}" for name, item in value.items())
    return size(value) if _is_count(value) else as_text(value)


def _cards(machine: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    if "gpus" not in machine:
        return
    cards = machine["gpus"]
    yield ("hardware", "gpus"), len(cards) if isinstance(cards, list) else cards
    for part in PARTS if isinstance(cards, list) and cards else ():
        for field in CARD_FIELDS[part]:
            if all(isinstance(card, Mapping) and field in card for card in cards):
                yield (part, f"{CARD}{field}"), [card[field] for card in cards]


def _alike(field: str, left: Any, right: Any) -> bool:
    if field in ESSENTIAL and (left in UNKNOWN or right in UNKNOWN):
        return False
    if field == "memory_bytes" and _is_count(left) and _is_count(right):
        return bool(abs(left - right) <= MEMORY_SLACK * max(left, right))
    if field == "commit":  # git abbreviates as far as it must
        return str(left).startswith(str(right)) or str(right).startswith(str(left))
    return bool(left == right)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
