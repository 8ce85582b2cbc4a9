"""The page of a comparison: what its template `comparison.md.j2` shows, as plain lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from tipbench.compare.comparison import MISSING, NOT_REACHED, Cell, Comparison, row_name
from tipbench.compare.consistency import REVERSES, MachineAnswer, PairAcross, TipAcross, pairs_across, tips
from tipbench.records.store import file_name, folder_name
from tipbench.report.answer_kinds import ACTS, DO_NOT, IMPOSSIBLE, SMALL
from tipbench.report.front import RECIPES, memory_cell, short_condition, table_cell
from tipbench.report.grade import hardware
from tipbench.report.markdown import render
from tipbench.report.measure import UNDECIDED
from tipbench.report.result import MEMORY_KINDS, Key
from tipbench.tip.pair import Claim
from tipbench.tip.wording import change, plural, ratio, value


def markdown(comparison: Comparison) -> str:
    across = pairs_across(comparison)
    what = "machine" if comparison.are_machines else "run"
    skipped = {"skipped", MISSING, NOT_REACHED}
    measured = [key for key, cells in comparison.cells.items() if {each.word for each in cells} - skipped]
    return render(
        "comparison.md.j2",
        comparison=comparison,
        title=title_of(comparison),
        groups=list(_groups(comparison)),
        names=column_names(comparison),
        labels=list(comparison.labels),
        **answers_across(tips(comparison), what),
        limits=_limits(comparison),
        pairs=[_pair(comparison, key, across[key]) for key in measured],
        skipped=[row_name(key, " ") for key in comparison.cells if key not in measured],
        runs=list(_runs(comparison)),
        grades=list(_grades(comparison)),
    )


def answers_across(by_tip: Sequence[TipAcross], what: str) -> dict[str, Any]:
    """What the template `answers_across.md.j2` shows. what: is set against each other, in one word."""
    decided = [tip for tip in by_tip if tip.is_decided]
    return {
        "what": what,
        "decided": len(decided),
        "agreed": sum(tip.agreed for tip in decided),
        "reversed": sum(tip.word == REVERSES for tip in decided),
        "other_questions": any(not answer.is_alike for tip in by_tip for answer in tip.answers),
        "answered": [
            {"tip": tip, "answers": list(map(_answer, tip.answers)), "only_if": short_condition(tip.when)}
            for tip in by_tip
            if not _is_impossible(tip)
        ],
        "impossible": [tip.title for tip in by_tip if _is_impossible(tip)],
    }


def title_of(comparison: Comparison) -> str:
    """It names what the machines are as a fact only if no field that a run lacks could change that."""
    runs, first = plural(len(comparison.runs), "run"), comparison.runs[comparison.machines[0].representative]
    title = f"PyTorch tuning tips in {runs} of {folder_name(first.run.machine)}"
    if comparison.are_machines:
        title = f"PyTorch tuning tips on {plural(len(comparison.machines), 'machine')}"
    elif len(comparison.hardware) > 1:
        title = f"PyTorch tuning tips in {runs} on {len(comparison.hardware)} kinds of hardware"
    is_sure = all(comparison.grade(*couple).is_sure for couple in combinations(comparison.comparable, 2))
    return title if is_sure else f"{title}, as far as recorded"


def column_names(comparison: Comparison) -> list[str]:
    """The groups' labels, of machines without the words at their ends that all of them have."""
    labels = [group.label for group in comparison.groups]
    if len(comparison.hardware) < 2:
        return labels
    parts = [label.split("-") for label in labels]
    for end in (0, -1):
        while min(map(len, parts)) > 1 and len({part[end] for part in parts}) == 1:
            parts = [part[1:] if end == 0 else part[:-1] for part in parts]
    names = ["-".join(part) for part in parts]
    return names if len(set(names)) == len(names) else labels


