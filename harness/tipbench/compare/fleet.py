"""The nodes of a fleet: their runs pooled within each kind of machine, and the kinds set against each other.

A kind is what the nodes themselves report: equal hardware, in whatever state. Its nodes are the highest replicates, as
runs are those of one machine: each counts once, by its newest run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tipbench.compare.comparison import Comparison
from tipbench.compare.means import Heterogeneity, difference, heterogeneity
from tipbench.compare.slow import Part, parts
from tipbench.compare.stored import Stored
from tipbench.records.store import folder_name
from tipbench.report.grade import NOT, SAME, STATE, Difference, Facts, Grade, facts, grade, is_unknown
from tipbench.report.grade import shown as shown_field
from tipbench.report.measure import Effect, effects
from tipbench.report.result import Key, Result
from tipbench.tip.pair import CONTROL, Claim
from tipbench.tip.wording import plural
from tipbench.verdict.pooling import TIMES, Mean, next_one, pooled
from tipbench.verdict.statistics import discoveries
from tipbench.verdict.verdict import FALSE_DISCOVERY_RATE

SURE = 0.05
"""Error at which a field is named that may explain why nodes differ, shared by all fields."""


@dataclass(frozen=True)
class Node:
    """A node with its finished runs.

    Attributes:
        name: what a page calls it.
        planned: the kind that the plan has it in; empty if none.
        runs: oldest first; not empty. The last one counts, the others confirm that a node is slow.
    """

    name: str
    planned: str
    runs: tuple[Stored, ...]

    @property
    def newest(self) -> Stored:
        return self.runs[-1]

    @cached_property
    def facts(self) -> Facts:
        return facts(self.newest.run)

    @cached_property
    def results(self) -> Mapping[Key, Result]:
        return {result.key: result for result in self.newest.results}


@dataclass(frozen=True)
class Drift:
    """A field that nodes of one kind do not share. values: the nodes that have each, the most frequent value first."""

    field: str
    values: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def has_majority(self) -> bool:
        return 2 * len(self.values[0][1]) > sum(len(nodes) for _, nodes in self.values)


@dataclass(frozen=True)
class Alone:
    """A pair that has no result on one node, and one on all other nodes that came to it."""

    key: Key
    node: str
    word: str
    why: str
    others: int


@dataclass(frozen=True)
class Gains:
    """What one comparison shows on the nodes of a kind.

    Attributes:
        effect: on the kind, as answers have it.
        mean: over the nodes, each counted once.
        count: of these nodes.
        next_one: where it lies on one more node, in ln.
        spread: whether the nodes differ; None for one node, and for readings without an error.
        differs: whether they do, with false discoveries held to 5 % over all comparisons of the fleet.
        explained: fields that tell the nodes apart which differ.
    """

    effect: Effect
    mean: Mean
    count: int
    next_one: tuple[float, float]
    spread: Heterogeneity | None
    differs: bool = False
    explained: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """Nodes of equal hardware, by name. label: what a page calls the kind."""

    label: str
    nodes: tuple[Node, ...]

    @cached_property
    def speaks(self) -> Node:
        """The node whose run has most results: pairs that it lacks are in no table."""
        return max(self.nodes, key=lambda node: sum(result.is_decided for result in node.results.values()))

    @cached_property
    def stored(self) -> Stored:
        """Its run, with those of all other nodes as if they were earlier ones of one machine."""
        others = tuple(node.newest.results for node in self.nodes if node is not self.speaks)
        return replace(self.speaks.newest, earlier=others)

    @cached_property
    def effects(self) -> Mapping[Key, Effect]:
        return effects((*self.stored.earlier, self.stored.results))

    @cached_property
    def parts(self) -> list[Part]:
        return parts({node.name: [run.results for run in node.runs] for node in self.nodes})

    @cached_property
    def drift(self) -> list[Drift]:
        """Fields of state, versions, code and profile; a value that is not recorded differs from none."""
        places = dict.fromkeys(place for node in self.nodes for place in node.facts if place[0] != "hardware")
        drifts = []
        for place in places:
            by_value = self._by_value(place)
            if len(by_value) > 1:
                drifts.append(Drift(place[1], tuple((value, tuple(nodes)) for value, nodes in by_value)))
        return drifts

    def _by_value(self, place: tuple[str, str]) -> list[tuple[str, list[str]]]:
        by_value: dict[str, list[str]] = {}
        for node in self.nodes:
            if place in node.facts and not is_unknown(node.facts[place]):
                by_value.setdefault(shown_field(place[1], node.facts[place]), []).append(node.name)
        return sorted(by_value.items(), key=lambda item: -len(item[1]))

    @cached_property
    def alone(self) -> list[Alone]:
        found = []
        for key in dict.fromkeys(key for node in self.nodes for key in node.results):
            of_key = {node.name: node.results[key] for node in self.nodes if key in node.results}
            without = [(name, result) for name, result in of_key.items() if not result.is_measured]
            if len(without) == 1 and len(of_key) > 2:
                ((name, result),) = without
                found.append(Alone(key, name, result.verdict, result.reason, len(of_key) - 1))
        return found

    @cached_property
    def gains(self) -> list[Gains]:
        """Of comparisons that promise less time or memory, the controls left out."""
        found = []
        for key, effect in self.effects.items():
            if key[0] == CONTROL or effect.newest.claim not in (Claim.FASTER, Claim.LEANER):
                continue
            by_node = self._means(effect)
            if not by_node:
                continue
            means, spread = list(by_node.values()), effect.measure.spread
            varies = heterogeneity(means) if len(means) > 1 and effect.newest.claim == Claim.FASTER else None
            found.append(Gains(effect, pooled(means, spread), len(means), next_one(means, spread), varies))
        return found

    def _means(self, effect: Effect) -> dict[str, Mean]:
        """By node its own, of the same code at the same sizes."""
        of_nodes = {}
        for node in self.nodes:
            result = node.results.get(effect.newest.key)
            if result is not None and result.is_measured and result.work == effect.newest.work:
                of_nodes[node.name] = effect.measure.of(result)
        return {name: mean for name, mean in of_nodes.items() if mean is not None}

    def explained(self, effect: Effect) -> tuple[str, ...]:
        """Fields by whose value the nodes' means differ: the minority's from the majority's."""
        means, named = self._means(effect), []
        for drift in self.drift:
            most = [means[name] for name in drift.values[0][1] if name in means]
            for value, nodes in drift.values[1:]:
                few = [means[name] for name in nodes if name in means]
                if most and few:
                    apart = difference(pooled(most, TIMES), pooled(few, TIMES))
                    if apart.p_beyond(0) < SURE / len(self.drift):
                        named.append(f"{drift.field} {value}")
        return tuple(named)


