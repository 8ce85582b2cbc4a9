"""The pages of a run: a first one that says what to do, one of evidence a tip, and one of the run as a whole.

All that is in them is from the results table, the answers table and the run's own facts; the words are in `pages/`.
"""

from __future__ import annotations

import json
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import PurePath
from typing import Any

from tipbench.machine.controls import controls_heap
from tipbench.records.fields import LARGEST
from tipbench.records.record import PHASES, Run
from tipbench.records.store import Notice
from tipbench.report import markdown
from tipbench.report.answer import Answer, answers, side_by_side
from tipbench.report.evidence import evidence_lines, reason
from tipbench.report.figures import sweeps, whole_jobs
from tipbench.report.figures.drawing import Drawing
from tipbench.report.front import front
from tipbench.report.grade import format_value
from tipbench.report.html import ANCHORS
from tipbench.report.machine_words import machine_words, versions
from tipbench.report.result import MEMORY_KINDS, Result
from tipbench.report.results import counts, results
from tipbench.tip.pair import CONTROL
from tipbench.tip.wording import change, plain, plural, ratio, seconds, value
from tipbench.verdict.rules import AT_MOST

WHOLE_RUN = "the-run"
"""The name of the page that belongs to no tip. No tip's page is called so."""

_VERDICTS = ("faster", "slower", "no difference", AT_MOST, "inconclusive", "skipped", "failed")

PEAKS = {**MEMORY_KINDS, "resident_peak": "resident", "tree": "all processes"}
"""By kind of memory, its name."""


@dataclass(frozen=True)
class Pages:
    """All pages of a run, as Markdown.

    Attributes:
        title: of the first page.
        front: the first page.
        below: by name, which is also its address without ending, each page of evidence.
        drawings: the figures that the pages show.
    """

    title: str
    front: str
    below: Mapping[str, str]
    drawings: Sequence[Drawing]


def pages(run: Run, notices: Sequence[Notice], folder: str | None = None, home: str = "") -> Pages:
    """folder: what addresses of evidence and of figures begin with on the first page; None where pages are printed, so
    that titles are no links and figures are put in words. home: the address of the first page on pages of evidence;
    empty for none."""
    rows = results(run)
    tips: dict[str, list[Result]] = {}
    for result in rows:
        tips.setdefault(result.tip, []).append(result)
    controls = tips.pop(CONTROL, [])
    names = _page_names(tips)
    made = answers(rows)
    jobs, curves = whole_jobs.drawing(whole_jobs.bars(made)), sweeps.drawings(rows)

    def address(name: str, begin: str | None = folder) -> str:
        return "" if folder is None else f"{begin}{name}.md"

    of_run = _run(run)
    title = plain(f"What to change in PyTorch code on {machine_words(run.machine)}")
    page = front(made, side_by_side(rows), lambda tip: address(names[tip]))
    first = markdown.render(
        "run.md.j2",
        title=title,
        run=of_run,
        front=page,
        controls=noise(controls),
        notices=[f"{notice.file.name}, line {notice.line}: {notice.text}" for notice in notices],
        folder=folder,
        figures=jobs,
        whole_run=address(WHOLE_RUN),
    )
    shared: dict[str, Any] = {"home": home, "folder": None if folder is None else "", "run": of_run}
    below = {
        names[tip]: markdown.render(
            "tip.md.j2",
            **shared,
            **_tip(run, rows, [answer for answer in made if answer.tip == tip]),
            figures=curves.get(tip, ()),
        )
        for tip, rows in tips.items()
    }
    verdicts = Counter(row.verdict for row in rows)
    below[WHOLE_RUN] = markdown.render(
        "whole_run.md.j2",
        **shared,
        columns=page.columns,
        further=[
            replace(
                row, only_if="; ".join(filter(None, (row.whole, *row.remarks))), address=address(names[row.tip], "")
            )
            for row in page.further
        ],
        comparisons=len(rows),
        verdicts=[f"{verdicts[verdict]} {verdict}" for verdict in _VERDICTS if verdicts[verdict]],
        controls=[_cells(control) for control in controls],
        jobs=job_profiles(rows),
        results=[
            {**_cells(row), "tip": tip, "address": address(names[tip], "")}
            for tip, rows in tips.items()
            for row in rows
        ],
    )
    return Pages(title, first, below, [*jobs, *(drawing for drawings in curves.values() for drawing in drawings)])


def _page_names(tips: Collection[str]) -> dict[str, str]:
    """By tip, its id where it can name a file and an anchor, and no other page or anchor is called so; else a number,
    with an underscore, which no such id has. Ids are free text in a file edited by hand."""
    reserved = (WHOLE_RUN, *ANCHORS)
    usable = {tip for tip in tips if re.fullmatch(r"[a-z0-9-]{1,80}", tip) and tip not in reserved}
    return {tip: tip if tip in usable else f"tip_{number}" for number, tip in enumerate(tips, 1)}


def _run(run: Run) -> dict[str, Any]:
    budget_s = run.options.get("budget_s")  # options are checked by who continues a run
    return {
        "id": run.id,
        "started": run.started,
        "dates": list(dict.fromkeys(started[:10] for started in (run.started, *run.later))),
        "suite": run.suite,
        "commit": run.commit[:12],
        "versions": versions(run.machine),
        "features": flags if isinstance(flags := run.machine.get("flags"), list) else [],
        "minutes": f"{budget_s / 60:.3g}" if isinstance(budget_s, int | float) and 0 < budget_s < LARGEST else "",
        "bare": bool(run.options.get("bare")),
        "settings": " ".join(f"{name}={setting}" for name, setting in run.controls.items()),
        "controls": list(run.controls.items()),
        "controls_heap": controls_heap(run.controls, str(run.machine.get("libc"))),
        "fields": [(name, format_value(name, recorded)) for name, recorded in run.machine.items()],
        "counts": counts(run),
    }


