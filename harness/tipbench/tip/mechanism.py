"""The evidence that a tip is at work: what of a step is counted, without a clock, and how the tip changes the count.

Tip(..., mechanism=falls("tensors filled with zeros", lambda step: calls(step, "aten::zero_")))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Count = Callable[[Callable[[], Any]], Any]
"""Counts something in a step, as the functions of `tipbench.tip.counts` do."""


@dataclass(frozen=True)
class Mechanism:
    """what: the count's name, as a report shows it. count: takes a step. shows: takes the counts of the baseline and
    of the other side, and says whether the tip is at work; `falls` and its like fill it in."""

    what: str
    count: Count
    shows: Callable[[Any, Any], bool]


def falls(what: str, count: Count) -> Mechanism:
    """The tip makes it less."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized < baseline))


def rises(what: str, count: Count) -> Mechanism:
    """The tip makes it more."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized > baseline))


def appears(what: str, count: Count) -> Mechanism:
    """Without the tip there is none of it."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized > baseline == 0))


def changes(what: str, count: Count) -> Mechanism:
    """The tip makes it another, to either side."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized != baseline))


def stays(what: str, count: Count) -> Mechanism:
    """There is no tip, or none that this could show; what can be checked is that both sides do the same."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized == baseline))
