"""What `tipbench advise` says of a person's job: the terminal's lines and the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tipbench.advise.combination import log_gain
from tipbench.advise.curves import summary_of, table
from tipbench.advise.job_words import headline, lost_cores, slow, where
from tipbench.advise.outcome import JobOutcome, inverse, speedup_of
from tipbench.advise.tuned import diff_of
from tipbench.given.curve import JobCurve
from tipbench.given.diagnosis import Diagnosis, diagnose
from tipbench.given.survey import Survey
from tipbench.records.record import PHASES
from tipbench.report.answer_kinds import INFERENCE, TRAINING, UNCLEAR
from tipbench.report.machine_words import machine_words, versions
from tipbench.report.markdown import render
from tipbench.report.price import price
from tipbench.report.result import Result
from tipbench.tip.wording import plain

NO_EFFECT, OTHER_RESULTS, FAILS = "no effect here", "other results", "fails here"
"""Words for a way that could not be measured on a job: it changed nothing of what its tip is about, the job's results
were not the same with it, or it raised, hung or needed too much memory."""

VISIBLE = 0.05
"""What a job makes of rounding, from which on the page says so."""


@dataclass(frozen=True)
class TriedWay:
    """A way to follow a tip that was tried on a job.

    Attributes:
        name: of the way.
        title: of its tip.
        in_a_line: what to write, in a line.
        word: how the job with it compares with the job as it is, or why that could not be measured.
        alone: `1.35x [1.33, 1.38]`, or what kept it from being measured.
        together: what it brings beside the changes that were measured together; empty where it was not beside them.
        price: what following it costs.
        do: what to write; empty where it is not advised.
    """

    name: str
    title: str
    in_a_line: str
    word: str
    alone: str
    together: str
    price: str
    do: str


@dataclass(frozen=True)
class AdvicePage:
    """What is said of a job: the fields of advice.json, which advice.md.j2 shows.

    Attributes:
        job: its name, such as "train.py:job". kind: as of `Survey`.
        headline, machine: the job and the machine in words.
        first: that the job's own file takes cores from it, if it does.
        where: sentences on where the time of a step goes.
        conclusion: what to do, in a sentence without its full stop.
        ladder: a step with one change after the other.
        changes, diff, remarks: the changes that pay together, as sentences and as a diff of a plain loop, and what
            holds of all of them.
        beside_itself: speedup of the job over itself; empty if not measured.
        warnings: on what makes the job hard to measure, and on comparing its results.
        lossy: ways that pay and alter results.
        curves: of each sweep, see `JobCurve`.
        tips: those that bring most first.
        not_tried: by reason, the titles of the tips.
        by_hand: (id, title, what to write) of tips that change code which nobody else knows.
        launch_step_s: of a step of the job as it is, in each launch (s).
        phases: seconds of each in a step, as far as they are known.
        diagnosis: where the time of a step goes, in a word.
        together: null where nothing pays, else {"gain", "low", "high", "members": [{"name", "alone", "gain"}]} with
            factors of the job's speed, of a member on top of the others but for "alone"; null if not measured.
    """

    job: str
    kind: str
    headline: str
    machine: str
    first: list[str]
    where: list[str]
    conclusion: str
    ladder: str
    changes: list[str]
    diff: str
    remarks: list[str]
    beside_itself: str
    warnings: list[str]
    lossy: list[str]
    curves: list[JobCurve]
    tips: list[TriedWay]
    not_tried: dict[str, str]
    by_hand: list[tuple[str, str, str]]
    launch_step_s: list[float]
    phases: dict[str, float]
    diagnosis: Diagnosis
    together: dict[str, Any] | None


def advice_page(outcome: JobOutcome) -> AdvicePage:
    survey, machine, own = outcome.survey, outcome.alone.machine, outcome.beside_itself
    return AdvicePage(
        job=survey.name,
        kind=survey.kind,
        headline=headline(survey),
        machine=f"{machine_words(machine)}; {versions(machine)}",
        first=lost_cores(survey),
        where=where(survey),
        conclusion=outcome.conclusion,
        ladder=outcome.ladder,
        changes=outcome.changes,
        diff=diff_of([survey.by_name[name] for name in outcome.members if outcome.pays], survey.kind),
        remarks=outcome.remarks,
        beside_itself=speedup_of(own) if own else "",
        warnings=[*slow(survey), *_of_comparing(survey)],
        lossy=list(outcome.lossy.values()),
        curves=list(outcome.curves),
        tips=[_tried(name, row, outcome) for name, row in sorted(outcome.by_way.items(), key=_rank)],
        not_tried=_not_tried(survey),
        by_hand=survey.by_hand,
        launch_step_s=outcome.launch_step_s,
        phases={phase: survey.card[phase] for phase in PHASES if phase in survey.card},
        diagnosis=diagnose(survey),
        together=_together(outcome),
    )


def lines(page: AdvicePage) -> list[str]:
    """For the terminal: the job, what its tips bring together, and one line a way to follow a tip."""
    width = max((len(tip.word) for tip in page.tips), default=0)
    tips = []
    for tip in page.tips:
        brings = "; ".join(filter(None, (tip.alone, tip.together)))
        tips.append(f"{tip.word:<{width}}  {plain(f'{tip.title} ({tip.in_a_line}): {brings}')}")
    alters = [f"Alters results, so it stands by itself: {line}" for line in page.lossy]
    steps = [f"A step: {page.ladder}"] if page.ladder else []
    together = [f"  {line}" for line in (*page.changes, *alters, *page.remarks, *steps)]
    first = [page.headline, *page.first, *page.where, *(f"{summary_of(curve)}." for curve in page.curves)]
    return [*first, "", page.conclusion, *together, "", *tips]


def markdown(page: AdvicePage) -> str:
    sweeps = [(table(curve), summary_of(curve)) for curve in page.curves if len(curve.points) > 1]
    workload = INFERENCE if page.kind == "inference" else TRAINING
    return render("advice.md.j2", sweeps=sweeps, workload=workload, **vars(page))


def _rank(item: tuple[str, Result]) -> tuple[bool, float]:
    """Those first that bring most, those last that were not timed."""
    return not item[1].is_timed, -log_gain(item[1])


def _tried(name: str, row: Result, outcome: JobOutcome) -> TriedWay:
    way, together = outcome.survey.by_name[name], outcome.together(name)
    word = UNCLEAR if row.verdict_words == "inconclusive" else row.verdict_words
    costs = []
    if row.is_measured:
        costs = [price([row], ()), *(["results change"] if way.changes_numbers else [])]
    else:
        kind = row.reasons[0].kind if row.reasons else ""
        word = {"not engaged": NO_EFFECT, "different results": OTHER_RESULTS}.get(kind, FAILS)
    is_alone = row.verdict == "faster" and not together and not outcome.is_unreliable
    is_advised = is_alone or (outcome.pays and name in outcome.members)
    do = way.do if is_advised else ""
    return TriedWay(name, way.title, way.in_a_line, word, speedup_of(row), together, "; ".join(costs), do)


def _together(outcome: JobOutcome) -> dict[str, Any] | None:
    """As `AdvicePage.together` has it."""
    if not outcome.pays or outcome.whole is None:
        return None
    whole, members = inverse(outcome.whole), []
    for name in outcome.members:
        without = outcome.without(name)
        gain = inverse(without).speedup if without else None
        members.append({"name": name, "alone": outcome.by_way[name].speedup, "gain": gain})
    return {"gain": whole.speedup, "low": whole.low, "high": whole.high, "members": members}


def _not_tried(survey: Survey) -> dict[str, str]:
    """By reason, the titles of the tips; of one that is tried in another way with the name of the way that is not."""
    tried = {way.tip for way in survey.ways if not way.why_not}
    titles: dict[str, list[str]] = {}
    for way in survey.ways:
        if way.why_not:
            title = f"{way.title} ({way.in_a_line})" if way.tip in tried else way.title
            titles.setdefault(way.why_not, []).append(title)
    return {why: "; ".join(dict.fromkeys(listed)) for why, listed in titles.items()}


def _of_comparing(survey: Survey) -> list[str]:
    """What the survey found about comparing the job's results."""
    sentences = [survey.not_run] if survey.not_run else []
    sentences += [f"{way.title}: {way.proof}." for way in survey.ways if way.proof]
    if survey.not_compared:
        sentences.append(f"Not compared, as nothing can be looked into but tensors: {', '.join(survey.not_compared)}.")
    if not survey.compared:
        sentences.append("A step returns nothing, so results were not compared.")
    elif survey.noise is None:
        sentences.append("Two runs of the job returned results of different shapes, so results were not compared.")
    elif survey.noise:
        sentences.append(
            f"Two runs of the job with the same seed returned results that differ by {100 * survey.noise:.2g} %. "
            "Differences of that size are not taken for an error of a tip."
        )
    if survey.rounding is None:
        sentences.append("Rounding changes the shapes of the job's results, so results were not compared.")
    elif survey.rounding > VISIBLE:
        sentences.append(
            "The job magnifies rounding: parameters changed by 0.001 % make its results or gradients differ by "
            f"{100 * survey.rounding:.2g} % after two steps. So a tip's may differ by three times as much."
        )
    return sentences
