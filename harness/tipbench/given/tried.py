"""Which ways to follow tips are tried on a person's job, which first, and why others are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from tipbench.given.command import GivenCommand
from tipbench.given.diagnosis import MUCH, WORTH_TRYING, diagnose
from tipbench.given.forms import GivenStep
from tipbench.given.loop import GivenJob
from tipbench.given.pair import WAY_SEPARATOR
from tipbench.given.survey import Survey, WayHere
from tipbench.given.target import BadJob
from tipbench.given.workers import compare_loading
from tipbench.machine import native
from tipbench.machine.activity import OCCUPIED
from tipbench.records.record import LOADING
from tipbench.suite.describe import unmet
from tipbench.suite.files import BENCHMARKS, load_module, pair_classes, pair_files
from tipbench.tip.job import Job, as_it_is
from tipbench.tip.pair import CONTROL, NO_TIPS, code_to_try
from tipbench.tip.wording import plural, seconds


def add_ways(
    survey: Survey, job: Job | GivenStep, until: float = math.inf, built: Callable[[], Any] | None = None
) -> Survey:
    """The survey, with the ways to follow each tip added. until: when loading must not be looked at any more, as
    `time.perf_counter` has it. built: builds a job like this one."""
    diagnosis = diagnose(survey)
    data: dict[str, tuple[str, str]] = {}
    for file in pair_files(BENCHMARKS):
        module = load_module(file, BENCHMARKS)
        tip = getattr(module, "TIP", None)
        if tip is None or tip.id in (CONTROL, *NO_TIPS):
            continue
        words = job.do if isinstance(job, GivenJob) else {}
        for way in getattr(module, "ON_ANY_JOB", ()):
            name, proof = tip.id + (WAY_SEPARATOR + way.name.replace("_", "-") if way.name else ""), ""
            why_not = _why_not(way, job, survey)
            if way.loads_elsewhere and built and not why_not:
                alike = name.rstrip("0123456789/")  # of any number of workers the data are the same
                if alike not in data:
                    data[alike] = _compared(built, way, survey, until)
                why_not, proof = data[alike]
            survey.ways.append(
                WayHere(
                    tip=tip.id,
                    name=name,
                    title=tip.title,
                    do=words.get(name) or way.do or tip.do,
                    why_not=why_not,
                    changes_numbers=way.changes_numbers,
                    one_of=tip.one_of,
                    first=2 if way.mends or survey.share(way.phase) >= MUCH else int(diagnosis.acts(tip.id, way.phase)),
                    proof=proof,
                    takes_once=bool(way.once or tip.once),
                    env=dict(way.env),
                    preload=[str(native.find(library) or library) for library in way.preload],
                )
            )
        pairs = pair_classes(module)
        if any(survey.device in pair.devices for pair in pairs) and not hasattr(module, "ON_ANY_JOB"):
            survey.by_hand.append((tip.id, tip.title, code_to_try(tip, pairs)))
    return survey


def _compared(built: Callable[[], Any], way: Any, survey: Survey, until: float) -> tuple[str, str]:
    """(Why a way that loads data elsewhere is not tried, how far it was shown that they stay the same)."""
    try:
        return "", compare_loading(built, way.apply, survey.draws, until)
    except BadJob as why_not:
        return str(why_not), ""


def _why_not(way: Any, job: Job | GivenStep, survey: Survey) -> str:
    """Why a way is not tried; empty where it is."""
    device = survey.device
    if device not in way.devices:
        return f"for {' or '.join(way.devices)}, and the job runs on {device}"
    if missing := unmet(way.all_needs, device):
        return missing.text
    if way.loads_elsewhere and survey.cores < survey.cores_before:
        return f"the job is left {survey.cores} of {plural(survey.cores_before, 'core')}, which all workers would share"
    if way.phase == LOADING and survey.unlike:
        first, again = map(seconds, survey.unlike)
        return f"an item takes {again} to load again, and {first} at first: it can save time in the first epoch alone"
    if isinstance(job, GivenCommand) and way.switch is not nullcontext:
        return "it is set within a program, and of a command only the environment can be changed"
    if isinstance(job, GivenStep):
        if way.apply is as_it_is:
            return str(way.applies(None))
        around = way.around is not None and not isinstance(job, GivenCommand)
        return "" if around else "it changes a model, a loader or an optimizer, and what is given shows none"
    return way.applies(job) or ceiling(way.phase, survey)


def ceiling(phase: str, survey: Survey) -> str:
    """Why a change of this phase alone is not worth trying; empty where it may be worth it."""
    share = survey.share(phase)
    # Beside others, threads that wait for one another make the forward pass take a hundred times as long.
    if not phase or not survey.card or share >= WORTH_TRYING or survey.others > OCCUPIED:
        return ""
    what = "loading" if phase == LOADING else f"the {phase}"
    return f"{what} takes {100 * share:.1f} % of a step, and no change of it alone can bring more"
