"""What people ask of a machine, answered in a line each from its answers, or with the command that would tell."""

from __future__ import annotations

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
    SMALL,
    TRAINING,
    UNCLEAR,
    USE,
    USE_IF,
)
from tipbench.report.markdown import start_line
from tipbench.report.price import are_tensors_all, price, time_factors
from tipbench.suite.loops import PLAIN_START
from tipbench.tip.pair import Claim, Equal
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
    "How many workers? (time to load a batch divided by the rest of a step; a core each if they decode)": (
        "async-loading",
    ),
    "Which batch size?": ("batch-size", "request-batches"),
    "Is compiling worth it?": ("compile-modes", "frozen-weights", "ahead-of-time"),
    "bfloat16? (float16 is tried on GPUs alone)": ("amp", "half-precision"),
    "TF32?": ("tensor-cores",),
    "channels_last?": ("channels-last",),
    "no_grad or inference_mode?": ("no-grad",),
    "How many threads, how many processes?": ("openmp-threads", "cpu-ddp"),
    "Which allocator?": ("allocator",),
    "What shortens the first step? (it compiles, starts workers or fills caches)": (
        "regional-compile",
        "changing-shapes",
        "compile-cache",
        "mapped-weights",
    ),
    "What do several GPUs bring?": ("ddp-not-dp",),
}
"""By question, the tips that answer it."""

ROUNDED = 1e-3
"""More of the largest value no rounding in float32 changed in the stored runs, where results should be equal."""


@dataclass(frozen=True)
class TipLine:
    """A tip in one line, with lines below it."""

    title: str
    address: str
    words: str
    below: tuple[str, ...] = ()


MOST, LEANER, MOST_BESIDES = 3, 0.1, 6
"""Most jobs that an answer names; least share of live tensors that a change saves, to be named; and most of these."""

SHORT = 156
"""Most characters of a question and its answer in one line."""


def questions(made: Sequence[Answer], address: Callable[[str], str]) -> Iterator[TipLine]:
    """A line a question; of those whose tips cannot be tried here, why."""
    unknown, vain = dict[str, tuple[str, ...]](), list[str]()
    impossible = {answer.tip: answer.gain for answer in made if answer.kind == IMPOSSIBLE}
    for question, tips in QUESTIONS.items():
        answers = [answer for tip in tips for answer in made if answer.tip == tip and answer.kind != IMPOSSIBLE]
        if answers:
            lines: list[str] = []
            for each in answers:
                lines.append(_brief(each, "" if each.tip == tips[0] else each.tip))
                if each.kind in ACTS and PLAIN_START in (start := each.ways[0].do) and "\n" not in start:
                    lines.append(f"`{start_line(start, each.workload)}`")
            yield _line(question, address(answers[0].tip), lines)
        elif possible := tuple(tip for tip in tips if tip not in impossible):
            unknown[question] = possible
        else:
            vain.append(f"{question} {why_impossible(impossible[tips[0]])}")
    altering = {answer.tip: off for answer in made if (off := _off(answer))}
    if altering:
        question = f"Which changes alter outputs by more than {100 * ROUNDED:g} % of the largest output?"
        offs = [*(f"{tip}: {off}" for tip, off in altering.items()), "others, recipes aside: less in these jobs"]
        yield _line(question, "", ["; ".join(offs[first : first + 3]) for first in range(0, len(offs), 3)])
    savers = [answer for answer in made if answer.claim == Claim.LEANER and answer.kind in ACTS]
    besides = dict(sorted(filter(None, map(_leaner, made)), key=lambda pair: pair[1]))  # of a tip the largest
    most = sorted(besides, key=besides.__getitem__, reverse=True)[:MOST_BESIDES]
    words = ", ".join(f"{tip} -{percent(besides[tip])}" for tip in most)
    if savers:
        yield _line(
            "What saves memory of live tensors, and at what price? (each in a job of its own)",
            address(savers[0].tip),
            [*map(_saved, savers), *([f"faster besides: {words}"] * bool(words))],
        )
    yield from (TipLine("", "", words) for words in short_lines(vain, SHORT))
    if unknown:
        names = " ".join(tip for tips in unknown.values() for tip in tips)
        yield TipLine("", "", f"`tipbench run {names}` would tell:", tuple(unknown))


def why_impossible(reasons: str) -> str:
    """The first of an answer's reasons: the tip's page has all, with what to do about them."""
    return re.split(r"; | \(remedy", reasons)[0]


