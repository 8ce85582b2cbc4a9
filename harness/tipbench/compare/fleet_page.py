"""The page of a fleet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tipbench.compare.consistency import tips
from tipbench.compare.fleet import Fleet, HardwareKind
from tipbench.compare.page import answers_across
from tipbench.compare.slow import LEAST_NODES, SlowPart
from tipbench.report.grade import hardware
from tipbench.report.markdown import render
from tipbench.tip.wording import change, plural

MOST_NAMES = 12
"""Names of nodes that a line of the page lists."""


def title_of(fleet: Fleet) -> str:
    nodes = sum(len(kind.nodes) for kind in fleet.kinds)
    return f"PyTorch tuning tips on {plural(nodes, 'node')} of {plural(len(fleet.kinds), 'kind')} of machine"


def markdown(fleet: Fleet, again: str = "") -> str:
    """again: the command that measures a node once more, up to its name; empty to name none."""
    return render(
        "fleet.md.j2",
        title=title_of(fleet),
        fleet=fleet,
        kinds=[_kind(kind) for kind in fleet.kinds],
        labels=[kind.label for kind in fleet.kinds],
        again=again,
        split=[
            {
                "planned": planned,
                "kinds": [
                    {"label": kind.label, "nodes": names([node.name for node in kind.nodes]), "differing": differing}
                    for kind, differing in kinds
                ],
            }
            for planned, kinds in fleet.split.items()
        ],
        **answers_across(tips(fleet.comparison), "kind"),
    )


def _kind(kind: HardwareKind) -> dict[str, Any]:
    return {
        "label": kind.label,
        "hardware": hardware(kind.representative.newest.run),
        "torch": str(kind.representative.newest.run.machine.get("torch", "not recorded")),
        "nodes": len(kind.nodes),
        "parts": list(map(_part, kind.parts)),
    }


def _part(part: SlowPart) -> dict[str, Any]:
    return {
        "name": part.name,
        "count": len(part.effects),
        "is_judged": math.isfinite(part.smallest),
        "smallest": change(1, math.exp(part.smallest)) if math.isfinite(part.smallest) else "",
        "least_nodes": LEAST_NODES,
        "low": change(1, math.exp(min(part.effects.values()))),
        "high": change(1, math.exp(max(part.effects.values()))),
        "slow": [
            {"node": slow.node, "by": change(1, math.exp(slow.by)), "sure": slow.is_confirmed} for slow in part.slow
        ],
    }


def names(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else ""
    return ", ".join(nodes[:MOST_NAMES]) + more
