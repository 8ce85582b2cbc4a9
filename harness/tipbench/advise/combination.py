"""Which ways to follow tips are combined, from what each brings alone and on top of the others: pure functions.

The combination starts with all compatible ways that are not known to harm, in the order in which they are applied. Each
is left out in turn, and `next_combination` says which leave. What is left is measured once more, by launches that chose
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from tipbench.report.result import Result

SIDE_WITHOUT = "without "
"""Prefix of the name of a side that leaves out one member of a combination; the member's name follows."""

SIDE_OF = "of these "
"""Prefix of the name of a side that follows a few members alone; their names follow."""

MOST_RUNGS = 4
"""Members of a combination of which each is added in turn: each further one is a side more, to be built and timed."""

_LEAST_GAIN = math.log(1.05)
"""What a way must seem to bring if it has too few launches for a verdict, as these are off by some per cent."""

CLEARLY = math.log(1.15)
"""What a way must seem to bring if there is no time to leave each out in turn: single launches of tips that did nothing
seemed to bring 5 %."""

Combination = tuple[str, ...]
"""Names of ways, in the order in which they are followed."""


def first_combination(
    alone: Mapping[str, Result], one_of: Mapping[str, str], most: int, noise: float = 0.0
) -> Combination:
    """All that do not seem to harm; of those that exclude each other the one that brings most.

    alone: by name what each way brings, in the order in which they are followed. one_of: by name what a way excludes:
    of those with the same word only one can be followed. most: how many there may be; those that bring least are left
    out. noise: how far the job was off from itself. A way not yet proven faster must seem to bring more than `noise`,
    and more than _LEAST_GAIN if it has no verdict.
    """
    best: dict[str, str] = {}
    for name, result in alone.items():
        least = max(noise, _LEAST_GAIN if result.verdict == "inconclusive" else 0.0)
        if result.verdict != "slower" and seems_to_pay(result, least):
            kind = one_of[name] or name
            best[kind] = max(best.get(kind, name), name, key=lambda each: log_gain(alone[each]))
    chosen = sorted(best.values(), key=lambda name: -log_gain(alone[name]))[:most]
    return tuple(name for name in alone if name in chosen)


def log_gain(result: Result | None) -> float:
    """ln of the speedup; 0 where nothing was timed."""
    return (result.log_speedup if result else None) or 0.0


def seems_to_pay(result: Result | None, least: float) -> bool:
    """Whether a way is faster for certain, or seems to bring more than `least` (ln)."""
    return result is not None and (result.verdict == "faster" or log_gain(result) > least)


def clear(combination: Combination, alone: Mapping[str, Result]) -> Combination:
    """Those that bring something alone beyond doubt, and the one that brings most."""
    most = max(combination, key=lambda name: log_gain(alone[name]))
    return tuple(name for name in combination if name == most or seems_to_pay(alone[name], CLEARLY))


def left_out(combination: Combination, names: Collection[str]) -> Combination:
    return tuple(name for name in combination if name not in names)


def rungs(combination: Combination, alone: Mapping[str, Result]) -> list[tuple[str, str, Combination]]:
    """(Member, side, its members), one after the other: members are added by what they bring alone, to the job as it
    is, until all are there."""
    order = sorted(combination, key=lambda name: -log_gain(alone.get(name)))
    added = []
    for count, name in enumerate(order, 1):
        members = tuple(member for member in combination if member in order[:count])
        side = f"{SIDE_OF}{' + '.join(members)}"
        if count >= len(order) - 1:  # which are measured anyway
            side = "baseline" if count == len(order) else f"{SIDE_WITHOUT}{order[-1]}"
        added.append((name, side, members))
    return added


def next_combination(combination: Combination, sides: Mapping[str, Result], alone: Mapping[str, Result]) -> Combination:
    """The combination to measure next; the same if all members pay. sides: by side of the combination's pair, its
    effect relative to the whole combination.

    - Together they fail, or return other results: the one leaves that brings least alone.
    - Some harm: the one leaves without which the job is fastest.
    - Some bring nothing for certain: those leave that do not seem to bring _LEAST_GAIN alone either. Where these are
      all, or none, two of them may bring the same: the one leaves whose absence costs least.
    """
    if "optimized" not in sides:
        return left_out(combination, {min(combination, key=lambda name: log_gain(alone.get(name)))})
    results = {name: sides[f"{SIDE_WITHOUT}{name}"] for name in combination if f"{SIDE_WITHOUT}{name}" in sides}
    without = {name: mean for name, result in results.items() if (mean := result.log_speedup) is not None}
    harmful = [name for name in without if results[name].verdict == "faster"]
    if harmful:
        return left_out(combination, {max(harmful, key=without.__getitem__)})
    idle = {name for name in without if not costs(results[name])}
    little = {name for name in idle if not seems_to_pay(alone.get(name), _LEAST_GAIN)}
    if little and little != set(combination):
        return left_out(combination, little)
    return left_out(combination, {max(sorted(idle), key=without.__getitem__)}) if idle else combination


def costs(result: Result) -> bool:
    """Whether a side is slower than the baseline, by its interval."""
    return result.log_high is not None and result.log_high < 0
