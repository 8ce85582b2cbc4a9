"""What following a tip costs, in words. It is never blank: a reader must not take "not measured" for "nothing"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tipbench.report.result import MEMORY_MARGIN, Result
from tipbench.report.trained import score_text
from tipbench.tip.pair import DEFAULT_NOW, Claim
from tipbench.tip.wording import change, job_words, plural, ratio, seconds
from tipbench.verdict.rules import MARGIN

SOON = 100
"""Steps within which nobody minds when the tip is paid for: every training has more."""

LIVE_MARGIN = 0.01
"""Peaks of live tensors that differ by less are called equal: identical sides have the same to the last byte."""


PROCESSES = "memory of all processes"

NOT_MEASURED, NONE_MEASURED = f"{PROCESSES} not measured", "none measured"

OF_THE_PROCESS = " (p)"

IN_WORKERS, COMPILED_MODEL = "workers", "compiled model"
"""What only one tip can do: load data in other processes, whose memory is not this process's, or compile a model.
Weights that are compiled into a program are no tensors: 8 bits seemed to save 96 % of a model."""


def price(jobs: Sequence[Result], trainings: Iterable[Result]) -> str:
    """jobs: the results of one way in its whole jobs. trainings: results whose whole trainings are of the same tip."""
    parts = [*_time(jobs), *_memory(jobs), *_once(jobs)]
    parts += dict.fromkeys(
        f"{words}{'' if result in jobs else f' in {job_words(result.pair)}'}"
        for result in trainings
        if result.trainings and (words := score_text(result.trainings, as_price=True))
    )
    status = jobs[0].about.status
    parts += [status] if status not in ("", "current") and not status.startswith(DEFAULT_NOW) else []
    return "; ".join(parts) or _nothing(jobs)


def _nothing(jobs: Sequence[Result]) -> str:
    if jobs[0].about.claim == Claim.LEANER:
        return f"{NONE_MEASURED} in time"  # or `_time` had said so
    # Live tensors that are alike say nothing: an allocator has the same, and may hold twice the memory.
    is_measured = any(job.tree_sides or job.device == "cuda" for job in jobs)
    return f"{NONE_MEASURED} above {100 * MEMORY_MARGIN:.0f} %" if is_measured else NOT_MEASURED


def _time(jobs: Sequence[Result]) -> list[str]:
    """Of a tip that promises something else than a faster step: how much slower a step is, or may be."""
    if jobs[0].about.claim in (Claim.FASTER, Claim.SOONER_AT_TARGET):
        return []
    slower = [(job_words(job.pair), job.speedup) for job in jobs if job.verdict == "slower" and job.speedup]
    if slower:
        times = [f"{1 / speedup:.2f}x the time{f' in {pair}' if len(jobs) > 1 else ''}" for pair, speedup in slower]
        undecided = [job_words(job.pair) for job in jobs if job.verdict == "inconclusive"]
        return [", ".join([*times, *([f"undecided in {', '.join(undecided)}"] if undecided else [])])]
    timed = [(job.low, job.speedup, job.high) for job in jobs if job.low and job.speedup and job.high]
    if not timed:
        return ["time not measured"]
    low, speedup, high = min(timed)
    if math.log(high) < -MARGIN:  # by too few launches for a verdict
        return [f"{ratio(1 / speedup, 1 / high, 1 / low)} the time"]
    return [f"time of a step undecided: {ratio(speedup, low, high)}"] if math.log(low) < -MARGIN else []


def time_factors(job: Result) -> tuple[float, float]:
    """How many times as long a step takes, at least and at most: one number, or an interval's ends where it holds 1."""
    low, speedup, high = job.low or 1.0, job.speedup or 1.0, job.high or 1.0
    is_open = job.verdict == "inconclusive" and low <= 1 <= high
    return (1 / high, 1 / low) if is_open else (1 / speedup, 1 / speedup)


def _memory(jobs: Sequence[Result]) -> list[str]:
    live = [sides for job in jobs if are_tensors_all(job) and (sides := job.memory_sides)]
    trees = [sides for job in jobs if (sides := job.tree_sides)]
    hidden = ["memory of the workers not measured"] if jobs[0].about.one_of == IN_WORKERS and not trees else []
    return more_memory(live if jobs[0].about.claim != Claim.LEANER else [], trees) + hidden


def are_tensors_all(job: Result) -> bool:
    """Whether live tensors tell what the processes need: not where workers hold more, where weights are compiled in, or
    where they change by less than a process can show, as half of 1.6 MiB is nothing."""
    live, process = job.memory_sides, job.tree_sides
    if not live or not all(live) or job.about.one_of in (IN_WORKERS, COMPILED_MODEL):
        return False
    return not process or abs(live[1] - live[0]) >= LIVE_MARGIN * process[0]


def memory_change(claim: str, row: Result) -> tuple[float, str] | None:
    """(ratio, words) of live tensors; of all processes where these do not tell it. None if neither is known, or if
    live tensors alone are, and are the same: of an allocator that says nothing."""
    live, process = row.memory_sides, row.tree_sides
    of_process = claim != Claim.LEANER and not are_tensors_all(row)
    sides, margin = (process, MEMORY_MARGIN) if of_process else (live, LIVE_MARGIN)
    if not sides or not all(sides):
        return None
    ratio = sides[1] / sides[0]
    if abs(ratio - 1) < margin:
        words = f"same{OF_THE_PROCESS * of_process}"
        return (1.0, words) if process or row.device == "cuda" else None  # a card's memory is all there is
    return ratio, f"{change(*sides)}{OF_THE_PROCESS * of_process}"


def more_memory(live: Sequence[tuple[int, int]], trees: Sequence[tuple[int, int]]) -> list[str]:
    """`+25 % memory of all processes`, the most of all; growth by less than a margin is left out.

    live: bytes of live tensors, before and after; worker processes hide theirs. trees: bytes of all processes, which
    differ by up to 4 % between identical sides."""
    growth = []
    for sides, margin, what in ((live, LIVE_MARGIN, "memory"), (trees, MEMORY_MARGIN, PROCESSES)):
        before, after = max(sides, key=lambda pair: pair[1] / pair[0], default=(1, 1))
        growth += [f"{change(before, after)} {what}"] if after >= (1 + margin) * before else []
    return growth


def _once(jobs: Sequence[Result]) -> list[str]:
    """What the tip takes once, of tips that take something: others' first steps differ by noise."""
    what = jobs[0].about.once
    if not what:
        return []
    known = [job for job in jobs if job.break_even_steps is not None]
    if known:
        steps = max(job.break_even_steps or 0 for job in known)
        return [f"{what} pays after {plural(steps, 'step')}"] if steps > SOON else []
    extra = [job.one_off_s for job in jobs if job.one_off_s is not None]
    return [f"{what} takes {seconds(max(extra))} more once"] if extra and max(extra) > 1 else []
