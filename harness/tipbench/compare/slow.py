"""Nodes of one kind that are slow, by part of the machine: pure functions.

One step of Tukey's median polish: of each pair, how far a node's baseline is from the median of all nodes; of each node
and part, the median of these over the part's pairs. Speeds of equal machines differ by several percent from hour to
hour, so one run never names a node: see "Slow nodes" in harness/decisions.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tipbench.report.result import Result
from tipbench.tip.pair import CONTROL

LEAST_NODES = 8

_LEAST_LOSS = math.log(1.03)
"""A node that is less slower is no finding, however alike the others are."""

MANY_NODES, FAR, FAR_OF_MANY = 20, 10.0, 8.0
"""Median absolute deviations beyond which a node is suspected; the smaller number from MANY_NODES on."""

COPYING, PRODUCTS, ONE_CORE, LOADING_DATA, JOBS = "copying memory", "convolutions", "one core", "loading data", "jobs"
SLOW_PARTS = COPYING, PRODUCTS, ONE_CORE, LOADING_DATA, JOBS

_CONTROLS = {"Copy": COPYING, "Convolution": PRODUCTS, "SmallOperations": ONE_CORE}
"""Part by the control that shows it."""

LOADS = ("async-loading", "prefetch", "batches-as-ready", "pin-memory")
"""Tips whose pairs load data."""


@dataclass(frozen=True)
class Slow:
    """A node that is suspected. by: ln of its time over the kind's, in its newest run. is_confirmed: whether an earlier
    run of the node shows it too."""

    node: str
    by: float
    is_confirmed: bool


@dataclass(frozen=True)
class SlowPart:
    """One part of the machines of a kind.

    Attributes:
        name: one of SLOW_PARTS.
        effects: by node ln of its time over the kind's.
        smallest: the least that a node must be slower by, in ln, to be suspected; infinite for too few nodes.
        slow: the slowest first.
    """

    name: str
    effects: Mapping[str, float]
    smallest: float
    slow: tuple[Slow, ...]


@dataclass(frozen=True)
class SlowNodes:
    """The slow nodes of a fleet.

    Attributes:
        kinds: by kind its parts.
        again: the command that measures a node once more, up to its name.
    """

    kinds: Mapping[str, Sequence[SlowPart]]
    again: str


NONE_SLOW = SlowNodes({}, "")


def parts(runs: Mapping[str, Sequence[Sequence[Result]]]) -> list[SlowPart]:
    """Each part that two nodes or more measured. runs: by node the results of its runs, oldest first."""
    seconds = {node: [_seconds(results) for results in of_node] for node, of_node in runs.items()}
    newest = {node: of_node[-1] for node, of_node in seconds.items()}
    found = []
    for name in SLOW_PARTS:
        rows = sorted({row for of_node in newest.values() for row in of_node if row[0] == name})
        medians = {row: statistics.median(of[row] for of in newest.values() if row in of) for row in rows}
        effects = {node: effect for node, of in newest.items() if (effect := _effect(of, medians)) is not None}
        earlier = {node: [_effect(of, medians) or 0.0 for of in seconds[node][:-1]] for node in effects}
        if len(effects) > 1:
            found.append(slow_part(name, effects, earlier))
    return found


def slow_part(name: str, effects: Mapping[str, float], earlier: Mapping[str, Sequence[float]]) -> SlowPart:
    """earlier: by node the effects in its earlier runs, which confirm that it is slow."""
    smallest = _smallest(list(effects.values()))
    slow = [Slow(node, by, max(earlier[node], default=0.0) > smallest) for node, by in effects.items() if by > smallest]
    return SlowPart(name, effects, smallest, tuple(sorted(slow, key=lambda each: -each.by)))


def _smallest(effects: Sequence[float]) -> float:
    if len(effects) < LEAST_NODES:
        return math.inf
    centre = statistics.median(effects)
    deviation = statistics.median(abs(effect - centre) for effect in effects)
    return max(_LEAST_LOSS, centre + (FAR_OF_MANY if len(effects) >= MANY_NODES else FAR) * deviation)


def _effect(seconds: Mapping[tuple[str, str], float], medians: Mapping[tuple[str, str], float]) -> float | None:
    """None if a run has none of these pairs."""
    apart = [seconds[row] - medians[row] for row in medians if row in seconds]
    return statistics.median(apart) if apart else None


def _seconds(results: Sequence[Result]) -> dict[tuple[str, str], float]:
    """By part and work: ln of the seconds that a step of the baseline takes."""
    return {
        (part, f"{result.pair_name} {result.device} {result.work}"): math.log(result.step_s)
        for result in results
        if result.step_s and result.is_measured and (part := _part(result))
    }


def _part(result: Result) -> str:
    """Empty if it tells of none alone."""
    if result.tip == CONTROL and result.pair in _CONTROLS:
        return _CONTROLS[result.pair]
    if result.tip in LOADS:
        return LOADING_DATA
    return JOBS if result.scale == "macro" else ""
