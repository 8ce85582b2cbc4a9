"""Which tips are followed together: pure, from what each brings alone and from what it brings among the others.

The stack starts with all that are compatible and not known to harm, in the order in which they are applied. Each is
left out in turn. The one whose absence is fastest leaves, as long as there is one that harms; then all leave that bring
nothing among the others. What is left is measured once more, by launches that chose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tipbench.report.effect import Effect

Stack = tuple[str, ...]
"""Names of ways, in the order in which they are followed."""


@dataclass(frozen=True)
class Candidate:
    """A way that was measured alone. mean: ln of the job's time over that of the job that follows it."""

    name: str
    one_of: str
    mean: float
    slower: bool
    changes_numbers: bool


def first_stack(candidates: Sequence[Candidate], numerics: bool, most: int) -> Stack:
    """All that do not seem to harm; of those that exclude each other the one that brings most.

    numerics: whether ways that change results by design may be among them. most: how many there may be; of more those
    that bring least are left out.
    """
    usable = [one for one in candidates if one.mean > 0 and not one.slower and (numerics or not one.changes_numbers)]
    best: dict[str, Candidate] = {}
    for one in usable:
        kind = one.one_of or one.name
        if kind not in best or one.mean > best[kind].mean:
            best[kind] = one
    kept = sorted(best.values(), key=lambda one: -one.mean)[:most]
    return tuple(one.name for one in usable if one in kept)


def left_out(stack: Stack, name: str) -> Stack:
    return tuple(one for one in stack if one != name)


def worst(stack: Stack, without: Mapping[str, Effect]) -> str:
    """The member that harms most, empty where none is known to. without: by member, the stack without it against the
    stack."""
    harmful = [name for name in stack if name in without and without[name].verdict == "faster"]
    return max(harmful, key=lambda name: without[name].mean or 0.0, default="")


def that_pay(stack: Stack, without: Mapping[str, Effect]) -> Stack:
    """The members whose absence costs time for certain, and those that seem to pay where there are too few launches to
    know."""
    return tuple(name for name in stack if name in without and _is_missed(without[name]))


def _is_missed(absent: Effect) -> bool:
    return absent.verdict == "slower" or (absent.mean is None and absent.so_far is not None and absent.so_far[0] < 1)
