"""How a job's rate and memory depend on workers, batch size and threads: which sweeps are run, and what each says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tipbench.advise.surveyed import NoJob, sweep_job
from tipbench.given.curve import BATCH, THREADS, WORKERS, JobCurve
from tipbench.given.diagnosis import WORTH_TRYING
from tipbench.given.survey import WITH_MODEL, Survey
from tipbench.machine.activity import OCCUPIED
from tipbench.records.record import LOADING
from tipbench.tip.wording import seconds, size

LEAST_BUDGET_S = 240.0
"""Of an advice with sweeps (s): to begin a process and to build the job anew take most of a short one."""

SHORT_SWEEP_S, LONG_SWEEP_S, SWEEP_SHARE = 15.0, 60.0, 0.05
"""Seconds of a sweep beside an advice, at most SWEEP_SHARE of its budget, and of one that is asked for."""

_WORKERS_TIP = "async-loading"

HEADS = {WORKERS: "workers", BATCH: "samples in a batch", THREADS: "threads"}
MEMORY_HEADS = {WORKERS: "memory of all processes", BATCH: "peak of memory", THREADS: ""}


def sweeps_of(survey: Survey, budget_s: float) -> list[str]:
    """The sweeps that can act on a job, if there is time for them beside the tips. budget_s: 0 for no end."""
    if survey.kind not in WITH_MODEL or survey.others > OCCUPIED or 0 < budget_s < LEAST_BUDGET_S:
        return []
    loads = survey.workers or survey.share(LOADING) >= WORTH_TRYING
    return [*([WORKERS] if loads else []), BATCH, *([THREADS] if survey.device == "cpu" and survey.cores > 1 else [])]


def measure_curves(target: str, sweeps: Sequence[str], within_s: float) -> list[JobCurve]:
    """within_s: seconds for each. A sweep in which the job fails says so: other sweeps, and tips, may do."""
    curves = []
    for what in sweeps:
        try:
            curves.append(sweep_job(target, what, within_s))
        except NoJob as why:
            curves.append(JobCurve(what, ended=str(why)))
    return curves


def choose_workers(survey: Survey, curves: Sequence[JobCurve]) -> Survey:
    """The survey with one number of workers that is tried: what the sweep found to be enough, or one a core."""
    knees = [curve.knee.value for curve in curves if curve.what == WORKERS and len(curve.points) > 1]
    names = {way.name for way in survey.ways}
    best = next((name for knee in knees if (name := f"{_WORKERS_TIP}/{knee}") in names), _WORKERS_TIP)
    others = {name for name in names if re.fullmatch(rf"{_WORKERS_TIP}(/\d+)?", name)} - {best}
    return replace(survey, ways=[way for way in survey.ways if way.name not in others])


def summary_of(curve: JobCurve) -> str:
    """`workers: 4 is within 2 % of the best (8), 3.80x the rate of 0`, and why the sweep ended; without full stop."""
    head, first = HEADS[curve.what], next(iter(curve.points), None)
    if first is None or len(curve.points) < 2:
        return f"{head}: {curve.ended or 'no second value could be measured'}"
    knee, most = curve.knee, max(curve.points, key=lambda point: point.rate)
    rank = "the best" if knee is most else f"within {100 * curve.tolerance(knee):.0f} % of the best ({most.value})"
    of_first = "" if knee is first else f", {knee.rate / first.rate:.2f}x the rate of {first.value}"
    return f"{head}: {knee.value} is {rank}{of_first}{f'; {curve.ended}' if curve.ended else ''}"


def table(curve: JobCurve) -> list[list[str]]:
    """Its head, then a row a value; the knee is marked."""
    memory = MEMORY_HEADS[curve.what]
    rows = [[HEADS[curve.what], "samples a second", "a step", *([memory] if memory else [])]]
    for point in curve.points:
        mark = " *" if point is curve.knee and len(curve.points) > 1 else ""
        held = [size(point.memory) if point.memory else ""] if memory else []
        rows.append([f"{point.value}{mark}", f"{point.rate:,.0f}", seconds(point.step_s), *held])
    return rows


def lines(curve: JobCurve) -> list[str]:
    """For the terminal."""
    rows = table(curve) if len(curve.points) > 1 else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*shown, f"{summary_of(curve)}."]