# ---- the first page ----


def noise(controls: Sequence[Result]) -> dict[str, Any]:
    """What the controls say of the effects that a run can detect: what the macro `noise` of `parts.md.j2` takes.

    measured, judged: how many controls with identical sides were measured, and have a verdict.
    wrong: pair, verdict and ratio of those that were called different. smallest: effect, as a share of 1, that the
    median operation cannot tell from none; None if none has an interval. jobs: the same of the median whole job.
    planted: effect, as a share of 1, verdict and ratio of those that differ on purpose and were timed.
    """
    measured = [control for control in controls if control.is_measured and control.is_identical]
    by_scale: dict[bool, list[float]] = {True: [], False: []}
    for control in measured:
        if control.low and control.high:
            by_scale[control.scale == "macro"].append(max(1 / control.low, control.high) - 1)
    jobs, reach = by_scale[True], by_scale[False]
    return {
        "measured": len(measured),
        "judged": sum(control.verdict != "inconclusive" for control in measured),
        "wrong": [
            (control.pair, control.verdict, _speedup(control))
            for control in measured
            if control.verdict in ("faster", "slower")
        ],
        "smallest": statistics.median(reach) if reach else None,
        "jobs": statistics.median(jobs) if jobs else None,
        "planted": [
            (control.truth - 1, control.verdict, _speedup(control))
            for control in controls
            if control.truth is not None and not control.is_identical and control.is_timed
        ],
    }


def job_profiles(rows: Sequence[Result]) -> list[dict[str, Any]]:
    """How large each job is and where its time goes, one a job, device and sizes; pairs: names of those about it."""
    pairs: dict[tuple[str, str, str], dict[str, None]] = {}
    profiles: dict[tuple[str, str, str], Mapping[str, float]] = {}
    for row in filter(attrgetter("job"), rows):
        job = row.job, row.device, row.sizes
        pairs.setdefault(job, {})[row.pair_name] = None
        if row.job_profile:
            profiles.setdefault(job, row.job_profile)
    return [
        {**_profile(profile), "name": job[0], "sizes": value(json.loads(job[2])), "pairs": list(pairs[job])}
        for job, profile in profiles.items()
    ]


COUNTS, NOT_COUNTED = ("parameters", "flops", "bytes"), "not counted"
"""What a job's profile counts. No counter sees the operations of a recurrent network's one kernel on a CPU."""


def _profile(card: Mapping[str, float]) -> dict[str, Any]:
    from matplotlib.ticker import EngFormatter

    phases = [card.get(phase, 0.0) for phase in PHASES]
    step_s = sum(phases)
    in_units = EngFormatter(places=1)
    return {
        **{name: str(in_units(card[name])) if card.get(name) else NOT_COUNTED for name in COUNTS},
        "step_s": step_s,
        "shares": " / ".join(f"{100 * phase / step_s:.0f}" for phase in phases) if step_s else "",
    }


# ---- the pages of evidence ----


def _tip(run: Run, rows: Sequence[Result], made: Sequence[Answer]) -> dict[str, Any]:
    names = dict.fromkeys(shlex.quote(row.pair_name) for row in rows)  # people paste what is in a file into a shell
    bare = " --bare" * bool(run.options.get("bare"))
    return {
        "answers": made,
        "title": rows[0].about.title,
        "rows": [_cells(row) for row in rows],
        "is_planted": any(row.truth is not None for row in rows),
        "memory": [peak for row in rows for peak in _peaks(row)],
        "facts": evidence_lines(rows, [answer.kind for answer in made]),
        "files": list(dict.fromkeys(PurePath(row.file).name for row in rows)),
        "commands": [f"tipbench run {name}{bare}" for name in names],
    }


def _cells(row: Result) -> dict[str, str | None]:
    """What tables of verdicts show of a row; None for what is not known."""
    launches = f"{row.launches}" if row.launches else None
    if row.quarantined:
        launches = f"{row.launches} ({plural(row.quarantined, 'disturbed round')} left out)"
    steps = (row.step_s, row.variant_step_s)
    return {
        "pair": row.pair,
        "scale": ", ".join(filter(None, (row.scale, row.device))),
        "variant": row.variant,
        "verdict": row.verdict_words,
        "speedup": _speedup(row),
        "truth": None if row.truth is None else f"{row.truth:g}x",
        "step": " -> ".join(seconds(step) for step in steps if step is not None) if None not in steps else None,
        "memory": change(*row.memory_sides) if row.memory_sides else None,
        "one_off": _one_off(row),
        "launches": launches,
        "reason": reason(row),
    }


def _speedup(row: Result) -> str | None:
    return None if row.speedup is None else ratio(row.speedup, row.low, row.high)


def _one_off(row: Result) -> str | None:
    """`+1.10 s, pays after 161 steps`: what the variant costs once beyond the baseline."""
    if row.one_off_s is None:
        return None
    cost = f"{'+' * (row.one_off_s >= 0)}{seconds(row.one_off_s)}"
    if row.break_even_steps is None:
        return cost
    pays = f"after {plural(row.break_even_steps, 'step')}" if row.break_even_steps else "at once"
    return f"{cost}, pays {pays}"


def _peaks(row: Result) -> list[tuple[str, str, str, int, int]]:
    """Peaks of memory on both sides, with the names of pair, variant and kind: the one that a tip is judged by, then
    what the operating system reported."""
    return [
        (row.pair, row.variant, PEAKS[kind], row.baseline_memory[kind], row.variant_memory[kind])
        for kind in dict.fromkeys(filter(None, (row.memory_kind, "resident_peak", "tree")))
        if kind in row.baseline_memory and kind in row.variant_memory
    ]
