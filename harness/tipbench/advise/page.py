"""What `tipbench advise` says of a person's job: the terminal's lines and the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace

from tipbench.advise.combination import SIDE_WITHOUT, costs
from tipbench.advise.curves import summary_of, table
from tipbench.advise.job_words import headline, lost_cores, slow, where
from tipbench.advise.outcome import (
    JobOutcome,
    change_lines,
    conclusion,
    inverse_of,
    ladder,
    launch_steps,
    lossy,
    once,
    pays,
    price_line,
    price_once,
    remarks,
    speedup_of,
)
from tipbench.advise.pairs import sides_alone
from tipbench.advise.tuned import diff_of
from tipbench.given.diagnosis import diagnose
from tipbench.given.survey import AS_IT_IS, Survey
from tipbench.records.record import PHASES
from tipbench.report.answer import Answer, answers
from tipbench.report.answer_kinds import DO_NOT, USE
from tipbench.report.machine_words import machine_words, versions
from tipbench.report.markdown import render
from tipbench.report.price import NOT_MEASURED
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.wording import plain

NO_EFFECT, OTHER_RESULTS, FAILS = "no effect here", "other results", "fails here"
"""Answers on a tip that could not be measured on a job: it changed nothing of what it is about, the job's results were
not the same with it, or it raised, hung or needed too much memory."""

VISIBLE = 0.05
"""What a job makes of rounding, from which on the page says so."""


def lines(outcome: JobOutcome) -> list[str]:
    """For the terminal: the job, what its tips bring together, and one line a tip."""
    listed = _answers(outcome)
    width = max((len(plain(answer.answer)) for answer in listed), default=0)
    tips = [f"{plain(answer.answer):<{width}}  {plain(answer.title)}: {plain(answer.gain)}" for answer in listed]
    alters = [f"Alters results, so it stands by itself: {line}" for line in lossy(outcome).values()]
    steps = [f"A step: {shown}"] if (shown := ladder(outcome)) else []
    together = [f"  {line}" for line in (*change_lines(outcome), *alters, *remarks(outcome), *steps)]
    first = [headline(outcome.survey), *lost_cores(outcome.survey), *where(outcome.survey)]
    first += [f"{summary_of(curve)}." for curve in outcome.curves]
    return [*first, "", conclusion(outcome), *together, "", *tips]


def as_json(outcome: JobOutcome) -> dict[str, object]:
    """{"job", "kind", "device", "machine", "step_s", "launch_step_s", "phases", "diagnosis", "curves", "conclusion",
    "measured_anew", "together", "lossy", "tips", "not_tried", "by_hand"}.

    launch_step_s: of the job as it is, in each launch (s). phases: seconds of each in a step, as far as they are known.
    diagnosis: {"word", "share", "evidence"}. curves: of each sweep {"what", "points", "ended"}, see `JobCurve`.

    measured_anew: names of what was left at the end, whether that pays or not. together: null where nothing pays, else
    {"gain", "low", "high", "once_s", "pays_after_steps", "price", "members": [{"name", "do", "alone", "gain", "low",
    "high", "once_s", "pays_after_steps"}]} with factors of the job's speed: of a member on top of the others, but for
    "alone"; null with too few launches, or if not measured.
    tips: [{"tip", "title", "answer", "do", "gain", "price"}].
    not_tried: [{"name", "why"}]. by_hand: [{"tip", "title", "do"}].
    """
    survey, whole = outcome.survey, outcome.sides.get("optimized") if pays(outcome) else None
    ways, combination = survey.by_name, None
    if whole is not None:
        without = {name: _without(name, outcome) for name in outcome.members}
        alone = {name: result.speedup or 1.0 for name, result in outcome.by_way.items()}
        listed = [
            {"name": name, "do": ways[name].do, "alone": alone[name], **_factors(effect)}
            for name, effect in without.items()
        ]
        combination = {**_factors(whole), "price": price_line(outcome), "members": listed}
    return {
        "job": outcome.survey.name,
        "kind": survey.kind,
        "device": survey.device,
        "machine": f"{machine_words(outcome.alone.machine)}; {versions(outcome.alone.machine)}",
        "step_s": survey.step_s,
        "launch_step_s": launch_steps(outcome),
        "phases": {phase: survey.card[phase] for phase in PHASES if phase in survey.card},
        "diagnosis": asdict(diagnose(survey)),
        "curves": list(map(asdict, outcome.curves)),
        "conclusion": conclusion(outcome),
        "measured_anew": list(outcome.members),
        "together": combination,
        "lossy": list(lossy(outcome).values()),
        "tips": [
            {name: getattr(answer, name) for name in ("tip", "title", "answer", "do", "gain")}
            | {"price": _price(answer, outcome)}
            for answer in _answers(outcome)
        ],
        "not_tried": [{"name": name, "why": way.why_not} for name, way in ways.items() if way.why_not],
        "by_hand": [{"tip": tip, "title": title, "do": do} for tip, title, do in survey.by_hand],
    }


def _factors(result: Result | None) -> dict[str, float | None]:
    """How much faster the baseline is than this side, with the interval, and what it takes once."""
    if result is None:
        return dict.fromkeys(("gain", "low", "high", "once_s", "pays_after_steps"))
    ends = (result.speedup, result.high, result.low) if result.is_timed else (result.speedup, None, None)
    once_s, steps = once(result) or (None, None)
    factors = (None if end is None else 1 / end for end in ends)
    return dict(zip(("gain", "low", "high"), factors, strict=True)) | {"once_s": once_s, "pays_after_steps": steps}


def markdown(outcome: JobOutcome) -> str:
    """The page."""
    survey = outcome.survey
    same_code = [result for result in results(outcome.alone) if result.tip == AS_IT_IS and result.is_timed]
    return render(
        "advice.md.j2",
        advice=as_json(outcome),
        workload=survey.kind,
        job=headline(survey),
        machine=machine_words(outcome.alone.machine),
        versions=versions(outcome.alone.machine),
        first=lost_cores(survey),
        changes=change_lines(outcome),
        where=where(survey),
        curves=[(table(curve), summary_of(curve)) for curve in outcome.curves if len(curve.points) > 1],
        ladder=ladder(outcome),
        diff=diff_of([survey.by_name[name] for name in outcome.members if pays(outcome)], survey.kind),
        remarks=remarks(outcome),
        same_code=same_code,
        warnings=[*slow(survey), *_of_comparing(survey)],
        not_tried=_not_tried(survey),
    )


def _not_tried(survey: Survey) -> dict[str, str]:
    """By reason, the titles of the tips; of one that is tried in another way with the name of the way that is not."""
    tried = {way.tip for way in survey.ways if not way.why_not}
    titles: dict[str, list[str]] = {}
    for way in survey.ways:
        if way.why_not:
            title = f"{way.title} ({way.in_a_line})" if way.tip in tried else way.title
            titles.setdefault(way.why_not, []).append(title)
    return {why: "; ".join(dict.fromkeys(listed)) for why, listed in titles.items()}


def _answers(outcome: JobOutcome) -> list[Answer]:
    """One answer per tip that was tried, those first that seem to bring most. What the confirming launches say of a tip
    counts more than what it brings alone."""
    measured = results(outcome.alone)
    bring: dict[str, float] = {}
    for result in measured:
        mean = result.log_speedup if result.is_measured else None
        bring[result.tip] = max(bring.get(result.tip, -math.inf), -math.inf if mean is None else mean)
    tried = [answer for answer in answers(measured) if answer.tip in sides_alone(outcome.survey)]
    listed = []
    for answer in sorted(tried, key=lambda answer: -bring[answer.tip]):
        of_tip = [result for result in measured if result.tip == answer.tip]
        if any(result.is_measured for result in of_tip):
            gain = _gains(answer, outcome.survey, of_tip)
            answer = replace(answer, do=_do(answer, outcome.survey, of_tip), gain=gain)
            listed.append(_with_the_changes(answer, outcome))
        else:
            listed.append(_failed(answer, of_tip))
    return listed


def _with_the_changes(answer: Answer, outcome: JobOutcome) -> Answer:
    """The answer on a tip as the changes that pay together say it; as it is if they say nothing of it."""
    if not pays(outcome):
        return answer
    all_ways = outcome.survey.by_name
    ways = {name: way for name, way in all_ways.items() if way.tip == answer.tip}
    for name in ways.keys() & set(outcome.members):
        if gain := _as_a_member(name, outcome):
            return replace(answer, kind=USE, answer=USE, do=ways[name].do, gain=f"{gain}; alone {answer.gain}")
        return answer
    left_out = [outcome.left_out[name] for name in ways if name in outcome.left_out]
    why_not = [f"{inverse_of(result)} on top of the changes" for result in left_out]
    taken = {all_ways[name].one_of: all_ways[name].in_a_line for name in outcome.members if all_ways[name].one_of}
    why_not += [f"cannot be used with {taken[way.one_of]}" for way in ways.values() if way.one_of in taken]
    if answer.kind == USE and why_not:
        return replace(answer, kind=DO_NOT, answer=DO_NOT, do="", gain=f"{why_not[0]}; alone {answer.gain}")
    return answer


def _without(name: str, outcome: JobOutcome) -> Result | None:
    """The job with all members but this one; None if it was not left out in turn."""
    return outcome.sides.get("optimized" if len(outcome.members) == 1 else f"{SIDE_WITHOUT}{name}")


def _as_a_member(name: str, outcome: JobOutcome) -> str:
    """What this change brings among the others; empty if not known."""
    whole, without = outcome.sides["optimized"], _without(name, outcome)
    if without is None:
        return f"{inverse_of(whole)} with all changes" if whole.is_timed else ""
    if not without.is_timed or not costs(without):
        return ""
    return f"{inverse_of(without)} {'confirmed' if without is whole else 'on top of the others'}"


def _gains(answer: Answer, survey: Survey, of_tip: Sequence[Result]) -> str:
    """What each way brings, if there are several."""
    ways = sides_alone(survey)[answer.tip]
    if len(ways) == 1:
        return "; ".join([*(gain.brought for gain in answer.gains), *answer.remarks]) or answer.gain
    do = {side: way.in_a_line for side, way in ways.items()}
    return "; ".join(f"{do[result.variant]}: {speedup_of(result)}" for result in of_tip if result.variant in do)


def _do(answer: Answer, survey: Survey, of_tip: Sequence[Result]) -> str:
    """What to write in this job: of the ways that pay, else of the best if the tip is not answered with no."""
    ways = sides_alone(survey)[answer.tip]
    by_side = {result.variant: result for result in of_tip if result.variant in ways}
    paying = [ways[side].do for side, result in by_side.items() if result.verdict == "faster"]
    speedups = {side: result.speedup for side, result in by_side.items() if result.speedup is not None}
    best = max(speedups, key=speedups.__getitem__, default="optimized")
    return "; or ".join(paying) or (ways[best].do if answer.do else "")


def _failed(answer: Answer, of_tip: Sequence[Result]) -> Answer:
    """What kept a tip from being measured, as an answer."""
    reason = next((result.reasons[0] for result in of_tip if result.reasons and not result.is_measured), None)
    if reason is None:
        return answer
    word = {"not engaged": NO_EFFECT, "different results": OTHER_RESULTS}.get(reason.kind, FAILS)
    return replace(answer, answer=word, do="", gain=reason.what)


def _price(answer: Answer, outcome: JobOutcome) -> str:
    changing = [way.name for way in outcome.survey.ways if way.tip == answer.tip and way.changes_numbers]
    ways = outcome.survey.by_name
    member = next((name for name in outcome.members if ways[name].tip == answer.tip), None)
    without = _without(member, outcome) if member and pays(outcome) else None
    once_more = price_once(without) if member and without and ways[member].takes_once else ""
    changes_results = "results change" if changing and answer.kind == USE else ""
    alone = answer.price if answer.price != NOT_MEASURED else ""
    return "; ".join(filter(None, (alone, once_more, changes_results)))


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
