"""The page of a comparison: what its template `comparison.md.j2` shows, as plain lists."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tipbench.compare.comparison import MISSING, Cell, Comparison, row_name
from tipbench.compare.consistency import REVERSES, MachineAnswer, TipAcross, tips
from tipbench.compare.slow import LEAST_NODES, NONE_SLOW, SlowNodes, SlowPart
from tipbench.records.store import file_name, folder_name
from tipbench.report.answer_kinds import DEPENDS, DO_NOT, IMPOSSIBLE, SMALL, USE, USE_IF
from tipbench.report.front import RECIPES, memory_cell, short_condition, table_cell
from tipbench.report.grade import hardware
from tipbench.report.markdown import render
from tipbench.report.result import MEMORY_KINDS
from tipbench.tip.pair import Claim
from tipbench.tip.wording import change, plural, ratio


def markdown(comparison: Comparison, slow: SlowNodes = NONE_SLOW) -> str:
    """slow: of a fleet, whose kinds of machine are the columns."""
    by_tip = tips(comparison)
    decided = [tip for tip in by_tip if tip.is_decided]
    measured = [key for key, cells in comparison.cells.items() if {each.word for each in cells} - {"skipped", MISSING}]
    return render(
        "comparison.md.j2",
        comparison=comparison,
        title=title_of(comparison),
        what=_what(comparison),
        runs=list(_runs(comparison)),
        names=[comparison.labels[index] for index in comparison.comparable],
        labels=list(comparison.labels),
        decided=len(decided),
        agreed=sum(tip.agreed for tip in decided),
        reversed=sum(tip.word == REVERSES for tip in decided),
        other_questions=any(not answer.is_alike for tip in by_tip for answer in tip.answers),
        answered=[
            {"tip": tip, "answers": list(map(_answer, tip.answers)), "only_if": short_condition(tip.when)}
            for tip in by_tip
            if not _is_impossible(tip)
        ],
        impossible=[tip.title for tip in by_tip if _is_impossible(tip)],
        unusable=len(comparison.runs) - len(comparison.comparable),
        pairs=[(row_name(key, " "), list(map(_cell, comparison.cells[key]))) for key in measured],
        skipped=[row_name(key, " ") for key in comparison.cells if key not in measured],
        grades=list(_grades(comparison)),
        slow=[(label, list(map(_slow, parts))) for label, parts in slow.kinds.items() if parts],
        again=slow.again,
    )


def title_of(comparison: Comparison) -> str:
    what = _what(comparison)
    count = plural(len(comparison.runs), what)
    if what == "kind":
        nodes = sum(len(stored.nodes) for stored in comparison.runs)
        return f"PyTorch tuning tips on {plural(nodes, 'node')} of {count} of machine"
    return f"PyTorch tuning tips {'on' if what == 'machine' else 'in'} {count}"


def _what(comparison: Comparison) -> str:
    """What the columns are, in a word. Runs are of as many machines where the names of their hardware differ."""
    names = {folder_name(stored.run.machine) for stored in comparison.runs}
    return "kind" if comparison.runs[0].nodes else "machine" if len(names) == len(comparison.runs) else "run"


def _runs(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for label, stored in zip(comparison.labels, comparison.runs, strict=True):
        run = stored.run
        yield {
            "label": label,
            "hardware": hardware(run),
            "versions": ", ".join(f"{name} {run.machine[name]}" for name in ("torch", "python") if name in run.machine),
            "of": f"{plural(len(stored.nodes), 'node')} ({', '.join(stored.nodes)})"
            if stored.nodes
            else f"run {file_name(run)}, begun {run.started}",
            "measured": sum(result.is_timed for result in stored.results),
        }


def _is_impossible(tip: TipAcross) -> bool:
    return all(answer.kind in ("", IMPOSSIBLE) for answer in tip.answers)


def _answer(each: MachineAnswer) -> dict[str, Any]:
    answer, brings = each.answer, ""
    if answer is None:
        return {"words": "not in this run", "brings": "", "is_alike": True}
    if answer.kind in (USE, USE_IF, DEPENDS, DO_NOT) and answer.claim not in RECIPES:
        is_memory = answer.claim == Claim.LEANER
        cell = memory_cell([answer]) if is_memory else table_cell(answer)
        brings = f"{cell.strong} {cell.rest}{' memory' * is_memory}".strip().removeprefix("costs: ")
    return {
        "words": answer.answer if answer.kind == SMALL else answer.kind, "brings": brings, "is_alike": each.is_alike,
    }  # fmt: skip


def _cell(cell: Cell) -> dict[str, str]:
    result = cell.result
    if cell.mean is None or result is None or result.speedup is None:
        return {"word": cell.word, "speedup": "", "reason": cell.why}
    memory = ""
    if result.memory_sides:
        changed = change(*result.memory_sides)
        memory = f"{MEMORY_KINDS[result.memory_kind] if changed != 'same' else 'memory'} {changed}"
    return {"word": cell.word, "speedup": ratio(result.speedup, result.low, result.high), "memory": memory}


def _grades(comparison: Comparison) -> Iterator[dict[str, str]]:
    """Of each run, set against the first."""
    for label, graded in list(zip(comparison.labels, comparison.grades, strict=True))[1:]:
        yield {"label": label, "words": graded.grade, "differing": "; ".join(map(str, graded.differing)) or "nothing"}


def _slow(part: SlowPart) -> dict[str, Any]:
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