@dataclass(frozen=True)
class Fleet:
    """The kinds of a fleet, the largest first. notes: what a reader must know."""

    kinds: tuple[Kind, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def comparison(self) -> Comparison:
        """Of the kinds, each as one run."""
        return Comparison(tuple(kind.stored for kind in self.kinds))

    @cached_property
    def gains(self) -> dict[str, list[Gains]]:
        """By the kind's label."""
        all_gains = [(kind, gains) for kind in self.kinds for gains in kind.gains]
        tested = [gains.spread.p for _, gains in all_gains if gains.spread]
        discovered = iter(discoveries(tested, FALSE_DISCOVERY_RATE))
        by_kind: dict[str, list[Gains]] = {kind.label: [] for kind in self.kinds}
        for kind, gains in all_gains:
            differs = bool(gains.spread) and next(discovered)
            explained = kind.explained(gains.effect) if differs else ()
            by_kind[kind.label].append(replace(gains, differs=differs, explained=explained))
        return by_kind

    @cached_property
    def split(self) -> dict[str, list[tuple[Kind, tuple[Difference, ...]]]]:
        """By kind of the plan that is several kinds of hardware: these, with what differs from the first."""
        found = {}
        for planned in dict.fromkeys(node.planned for kind in self.kinds for node in kind.nodes if node.planned):
            kinds = [kind for kind in self.kinds if any(node.planned == planned for node in kind.nodes)]
            if len(kinds) > 1:
                found[planned] = [(kind, _hardware(grade(kinds[0].speaks.facts, kind.speaks.facts))) for kind in kinds]
        return found


def _hardware(of: Grade) -> tuple[Difference, ...]:
    return tuple(differing for differing in of.differing if differing.part == "hardware")


def of_nodes(nodes: Sequence[Node], notes: Sequence[str] = ()) -> Fleet:
    """The fleet of these nodes, which are in order of their names. Nodes whose suite is not that of most are left out
    with a note."""
    suites = Counter(_suite(node) for node in nodes)
    usual = max(suites, key=lambda suite: suites[suite])
    reference = next(node for node in nodes if _suite(node) == usual)
    left_out, kinds = list(notes), list[list[Node]]()
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
    labels = _labels([folder_name(kind[0].newest.run.machine) for kind in kinds])
    made = tuple(Kind(label, tuple(kind)) for label, kind in zip(labels, kinds, strict=True))
    return Fleet(made, tuple(left_out))


def _suite(node: Node) -> str:
    suite: dict[str, Any] = {field: value for (part, field), value in node.facts.items() if part == "suite"}
    return ", ".join(f"{field} {value}" for field, value in suite.items())


def _labels(names: Sequence[str]) -> list[str]:
    """The machines' names, numbered where several kinds have the same."""
    return [
        name if names.count(name) == 1 else f"{name} ({names[: place + 1].count(name)})"
        for place, name in enumerate(names)
    ]


def anonymous(fleet: Fleet) -> Fleet:
    """With numbers in place of the nodes' names, and without those of the plan's kinds: they are nobody else's. Notes,
    which name nodes too, are counted."""
    kinds = []
    for kind in fleet.kinds:
        numbered = (
            replace(node, name=f"node {number} of {len(kind.nodes)}", planned="")
            for number, node in enumerate(kind.nodes, 1)
        )
        kinds.append(Kind(kind.label, tuple(numbered)))
    count = len(fleet.notes)
    return Fleet(tuple(kinds), (f"{plural(count, 'node')} or files of nodes, as they could not",) if count else ())
