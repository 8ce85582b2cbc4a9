"""The nodes of a fleet: their runs pooled within each kind of machine, as the columns of a comparison.

A kind is what the nodes themselves report: equal hardware, in whatever state. Its nodes are the highest replicates, as
runs are those of one machine: each counts once, by its newest run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tipbench.compare.stored import StoredRun
from tipbench.report.grade import SAME, STATE, Facts, facts, grade
from tipbench.report.result import Key, Result
from tipbench.verdict.pooling import TIMES, pool_runs
from tipbench.verdict.rules import decide
from tipbench.verdict.statistics import Mean


@dataclass(frozen=True)
class FleetNode:
    """A node with its finished runs.

    Attributes:
        name: what a page calls it.
        runs: oldest first; not empty. The last one counts, the others confirm that a node is slow.
    """

    name: str
    runs: tuple[StoredRun, ...]

    @property
    def newest(self) -> StoredRun:
        return self.runs[-1]

    @cached_property
    def facts(self) -> Facts:
        return facts(self.newest.run)


@dataclass(frozen=True)
class HardwareKind:
    """Nodes of equal hardware, by name."""

    nodes: tuple[FleetNode, ...]

    @property
    def stored(self) -> StoredRun:
        """The run with most results, as pairs that it lacks are in no table, with those of all other nodes as if they
        were sessions of one machine."""
        chosen = max(self.nodes, key=lambda node: sum(result.is_timed for result in node.newest.results))
        means: dict[tuple[Key, str], tuple[Mean, ...]] = {}
        for node in sorted(self.nodes, key=lambda node: node is chosen):
            for row in node.newest.results:
                of_node = row.sessions or ((row.mean,) if row.mean else ())
                means[row.key, row.work] = (*means.get((row.key, row.work), ()), *of_node)
        rows = tuple(_pooled(row, means[row.key, row.work]) for row in chosen.newest.results)
        return replace(chosen.newest, results=rows, nodes=tuple(node.name for node in self.nodes))


def _pooled(row: Result, means: tuple[Mean, ...]) -> Result:
    """A row of one node with what all nodes say of its pair."""
    if not row.is_measured or set(means) <= {row.mean, *row.sessions}:  # no other node has it
        return row
    pooled = pool_runs(means, TIMES)
    low, high = map(math.exp, pooled.interval())
    return replace(
        row, sessions=means, verdict=decide(pooled), speedup=math.exp(pooled.mean), low=low, high=high,
        error=pooled.error, freedom=pooled.freedom,
    )  # fmt: skip


def kinds_of_hardware(nodes: Sequence[FleetNode]) -> list[HardwareKind]:
    """The nodes, which are in order of their names, by their hardware and suite; the largest kind first."""
    kinds = list[list[FleetNode]]()
    for node in nodes:
        alike = (kind for kind in kinds if grade(kind[0].facts, node.facts).grade in (SAME, STATE))
        kind = next(alike, None)
        if kind is None:
            kinds.append([node])
        else:
            kind.append(node)
    return [HardwareKind(tuple(kind)) for kind in sorted(kinds, key=lambda kind: -len(kind))]