def short_lines(parts: Sequence[str], most: int) -> list[str]:
    """In one line, if that is short."""
    line = "; ".join(filter(None, parts))
    return [line] if line and len(line) <= most else list(parts)


def _line(question: str, address: str, parts: Sequence[str]) -> TipLine:
    """In one line, or, where that would be too long, a line each."""
    words = "; ".join(parts)
    is_short = len(question) + len(words) <= SHORT
    return TipLine(question, address, words) if is_short else TipLine(question, address, "", tuple(parts))


def _brief(answer: Answer, tip: str) -> str:
    """tip: that is named ahead; empty for the question's own."""
    where, head = WORK_COLUMNS[answer.workload], f"{tip}: " if tip else ""
    if answer.kind == UNCLEAR:
        return f"{head}open in {where}"
    is_unknown = any(one.row.about.once == "compiling" and not one.row.one_off_sides for one in answer.gains[:1])
    prices = ["break-even not measured"] if is_unknown else []
    if answer.kind not in (*ACTS, DO_NOT):
        if not 0 < len(answer.gains) <= MOST:
            return f"{head}{answer.answer} in {where}"
        jobs = ", ".join(f"{gain.brought} in {job_words(gain.row.pair)}" for gain in answer.gains)
        answered = "little" if answer.kind == SMALL else answer.answer
        return f"{head}{answered}: {jobs}{''.join(f' ({each})' for each in prices)}"
    lead, first = answer.ways[0], answer.gains[0]  # which gains if any does
    is_only = len(answer.gains) == 1 and not answer.alternatives
    parts = price([first.row], ()).split("; ")
    prices += [part for part in parts if "pays after" in part or part.endswith("once")]
    prices += [part for part in parts if is_only and part.startswith("+")][:1]
    more = f" ({'; '.join(prices)})" * bool(prices) if answer.kind in ACTS else ", which costs"
    named = answer.gains[0].row.variant if lead.value else "" if tip else lead.name
    name, others = f"{head}{named}{': ' * bool(named)}", f" ({answer.alternatives})" * bool(answer.alternatives)
    pays = sum(gain.state.word == "gain" for gain in answer.gains)
    losses = [gain for gain in answer.gains if gain.state.word == "loss" and answer.kind != DO_NOT]
    is_few = 0 < pays < len(answer.gains) - len(losses) and not lead.value
    few = f" ({pays} of {len(answer.gains)} jobs)" if is_few else ""
    brought = lead.cost if answer.kind == DO_NOT else f"{first.brought} in {job_words(first.row.pair)}{few}"
    brought += "".join(f", but {loss.brought} in {job_words(loss.row.pair)}" for loss in losses)
    against = first.row.about.against if first.row.scale == "macro" else answer.against
    return f"{name}{brought}{others}{more}{f', against {against}' * bool(against)}"


def _off(answer: Answer) -> str:
    """By how much a change alters results, at most, and where; empty if by no more than rounding, or than the baseline
    is off."""
    errors = []
    for row in (gain.row for gain in answer.gains):
        error = row.equal.get("error" if row.equal.get("method") == Equal.LOSSY else "worst")
        of_baseline = row.equal.get("baseline_error", 0.0)
        if isinstance(error, float) and isinstance(of_baseline, float) and error > max(ROUNDED, 2 * of_baseline):
            errors.append((error, row.pair))
    return f"{percent(max(errors)[0])} in {job_words(max(errors)[1])}" if errors else ""


def _leaner(answer: Answer) -> tuple[str, float] | None:
    """(`sdpa`, 0.39): the largest share of live tensors that a change about time saves where it pays; None: little."""
    pays = answer.claim == Claim.FASTER and answer.kind in (USE, USE_IF)
    rows = [gain.row for gain in answer.gains if pays and gain.state.word == "gain" and are_tensors_all(gain.row)]
    saved = max((1 - sides[1] / sides[0] for row in rows if (sides := row.memory_sides)), default=0.0)
    return (answer.tip, saved) if saved > LEANER else None


def _saved(answer: Answer) -> str:
    jobs = []
    for row in (gain.row for gain in answer.gains if gain.state.word == "gain"):
        low, high = time_factors(row)
        ends = f"({1 / (row.high or 1):.2f}-{1 / (row.low or 1):.2f})"
        time = f" for {high:.2f}x {ends} the time" if low == high else f", time open {ends}"
        jobs.append(f"{job_words(row.pair)} {change(*row.memory_sides or (1, 1))}{time * (high > 1.01)}")
    return f"{answer.tip}: {', '.join(jobs)}"
