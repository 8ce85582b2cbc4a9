"""The evidence that a tip is at work: what of a step is counted, without a clock, and how the tip changes the count.

Tip(..., mechanism=falls("tensors filled with zeros", lambda step: calls(step, "aten::zero_")))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Counting = Callable[[Callable[[], Any]], Any]
"""Counts something in a step, as the functions of `tipbench.tip.counts` do."""


@dataclass(frozen=True)
class Mechanism:
    """What is counted, and which change of the count shows the tip at work.

    Attributes:
        what: the count's name, as a report shows it.
        count: takes a step.
        shows: takes the counts of the baseline and of the tuned side; whether the tip is at work.
    """

    what: str
    count: Counting
    shows: Callable[[Any, Any], bool]


def falls(what: str, count: Counting) -> Mechanism:
    """The tip lowers the count."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized < baseline))


def rises(what: str, count: Counting) -> Mechanism:
    """The tip raises the count."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized > baseline))


def appears(what: str, count: Counting) -> Mechanism:
    """The count is 0 without the tip, and above 0 with it."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized > baseline == 0))


def changes(what: str, count: Counting) -> Mechanism:
    """The tip changes the count, up or down."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized != baseline))


def stays(what: str, count: Counting) -> Mechanism:
    """The count is the same on both sides: there is no tip, or none that this count could show."""
    return Mechanism(what, count, lambda baseline, optimized: bool(optimized == baseline))
