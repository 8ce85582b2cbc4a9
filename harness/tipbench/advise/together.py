"""Which tips are followed together: pure, from what each brings alone and from what it brings among the others.

The stack starts with all that are compatible and not known to harm, in the order in which they are applied. Each is
left out in turn, and `next_stack` says who leaves. What is left is measured once more, by launches that chose nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tipbench.report.effect import Effect

WITHOUT = "without "
"""What the name of a side begins with that does without one member of a stack; the member's name follows."""

LEAST = math.log(1.05)
"""What a way must seem to bring from a few launches, which are off by some per cent."""

CLEARLY = math.log(1.15)
"""What a way must seem to bring to be in a stack where there is no time to leave each out in turn: single launches of
tips that did nothing were seen to bring 5 %."""

VISIBLE = math.log(1.02)
"""What doing without a member must seem to cost, from too few launches for an interval: two members that did the same
seemed to bring 1.5 % each on top of the other."""

Stack = tuple[str, ...]
"""Names of ways, in the order in which they are followed."""


@dataclass(frozen=True)
class Candidate:
    """A way that was measured alone. mean: ln of the job's time over that of the job that follows it. allowed: whether
    it leaves the results as they are, or may change them. known: whether there are launches enough for a verdict."""

    name: str
    one_of: str
    mean: float
    verdict: str
    allowed: bool = True
    known: bool = True


def first_stack(candidates: Sequence[Candidate], most: int, noise: float = 0.0) -> Stack:
    """All that are allowed and do not seem to harm; of those that exclude each other the one that brings most.

    most: how many there may be; of more those that bring least are left out. noise: how far the job was off beside
    itself; who is not known to be faster must seem to bring more, and from fewer launches than a verdict needs LEAST.
    """
    usable = [
        one
        for one in candidates
        if one.allowed
        and (one.verdict == "faster" or one.mean > max(noise, 0.0 if one.known else LEAST))
        and one.verdict != "slower"
    ]
    best: dict[str, Candidate] = {}
    for one in usable:
        kind = one.one_of or one.name
        if kind not in best or one.mean > best[kind].mean:
            best[kind] = one
    kept = sorted(best.values(), key=lambda one: -one.mean)[:most]
    return tuple(one.name for one in usable if one in kept)


def clear(stack: Stack, alone: Sequence[Candidate]) -> Stack:
    """Those that bring something alone beyond doubt, and the one that brings most."""
    bring = {one.name: one.mean for one in alone}
    sure = {one.name for one in alone if one.verdict == "faster" or one.mean > CLEARLY}
    return tuple(name for name in stack if name in sure or name == max(stack, key=bring.__getitem__))


def left_out(stack: Stack, names: Collection[str]) -> Stack:
    return tuple(one for one in stack if one not in names)


def next_stack(stack: Stack, beside: Mapping[str, Effect], alone: Sequence[Candidate]) -> Stack:
    """The stack to measure next, the same where all members pay. beside: by side of the stack's pair, what was measured
    of it beside the whole stack.

    - Together they fail, or return other results: the one leaves that brings least alone.
    - Some harm: the one leaves without which the job is fastest.
    - Some bring nothing for certain: those leave that do not seem to bring LEAST alone either. Where these are all, or
      none, two of them may bring the same: the one leaves whose absence costs least.
    """
    if "optimized" not in beside:
        bring = {one.name: one.mean for one in alone}
        return left_out(stack, {min(stack, key=lambda name: bring.get(name, 0.0))})
    found = {name: beside[f"{WITHOUT}{name}"] for name in stack if f"{WITHOUT}{name}" in beside}
    without = {name: mean for name, effect in found.items() if (mean := mean_of(effect)) is not None}
    harmful = [name for name in without if found[name].verdict == "faster"]
    if harmful:
        return left_out(stack, {max(harmful, key=without.__getitem__)})
    idle = {name for name in without if not costs(found[name])}
    little = idle - {one.name for one in alone if one.verdict == "faster" or one.mean > LEAST}
    if little and little != set(stack):
        return left_out(stack, little)
    return left_out(stack, {max(sorted(idle), key=without.__getitem__)}) if idle else stack


def costs(effect: Effect) -> bool:
    """Whether a side is slower than the baseline: by its interval, or by more than VISIBLE where there is none yet."""
    return effect.high < 0 if effect.high is not None else (mean_of(effect) or 0.0) < -VISIBLE


def mean_of(effect: Effect) -> float | None:
    """ln of the speedup, from however few launches; None from none."""
    if effect.mean is not None:
        return effect.mean
    return None if effect.so_far is None else math.log(effect.so_far[0])
