"""What people ask of a machine, answered in a line each from its answers, or with the command that would tell."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tipbench.report.answer import Answer
from tipbench.report.answer_kinds import (
    ACTS,
    DO_NOT,
    IMPOSSIBLE,
    INFERENCE,
    ONE_GPU,
    OPERATIONS,
    OTHER,
    SEVERAL,
    TRAINING,
    UNCLEAR,
)
from tipbench.tip.pair import Claim
from tipbench.tip.wording import change, job_words, percent

WORK_COLUMNS = {
    TRAINING: "training",
    INFERENCE: "inference",
    ONE_GPU: "one GPU",
    SEVERAL: "several processes",
    OTHER: "other jobs",
    OPERATIONS: "operations alone",
}
"""By workload, the head of its column."""

QUESTIONS = {
    "How many workers for loading?": ("async-loading",),
    "Which batch size?": ("batch-size",),
    "Is compiling worth it?": ("compile-modes",),
    "bfloat16?": ("amp",),
    "TF32?": ("tensor-cores",),
    "channels_last?": ("channels-last",),
    "How many threads, how many processes?": ("openmp-threads", "cpu-ddp"),
    "Which allocator?": ("allocator",),
    "Why is the first step slow? It compiles. What shortens that?": ("regional-compile", "changing-shapes"),
    "What do several GPUs bring?": ("ddp-not-dp",),
}
"""By question, the tips that answer it."""

ALTERS_RESULTS = "Which changes alter results?"
SAVES_MEMORY = "What saves memory, and at what price?"


@dataclass(frozen=True)
class TipLine:
    """A tip in one line, with lines below it."""

    title: str
    address: str
    words: str
    below: tuple[str, ...] = ()


SHORT = 150
"""Most characters of a question and its answer in one line."""


def questions(made: Sequence[Answer], address: Callable[[str], str]) -> Iterator[TipLine]:
    """A line a question, and one for those whose tips cannot be tried here."""
    unknown: dict[str, tuple[str, ...]] = {}
    impossible = {answer.tip for answer in made if answer.kind == IMPOSSIBLE}
    vain = [question for question, tips in QUESTIONS.items() if impossible.issuperset(tips)]
    for question, tips in QUESTIONS.items():
        answers = [answer for tip in tips for answer in made if answer.tip == tip and answer.kind != IMPOSSIBLE]
        if answers:
            yield _line(question, address(answers[0].tip), list(map(_brief, answers)))
        elif question not in vain:
            unknown[question] = tips
    altering = {answer.tip: off for answer in made if answer.kind in ACTS and (off := _off(answer))}
    if altering:
        yield _line(ALTERS_RESULTS, "", [f"{tip} by {off}" for tip, off in altering.items()])
    savers = [answer for answer in made if answer.claim == Claim.LEANER and answer.kind in ACTS]
    if savers:
        yield _line(SAVES_MEMORY, address(savers[0].tip), list(map(_saved, savers)))
    if vain:
        yield TipLine(" ".join(vain), "", "not possible here; the reasons stand below")
    if unknown:
        names = " ".join(tip for tips in unknown.values() for tip in tips)
        yield TipLine("", "", f"`tipbench run {names}` would tell:", tuple(unknown))


def _line(question: str, address: str, parts: Sequence[str]) -> TipLine:
    """In one line, or, where that would be too long, a line each."""
    words = "; ".join(parts)
    is_short = len(question) + len(words) <= SHORT
    return TipLine(question, address, words) if is_short else TipLine(question, address, "", tuple(parts))


def _brief(answer: Answer) -> str:
    where = WORK_COLUMNS[answer.workload]
    if answer.kind == UNCLEAR:
        return f"open in {where}"
    if answer.kind not in (*ACTS, DO_NOT):
        return f"{answer.answer} in {where}"
    lead = answer.ways[0]
    workers = re.search(r"num_workers=(\d+)", lead.do)
    name = f"{workers[1]} workers: " if workers else f"{lead.name}: " if lead.name else ""
    once = [part for part in answer.price.split("; ") if "pays after" in part or part.endswith("once")]
    more = f" ({once[0]})" if once else "" if answer.kind in ACTS else ", which costs"
    first = answer.gains[0]  # which gains if any does
    values = [(way.name.partition("=")[2], gain) for way in answer.ways[1:] for gain in way.gains if "=" in way.name]
    same_job = [(value, gain.effect.mean) for value, gain in values if gain.pair == first.pair]
    others = ", ".join(f"{value}: {math.exp(mean.mean):.2f}x" for value, mean in same_job if mean)
    against = f", against {answer.against}" if answer.against else ""
    return f"{name}{first.brought} in {job_words(first.pair)}{f' ({others})' if others else ''}{more}{against}"


def _off(answer: Answer) -> str:
    """By how much a change alters results by design, at most; empty if it does not."""
    lossy = [gain.effect.row.equal for gain in answer.gains if gain.effect.row.equal.get("method") == "lossy"]
    errors = [error for equal in lossy if isinstance(error := equal.get("error"), float)]
    return percent(max(errors)) if errors else ""


def _saved(answer: Answer) -> str:
    row = answer.gains[0].effect.row
    time = f" for {1 / row.speedup:.2f}x the time" if row.speedup and row.speedup < 0.99 else ""
    return f"{answer.tip} {change(*row.memory_sides) if row.memory_sides else ''}{time}"
