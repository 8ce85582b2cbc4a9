"""A comparison as JSON: a public format, kept stable. Names are only ever added.

    {
      "runs": [{"label", "id", "started", "suite", "commit", "profile", "machine", "notices"}],
      "machines": [{"label", "runs"}],
      "grades": [{"left", "right", "grade", "differing", "unknown"}],
      "tips": [{"tip", "title", "across", "why", "agreed",
                "answers": [{"machine", "kind", "answer", "do", "gain", "price", "runs", "alike"}]}],
      "comparisons": [{"tip", "pair", "scale", "variant", "device", "across", "count", "q", "i2", "p", "differs",
                       "cells": [{"word", "why", "speedup", "low", "high", "error", "launches", "memory",
                                  "step_s", "variant_step_s"}]}],
      "geometric_means": [{"run", "scale", "pairs", "speedup", "low", "high"}],
      "notes": [...]
    }

Runs are named by their place in `runs`, from 0. machines: of the runs comparable with the first, those that
hardware cannot tell apart. grades: every comparison of two runs; differing and unknown: [{"part", "field", "left",
"right"}]. across: "reverses", "pays on some", "costs on some", "depends on the job", "pays on all", "costs on all",
"little on all", "already the default", "can't tell", "only seen on one", "not measured"; of a tip it is made of its
answers, of a comparison of what these are made of. agreed: whether several machines could tell, and all
alike. answers: one a machine (a run, where all are of one), as on the page of its run; nulls where that lacks the tip;
runs: how many it rests on; alike: false where other sizes, code or another claim answer: these do not count in across.
count, q, i2, p: machines, Cochran's Q, I² and the p-value of Welch's test; null where fewer than two measured it.
cells: one a run; word: a verdict, "skipped", "failed", "missing", "not reached" or "not comparable"; error: the
standard error of ln speedup; memory: null or {"kind", "baseline", "variant"} in bytes. Unknown numbers are null.
"""

from __future__ import annotations

import json
import math
from typing import Any

from tipbench.compare.comparison import Cell, Comparison
from tipbench.compare.consistency import Said, TipAcross, consistencies, tips
from tipbench.report.grade import Difference


def render(comparison: Comparison) -> str:
    found = consistencies(comparison)
    count = len(comparison.runs)
    document = {
        "runs": [_run(comparison, index) for index in range(count)],
        "machines": [{"label": machine.label, "runs": list(machine.runs)} for machine in comparison.machines],
        "grades": [
            _grade(comparison, left, right) for left in range(count) for right in range(left + 1, count)
        ],
        "tips": list(map(_tip, tips(comparison))),
        "comparisons": [
            {
                "tip": key[0],
                "pair": key[1],
                "scale": comparison.references[key].scale,
                "variant": key[2],
                "device": key[3],
                "across": found_across.word,
                "count": found_across.spread and found_across.spread.count,
                "q": found_across.spread and found_across.spread.q,
                "i2": found_across.spread and found_across.spread.i2,
                "p": found_across.spread and found_across.spread.p,
                "differs": found_across.differs,
                "cells": [_cell(cell) for cell in comparison.cells[key]],
            }
            for key, found_across in found.items()
        ],
        "geometric_means": [
            mean for index in comparison.comparable for scale in ("macro", "micro")
            if (mean := _mean(comparison, index, scale))
        ],
        "notes": list(comparison.notes),
    }  # fmt: skip
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _tip(tip: TipAcross) -> dict[str, Any]:
    found = {"tip": tip.tip, "title": tip.title, "across": tip.word, "why": tip.why, "agreed": tip.agreed}
    return {**found, "answers": list(map(_answer, tip.said))}


def _answer(said: Said) -> dict[str, Any]:
    names = ("kind", "answer", "do", "gain", "price", "runs")
    return {
        "machine": said.label,
        **{name: getattr(said.advice, name, None) for name in names},
        "alike": said.alike,
    }


def _run(comparison: Comparison, index: int) -> dict[str, Any]:
    stored = comparison.runs[index]
    run = stored.run
    return {
        "label": comparison.labels[index],
        "id": run.id,
        "started": run.started,
        "suite": run.suite,
        "commit": run.commit,
        "profile": run.options.get("profile"),
        "machine": run.machine,
        "notices": list(stored.notices),
    }


def _grade(comparison: Comparison, left: int, right: int) -> dict[str, Any]:
    found = comparison.grade(left, right)
    return {
        "left": left,
        "right": right,
        "grade": found.grade,
        "differing": [_difference(one) for one in found.differing],
        "unknown": [_difference(one) for one in found.unknown],
    }


def _difference(found: Difference) -> dict[str, Any]:
    return {"part": found.part, "field": found.field, "left": found.left, "right": found.right}


def _cell(cell: Cell) -> dict[str, Any]:
    found = cell.effect if cell.mean is not None else None
    memory = None
    if found is not None and found.memory_kind:
        memory = {"kind": found.memory_kind, "baseline": found.memory_before, "variant": found.memory_after}
    return {
        "word": cell.word,
        "why": cell.why or (found.reason if found is not None else ""),
        "speedup": _ratio(found.mean if found else None),
        "low": _ratio(found.low if found else None),
        "high": _ratio(found.high if found else None),
        "error": found and found.error,
        "launches": found and found.launches,
        "memory": memory,
        "step_s": found and found.step_s,
        "variant_step_s": found and found.variant_step_s,
    }


def _ratio(logarithm: float | None) -> float | None:
    return None if logarithm is None else math.exp(logarithm)


def _mean(comparison: Comparison, index: int, scale: str) -> dict[str, Any] | None:
    found = comparison.geometric_mean(index, scale)
    if found is None:
        return None
    mean, pairs = found
    low, high = mean.interval()
    ends = {"speedup": math.exp(mean.mean), "low": math.exp(low), "high": math.exp(high)}
    return {"run": index, "scale": scale, "pairs": pairs, **ends}
