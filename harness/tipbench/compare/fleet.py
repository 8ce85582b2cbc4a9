"""The nodes of a fleet: their runs pooled within each kind of machine, and the kinds set against each other; of each
kind the nodes that are slow.

A kind is what the nodes themselves report: equal hardware, in whatever state. Its nodes are the highest replicates, as
runs are those of one machine: each counts once, by its newest run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tipbench.compare.comparison import distinct
from tipbench.compare.stored import StoredRun
from tipbench.records.store import folder_name
from tipbench.report.grade import NOT, SAME, STATE, Facts, facts, grade
from tipbench.report.result import Key
from tipbench.verdict.statistics import Mean


@dataclass(frozen=True)
class FleetNode:
    """A node with its finished runs.

    Attributes:
        name: what a page calls it.
        planned: the kind that the plan has it in; empty if none.
        runs: oldest first; not empty. The last one counts, the others confirm that a node is slow.
    """

    name: str
    planned: str
    runs: tuple[StoredRun, ...]

    @property
    def newest(self) -> StoredRun:
        return self.runs[-1]

    @cached_property
    def facts(self) -> Facts:
        return facts(self.newest.run)


@dataclass(frozen=True)
class HardwareKind:
    """Nodes of equal hardware, by name. label: what a page calls the kind."""

    label: str
    nodes: tuple[FleetNode, ...]

    @cached_property
    def representative(self) -> FleetNode:
        """The node whose run has most results: pairs that it lacks are in no table."""
        return max(self.nodes, key=lambda node: sum(result.is_timed for result in node.newest.results))

    @property
    def stored(self) -> StoredRun:
        """Its run, with those of all other nodes as if they were sessions of one machine."""
        means: dict[tuple[Key, str], tuple[Mean, ...]] = {}
        for node in sorted(self.nodes, key=lambda node: node is self.representative):
            for row in node.newest.results:
                of_node = row.sessions or ((row.mean,) if row.mean else ())
                means[row.key, row.work] = (*means.get((row.key, row.work), ()), *of_node)
        own = self.representative.newest
        return replace(own, results=tuple(replace(row, sessions=means[row.key, row.work]) for row in own.results))


@dataclass(frozen=True)
class Fleet:
    """The kinds of a fleet, the largest first. notes: what a reader must know."""

    kinds: tuple[HardwareKind, ...]
    notes: tuple[str, ...]


def fleet_of_nodes(nodes: Sequence[FleetNode], notes: Sequence[str]) -> Fleet:
    """The fleet of these nodes, which are in order of their names. Nodes whose suite is not that of most are left out
    with a note."""
    suites = Counter(_suite(node) for node in nodes)
    usual = max(suites, key=lambda suite: suites[suite])
    reference = next(node for node in nodes if _suite(node) == usual)
    left_out, kinds = list(notes), list[list[FleetNode]]()
    for node in nodes:
        if grade(reference.facts, node.facts).grade == NOT:
            left_out.append(f"{node.name} was measured with {_suite(node)}, and most nodes with {usual}")
            continue
        alike = (kind for kind in kinds if grade(kind[0].facts, node.facts).grade in (SAME, STATE))
        kind = next(alike, None)
        if kind is None:
            kinds.append([node])
        else:
            kind.append(node)
    kinds.sort(key=lambda kind: -len(kind))
    labels = distinct([folder_name(kind[0].newest.run.machine) for kind in kinds], " ({})")
    made = tuple(HardwareKind(label, tuple(kind)) for label, kind in zip(labels, kinds, strict=True))
    return Fleet(made, tuple(left_out))


def _suite(node: FleetNode) -> str:
    return ", ".join(f"{field} {value}" for (part, field), value in node.facts.items() if part == "suite")
