"""The page of a fleet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tipbench.compare.comparison import Comparison
from tipbench.compare.consistency import tips
from tipbench.compare.fleet import Fleet, HardwareKind
from tipbench.compare.page import answers_across
from tipbench.compare.slow import LEAST_NODES, SlowPart, parts
from tipbench.report.grade import grade, hardware
from tipbench.report.markdown import render
from tipbench.tip.wording import change, plural

MOST_NAMES = 12
"""Names of nodes that a line of the page lists."""


def title_of(fleet: Fleet) -> str:
    nodes = sum(len(kind.nodes) for kind in fleet.kinds)
    return f"PyTorch tuning tips on {plural(nodes, 'node')} of {plural(len(fleet.kinds), 'kind')} of machine"


def markdown(fleet: Fleet, again: str) -> str:
    """again: the command that measures a node once more, up to its name."""
    comparison = Comparison(tuple(kind.stored for kind in fleet.kinds))  # each as one run
    return render(
        "fleet.md.j2",
        title=title_of(fleet),
        fleet=fleet,
        kinds=[_kind(kind) for kind in fleet.kinds],
        names=[kind.label for kind in fleet.kinds],
        again=again,
        split=list(_split(fleet)),
        **answers_across(tips(comparison), "kind"),
    )


def _kind(kind: HardwareKind) -> dict[str, Any]:
    run = kind.representative.newest.run
    return {
        "label": kind.label,
        "hardware": hardware(run),
        "torch": str(run.machine.get("torch", "not recorded")),
        "nodes": len(kind.nodes),
        "parts": list(map(_part, parts({node.name: [run.results for run in node.runs] for node in kind.nodes}))),
    }


def _split(fleet: Fleet) -> Iterator[dict[str, Any]]:
    """The kinds of the plan that are several kinds of hardware: these, with what differs from the first."""
    for planned in dict.fromkeys(node.planned for kind in fleet.kinds for node in kind.nodes if node.planned):
        kinds = [kind for kind in fleet.kinds if any(node.planned == planned for node in kind.nodes)]
        if len(kinds) > 1:
            yield {"planned": planned, "kinds": [_against(kinds[0], kind) for kind in kinds]}


def _against(first: HardwareKind, kind: HardwareKind) -> dict[str, Any]:
    differing = grade(first.representative.facts, kind.representative.facts).differing
    names = [node.name for node in kind.nodes]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return {
        "label": kind.label,
        "nodes": ", ".join(names[:MOST_NAMES]) + more,
        "differing": [each for each in differing if each.part == "hardware"],
    }


def _part(part: SlowPart) -> dict[str, Any]:
    return {
        "name": part.name,
        "count": len(part.effects),
        "smallest": change(1, math.exp(part.smallest)) if math.isfinite(part.smallest) else "",
        "least_nodes": LEAST_NODES,
        "low": change(1, math.exp(min(part.effects.values()))),
        "high": change(1, math.exp(max(part.effects.values()))),
        "slow": [
            {"node": slow.node, "by": change(1, math.exp(slow.by)), "sure": slow.is_confirmed} for slow in part.slow
        ],
    }
