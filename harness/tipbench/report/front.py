"""What the first page of a run says of the answers: a table a workload, and the tips that ask for nothing in lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tipbench.report.answer import Answer
from tipbench.report.answer_kinds import ACTS, DEPENDS, DO_NOT, IMPOSSIBLE, KINDS, SMALL, WORKLOADS
from tipbench.report.gain import Gain
from tipbench.report.ways import AS_IT_IS, Way
from tipbench.tip.pair import TOGETHER

SHORT = 6
"""Most lines that a cell shows of what to write. It holds no indentation."""


def count(made: Sequence[Answer]) -> dict[str, Any]:
    """How many tips were tried, and how many answers are of which kind; tips that cannot be tried here apart."""
    tried = [answer for answer in made if answer.kind != IMPOSSIBLE]
    counted = Counter(answer.kind for answer in tried)
    shown = {kind: f"{kind} x %" if kind == SMALL else kind for kind in KINDS}
    return {
        "tried": len({answer.tip for answer in tried}),
        "kinds": [f"{counted[kind]} {words}" for kind, words in shown.items() if counted[kind]],
        "answers": len(tried),
        "impossible": len({answer.tip for answer in made} - {answer.tip for answer in tried}),
    }


def workloads(
    made: Sequence[Answer], together: Mapping[str, str], address: Callable[[str], str]
) -> list[dict[str, Any]]:
    """By workload: rows with something to write, by kind the other answers in a line each, and what the tips bring
    together."""
    listed = []
    for workload in WORKLOADS:
        of_workload = [answer for answer in made if answer.workload == workload and answer.kind != IMPOSSIBLE]
        lines: dict[str, list[tuple[str, str, str]]] = {}
        for answer in of_workload:
            if answer.kind not in ACTS:
                lines.setdefault(answer.kind, []).append((answer.title, address(answer.tip), _in_brackets(answer)))
        rows = [row for answer in of_workload if answer.kind in ACTS for row in _rows(answer, address(answer.tip))]
        harmful = [_harmful(answer.title, way, address(answer.tip)) for answer in of_workload for way in answer.harmful]
        if of_workload or workload in together:
            evidence = address(TOGETHER) if workload in together else ""
            of_all = {"together": together.get(workload, ""), "evidence": evidence}
            listed.append({"name": workload, "rows": rows, "lines": lines, "harmful": harmful, **of_all})
    return listed


def _rows(answer: Answer, address: str) -> list[dict[str, str]]:
    """What the table says of an answer: a row for the way that it is about, and one for each other way that pays."""
    lead, *_ = answer.ways
    head = {"title": answer.title, "address": address, "when": answer.when}
    cell = answer.answer.replace(f"{answer.kind} {answer.when}", answer.kind) if answer.when else answer.answer
    gains = [_with_word(gain) if lead.kind == DEPENDS else gain.words for gain in lead.gains]
    gain = "; ".join([*gains, *answer.remarks])
    rows = [{**head, "answer": f"or: {cell}" if answer.rival else cell, **_cells(answer.do, gain, lead)}]
    others = [
        {
            **head,
            "answer": f"or: {way.name}" if way.name else "or",
            **_cells(way.do, "; ".join(gain.words for gain in way.gains), way),
        }
        for way in answer.others
    ]
    return [*rows, *others]


def _with_word(gain: Gain) -> str:
    """What the way brings in one of the jobs that it depends on."""
    word = {"gain": "pays in ", "loss": "costs in "}.get(gain.state, "")
    return f"{word}{gain.words}"


def _cells(do: str, gain: str, way: Way) -> dict[str, str]:
    lines = do.split("\n")
    is_short = len(lines) <= SHORT and not any(line.startswith(" ") for line in lines)
    further = "" if is_short else f"{len(lines)} lines, on the tip's page"
    against = way.against or AS_IT_IS
    return {"do": do if is_short else "", "further": further, "gain": gain, "against": against, "price": way.price}


def _harmful(title: str, way: Way, address: str) -> dict[str, str]:
    """A way not to be written, with what it was measured against: another tip may pay that has a part of it."""
    costs = next(gain.words for gain in way.gains if gain.state == "loss")
    return {"title": title, "address": address, "name": way.name, **_cells(way.do, costs, way)}


def _in_brackets(answer: Answer) -> str:
    """What is said of an answer that asks for nothing."""
    what = answer.gain if answer.answer == answer.kind else f"{answer.answer}: {answer.gain}"
    against = answer.against or (AS_IT_IS if answer.kind == DO_NOT else "")
    way = answer.ways[0].name if answer.kind == DO_NOT and answer.ways else ""
    return f"{f'{way}: ' if way else ''}{what}{f', against {against}' if against else ''}"


def impossible(made: Sequence[Answer], address: Callable[[str], str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """By why they cannot be tried here, (title, address) of tips."""
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for answer in made:
        if answer.kind == IMPOSSIBLE:
            by_reason.setdefault(answer.gain, []).append((answer.title, address(answer.tip)))
    return list(by_reason.items())