def _groups(comparison: Comparison) -> Iterator[dict[str, str]]:
    """What the columns are, and of which runs."""
    for name, group in zip(column_names(comparison), comparison.groups, strict=True):
        run = comparison.runs[group.representative].run
        further = f"; {plural(len(group.runs) - 1, 'more run')} of it below" if len(group.runs) > 1 else ""
        yield {
            "name": name,
            "label": group.label,
            "word": group.word,
            "hardware": hardware(run),
            "torch": value(run.machine.get("torch", "not recorded")),
            "runs": f"run {file_name(run)}{further}",
        }


def _is_impossible(tip: TipAcross) -> bool:
    return all(answer.kind in ("", IMPOSSIBLE) for answer in tip.answers)


def _answer(each: MachineAnswer) -> dict[str, Any]:
    answer = each.answer
    if answer is None:
        return {"words": "not in this run", "brings": "", "is_alike": True}
    cell = memory_cell([answer]) if answer.claim == Claim.LEANER else table_cell(answer)
    brings = f"{cell.strong} {cell.rest}{' memory' * (answer.claim == Claim.LEANER)}".strip().removeprefix("costs: ")
    if answer.kind not in (*ACTS, DO_NOT) or answer.claim in RECIPES:
        first = next((gain for gain in answer.gains if answer.kind != SMALL and gain.mean), None)
        brings = re.split(r" \(|; |(?<=target), ", first.brought.removeprefix(UNDECIDED))[0] if first else ""
    words = answer.answer if answer.kind == SMALL else answer.kind
    return {"words": words, "brings": brings, "is_alike": each.is_alike}


def _limits(comparison: Comparison) -> list[str]:
    kinds = len(comparison.hardware)
    first = f"These are {kinds} kinds of hardware, not all there are: what pays on all may not pay on the next."
    if kinds == 1:
        first = "All runs are of the same hardware: nothing here says what other hardware would show."
    if len(comparison.machines) > kinds:
        first += " Runs of equal hardware that lie in different folders may be of one machine; they count apart."
    limits = [f"Limits. {first}"]
    unusable = len(comparison.runs) - len(comparison.comparable)
    if unusable:
        limits.append(f"{plural(unusable, 'run')} cannot be compared with the first one, and no statement rests on it.")
    if comparison.called_different:
        controls = ", ".join(comparison.called_different)
        limits.append(f"Identical code was called different ({controls}): distrust small effects there.")
    return limits


def _pair(comparison: Comparison, key: Key, across: PairAcross) -> dict[str, Any]:
    p = "" if across.p is None else "< 0.0001" if across.p < 1e-4 else f"{across.p:.2g}"
    cells = list(map(_cell, comparison.cells[key]))
    return {"name": row_name(key, " "), "cells": cells, "differs": across.differs, "p": p}


def _cell(cell: Cell) -> dict[str, str]:
    result = cell.result
    if cell.mean is None or result is None or result.speedup is None:
        return {"word": cell.word, "speedup": "", "reason": cell.why}
    memory = ""
    if result.memory_sides:
        changed = change(*result.memory_sides)
        memory = f"{MEMORY_KINDS[result.memory_kind] if changed != 'same' else 'memory'} {changed}"
    return {"word": cell.word, "speedup": ratio(result.speedup, result.low, result.high), "memory": memory}


def _runs(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for label, stored in zip(comparison.labels, comparison.runs, strict=True):
        run = stored.run
        yield {
            "label": label,
            "hardware": hardware(run),
            "versions": ", ".join(f"{name} {run.machine.get(name, 'not recorded')}" for name in ("torch", "python")),
            "started": run.started,
            "id": run.id,
            "measured": sum(result.is_timed for result in stored.results),
        }


def _grades(comparison: Comparison) -> Iterator[dict[str, str]]:
    """Of each run, set against the first."""
    for index, label in enumerate(comparison.labels[1:], 1):
        graded = comparison.grade(0, index)
        yield {
            "left": comparison.labels[0],
            "right": label,
            "words": comparison.relation(0, index),
            "differing": "; ".join(map(str, graded.differing)) or "nothing",
            "unknown": "; ".join(map(str, graded.unknown)) or "nothing",
        }
