"""A comparison as JSON: a public format, kept stable. Names are only ever added.

    {
      "runs": [{"label", "id", "started", "suite", "commit", "machine", "notices"}],
      "machines": [{"label", "word", "runs"}],
      "grades": [{"left", "right", "grade", "differing", "unknown", "one_machine"}],
      "tips": [{"tip", "title", "workload", "across", "why", "agreed",
                "answers": [{"machine", "kind", "answer", "do", "gain", "against", "price", "sessions", "alike"}]}],
      "comparisons": [{"tip", "pair", "scale", "variant", "device", "across", "count", "q", "i2", "p", "differs",
                       "cells": [{"word", "why", "speedup", "low", "high", "error", "launches", "memory",
                                  "step_s", "variant_step_s"}]}],
      "notes": [...]
    }

Runs are named by their place in `runs`, from 0. machines: of the runs comparable with the first, those of one
machine. word: "machine" or "reference" (of the repository's own runs). grades: of each run with
the first; differing and unknown: [{"part", "field", "left", "right"}]; one_machine: whether both are known to be of
one. The grade "same kind" was called "same machine and state" until November 2026. across: "reverses", "pays on
some", "costs on some", "depends on the job", "pays on all", "costs on all", "little on all", "already the default",
"can't tell", "only seen on one", "not measured"; of a tip in a workload it is made of its answers, of a comparison of
what these are made of. agreed: whether several machines could tell, and all alike. answers: one a machine (a run,
where all are of one), as on the page of its run; nulls where that lacks the tip; sessions: how many it rests on; alike:
false where other sizes, code or another claim answer: these do not count in across. count, q, i2, p: machines,
Cochran's Q, I² and the p-value of Welch's test; null where fewer than two measured it. cells: one a run; word: a
verdict, "skipped", "failed", "missing", "not reached" or "not comparable"; error: the standard error of ln speedup;
memory: null or {"kind", "baseline", "variant"} in bytes. Unknown numbers are null.
"""

from __future__ import annotations

from typing import Any

from tipbench.compare.comparison import Cell, Comparison
from tipbench.compare.consistency import MachineAnswer, TipAcross, consistencies, tips
from tipbench.report.as_json import as_text, fields_of


def render(comparison: Comparison) -> str:
    count = range(len(comparison.runs))
    document = {
        "runs": [_run(comparison, index) for index in count],
        "machines": [fields_of(machine, "label word runs") for machine in comparison.machines],
        "grades": [_grade(comparison, index) for index in count[1:]],
        "tips": list(map(_tip, tips(comparison))),
        "comparisons": [
            {
                **fields_of(comparison.references[key], "tip pair scale variant device"),
                "across": across.word,
                **fields_of(across.spread, "count q i2 p"),
                "differs": across.differs,
                "cells": list(map(_cell, comparison.cells[key])),
            }
            for key, across in consistencies(comparison).items()
        ],
        "notes": comparison.notes,
    }
    return as_text(document)


def _tip(tip: TipAcross) -> dict[str, Any]:
    answers = list(map(_answer, tip.answers))
    return {
        **fields_of(tip, "tip title workload"),
        "across": tip.word,
        **fields_of(tip, "why agreed"),
        "answers": answers,
    }


def _answer(each: MachineAnswer) -> dict[str, Any]:
    answer = fields_of(each.answer, "kind answer do gain against price sessions")
    return {"machine": each.label, **answer, "alike": each.is_alike}


def _run(comparison: Comparison, index: int) -> dict[str, Any]:
    stored = comparison.runs[index]
    return {
        "label": comparison.labels[index],
        **fields_of(stored.run, "id started suite commit"),
        "machine": stored.run.machine,
        "notices": stored.notices,
    }


def _grade(comparison: Comparison, index: int) -> dict[str, Any]:
    grade = comparison.grade(0, index)
    return {
        "left": 0,
        "right": index,
        "grade": grade.grade,
        "differing": list(map(vars, grade.differing)),
        "unknown": list(map(vars, grade.unknown)),
        "one_machine": comparison.is_one_machine(0, index),
    }


def _cell(cell: Cell) -> dict[str, Any]:
    result = cell.result if cell.mean is not None else None
    sides = result.memory_sides if result else None
    return {
        "word": cell.word,
        "why": cell.why or (result.reason if result else ""),
        **fields_of(result, "speedup low high error launches"),
        "memory": result and sides and {"kind": result.memory_kind, "baseline": sides[0], "variant": sides[1]},
        **fields_of(result, "step_s variant_step_s"),
    }
