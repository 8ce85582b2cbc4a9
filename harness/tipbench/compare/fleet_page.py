"""The page of a fleet, and the same as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from tipbench.compare.comparison import row_name
from tipbench.compare.consistency import tips
from tipbench.compare.fleet import Drift, Fleet, Gains, Kind
from tipbench.compare.page import answers_across
from tipbench.compare.slow import LEAST_NODES, Part
from tipbench.report.grade import hardware
from tipbench.report.markdown import render
from tipbench.tip.pair import Claim
from tipbench.tip.wording import change, plural, ratio

MOST_NAMES = 12
"""Names of nodes that a line of the page lists; JSON has all."""


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
        jobs=_jobs(fleet),
        operations=sum(len(gains) for gains in fleet.gains.values())
        - sum(each.effect.newest.scale == "macro" for gains in fleet.gains.values() for each in gains),
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


def _kind(kind: Kind) -> dict[str, Any]:
    return {
        "label": kind.label,
        "hardware": hardware(kind.speaks.newest.run),
        "torch": str(kind.speaks.newest.run.machine.get("torch", "not recorded")),
        "nodes": len(kind.nodes),
        "drift": list(map(_drift, kind.drift)),
        "alone": [{**vars(each), "name": row_name(each.key, " ")} for each in kind.alone],
        "parts": list(map(_part, kind.parts)),
    }


def _jobs(fleet: Fleet) -> list[dict[str, Any]]:
    """Whole jobs that any kind has measured, and a cell for each kind."""
    by_kind = [
        {each.effect.newest.key: each for each in gains if each.effect.newest.scale == "macro"}
        for gains in fleet.gains.values()
    ]
    keys = dict.fromkeys(key for of_kind in by_kind for key in of_kind)
    return [
        {"name": row_name(key, " "), "cells": [_gains(of_kind[key]) if key in of_kind else None for of_kind in by_kind]}
        for key in keys
    ]


def _gains(gains: Gains) -> dict[str, Any]:
    (low, high), (next_low, next_high) = gains.mean.interval(), gains.next_one
    if gains.effect.newest.claim == Claim.LEANER:
        mean = f"{change(1, math.exp(-gains.mean.mean))} memory"
        next_one = f"{change(1, math.exp(-next_high))} to {change(1, math.exp(-next_low))}"
    else:
        mean = ratio(math.exp(gains.mean.mean), math.exp(low), math.exp(high))
        next_one = f"{math.exp(next_low):.2f}x to {math.exp(next_high):.2f}x"
    shown = {"mean": mean, "count": gains.count, "next_one": next_one}
    return {**shown, "differs": gains.differs, "explained": gains.explained}


def _drift(drift: Drift) -> dict[str, Any]:
    values = [{"value": value, "nodes": names(nodes), "count": len(nodes)} for value, nodes in drift.values]
    return {"field": drift.field, "has_majority": drift.has_majority, "values": values}


def _part(part: Part) -> dict[str, Any]:
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


def as_json(fleet: Fleet) -> str:
    """A public format, kept stable. Names are only ever added.

    {
      "kinds": [{"label", "machine", "nodes": [{"name", "planned", "runs"}],
                 "gains": [{"tip", "pair", "variant", "device", "claim", "nodes", "gain", "low", "high", "next_low",
                            "next_high", "q", "i2", "p", "differs", "explained"}],
                 "drift": [{"field", "values": [{"value", "nodes"}]}],
                 "alone": [{"tip", "pair", "variant", "device", "node", "word", "why", "others"}],
                 "parts": [{"name", "effects", "smallest", "slow": [{"node", "by", "confirmed"}]}]}],
      "notes": [...]
    }

    runs: ids, oldest first; the last one counts. gain, low, high, next_low, next_high: what the baseline takes over
    what the variant takes, with the 95 % interval of the mean, and that of one more node. effects, smallest, by: time
    of a node over that of its kind; smallest is null for too few nodes.
    """
    kinds = [
        {
            "label": kind.label,
            "machine": kind.speaks.newest.run.machine,
            "nodes": [
                {"name": node.name, "planned": node.planned, "runs": [stored.run.id for stored in node.runs]}
                for node in kind.nodes
            ],
            "gains": list(map(_gains_as_json, fleet.gains[kind.label])),
            "drift": [
                {"field": drift.field, "values": [{"value": value, "nodes": nodes} for value, nodes in drift.values]}
                for drift in kind.drift
            ],
            "alone": [
                {**_named(each.key), "node": each.node, "word": each.word, "why": each.why, "others": each.others}
                for each in kind.alone
            ],
            "parts": list(map(_part_as_json, kind.parts)),
        }
        for kind in fleet.kinds
    ]
    return json.dumps({"kinds": kinds, "notes": fleet.notes}, indent=2, allow_nan=False) + "\n"


def _named(key: tuple[str, str, str, str]) -> dict[str, str]:
    return dict(zip(("tip", "pair", "variant", "device"), key, strict=True))


def _gains_as_json(gains: Gains) -> dict[str, Any]:
    low, high = gains.mean.interval()
    next_low, next_high = gains.next_one
    ends = {"gain": gains.mean.mean, "low": low, "high": high, "next_low": next_low, "next_high": next_high}
    return {
        **_named(gains.effect.newest.key),
        "claim": gains.effect.newest.claim,
        "nodes": gains.count,
        **{name: math.exp(end) for name, end in ends.items()},
        **{name: gains.spread and getattr(gains.spread, name) for name in ("q", "i2", "p")},
        "differs": gains.differs,
        "explained": gains.explained,
    }


def _part_as_json(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "effects": {node: math.exp(effect) for node, effect in part.effects.items()},
        "smallest": math.exp(part.smallest) if math.isfinite(part.smallest) else None,
        "slow": [{"node": slow.node, "by": math.exp(slow.by), "confirmed": slow.is_confirmed} for slow in part.slow],
    }
