"""What `tipbench advise` says of a person's job: the terminal's lines and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tipbench.advise.combination import SIDE_WITHOUT, costs
from tipbench.advise.outcome import (
    JobOutcome,
    change_lines,
    conclusion,
    inverse_of,
    lossy,
    once,
    pays,
    price_line,
    price_once,
    remarks,
    results_by_way,
    speedup_of,
)
from tipbench.advise.pairs import sides_alone
from tipbench.given.sides import AS_IT_IS
from tipbench.given.survey import Survey
from tipbench.machine.activity import OCCUPIED
from tipbench.records.record import BACKWARD, FORWARD, LOADING, OPTIMIZER, PHASES
from tipbench.report.answer import Answer, answers
from tipbench.report.answer_kinds import DO_NOT, USE
from tipbench.report.machine_words import machine_words, versions
from tipbench.report.markdown import render
from tipbench.report.price import NOT_MEASURED
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.wording import plain, plural, seconds

PHASE_WORDS = {
    LOADING: "loading takes",
    FORWARD: "the forward pass",
    BACKWARD: "the backward pass",
    OPTIMIZER: "the optimizer",
}

NO_EFFECT, OTHER_RESULTS, FAILS = "no effect here", "other results", "fails here"
"""Answers on a tip that could not be measured on a job: it changed nothing of what it is about, the job's results were
not the same with it, or it raised, hung or needed too much memory."""

SLOW_S = 10.0
"""To import or to build a job, from which on it is sentences."""

VISIBLE_SHARE = 0.005
"""Of a step's time: the least that is sentences of a phase."""

VISIBLE = 0.05
"""What a job makes of rounding, from which on the page says so."""


def headline(survey: Survey) -> str:
    """`train.py:job: a training of 11.2 M parameters, about 52.1 ms a step on cpu`."""
    kinds = {
        "training": "a training",
        "inference": "an inference",
        "step": "a step of which nothing is known",
        "command": "a command",
    }
    size = f" of {_millions(survey.parameters)} parameters" if survey.parameters else ""
    what = f"{kinds[survey.kind]}{size}"
    return f"{survey.name}: {what}, about {seconds(survey.step_s)} a step on {survey.device}"


def lost_cores(survey: Survey) -> list[str]:
    """That the job's own file takes cores from it, which no tip gives back."""
    if survey.cores >= survey.cores_before:
        return []
    left, file = plural(survey.cores, "core"), survey.name.rpartition(":")[0]
    return [
        f"{file} leaves the job {survey.cores} of the {survey.cores_before} cores that it was started with: before all "
        "else undo what binds it, such as os.sched_setaffinity in the file or in a library that it imports. What "
        f"follows holds for {left}."
    ]


def slow(survey: Survey) -> list[str]:
    """Sentences on what makes each measurement of this job take long, without its steps, or another one than the
    person's own program."""
    sentences, file = [], survey.name.rpartition(":")[0]
    if survey.variables:
        sentences.append(
            f"The job runs with {', '.join(survey.variables)}, from your shell{f' or from {file}' if file else ''}, on "
            f"both sides; torch has {plural(survey.threads, 'thread')}."
        )
    if survey.too_late:
        sentences.append(
            f"{file} sets {', '.join(survey.too_late)} after it has imported torch, which read its settings then: the "
            f"job runs with {plural(survey.threads, 'thread')}, as in your own program. Set them before."
        )
    if survey.unlike:
        first, again = map(seconds, survey.unlike)
        sentences.append(
            f"The first run took {first}, and the next {again}. If a run goes on from what an earlier one has left, as "
            "from a checkpoint, runs are not alike and no number here is of a whole one: let the command remove that."
            if survey.kind == "command"
            else f"Loading an item takes {first}, and {again} again, as the data set keeps it: a first "
            "epoch is unlike all later ones, most steps here are of first epochs, and memory grows with what is kept."
        )
    if survey.import_s >= SLOW_S:
        sentences.append(
            f"Importing {file} takes {seconds(survey.import_s)} in each process that measures: what runs a training "
            'belongs below `if __name__ == "__main__":`.'
        )
    if survey.build_s >= SLOW_S:
        sentences.append(
            f"Building the job takes {seconds(survey.build_s)}, and it is built about six times to check a tip and "
            "twice for each launch: give a budget of hours, or let it read from a file what it prepares."
        )
    return sentences


def lines(outcome: JobOutcome) -> list[str]:
    """For the terminal: the job, what its tips bring together, and one line a tip."""
    listed = _answers(outcome)
    width = max((len(plain(answer.answer)) for answer in listed), default=0)
    tips = [f"{plain(answer.answer):<{width}}  {plain(answer.title)}: {plain(answer.gain)}" for answer in listed]
    alters = [f"Alters results, so it stands by itself: {line}" for line in lossy(outcome).values()]
    together = [f"  {line}" for line in (*change_lines(outcome), *alters, *remarks(outcome))]
    first = [headline(outcome.survey), *lost_cores(outcome.survey), *ceilings(outcome)]
    return [*first, "", conclusion(outcome), *together, "", *tips]


def as_json(outcome: JobOutcome) -> dict[str, object]:
    """{"job", "kind", "device", "step_s", "conclusion", "measured_anew", "together", "lossy", "tips",
    "not_tried", "by_hand"}.

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
        alone = {name: result.speedup or 1.0 for name, result in results_by_way(outcome).items()}
        listed = [
            {"name": name, "do": ways[name].do, "alone": alone[name], **_factors(effect)}
            for name, effect in without.items()
        ]
        combination = {**_factors(whole), "price": price_line(outcome), "members": listed}
    return {
        "job": outcome.survey.name,
        "kind": survey.kind,
        "device": survey.device,
        "step_s": survey.step_s,
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


def ceilings(outcome: JobOutcome) -> list[str]:
    """Sentences on where the time goes, and what no tip can bring more than; none of a step that is not known."""
    shares, sentences = _shares(outcome.survey.card), []
    if outcome.survey.others > OCCUPIED:
        return [
            f"Where a step's time goes is not known, as other programs kept {outcome.survey.others:.1f} cores busy."
        ]
    if shares:
        spent = ", ".join(
            f"{words} {100 * shares[phase]:.0f} %" for phase, words in PHASE_WORDS.items() if phase in shares
        )
        sentences.append(f"Of a step's time {spent}{' in a first epoch' if outcome.survey.unlike else ''}.")
        for phase, what in ((LOADING, "loading"), (OPTIMIZER, "the optimizer")):
            if VISIBLE_SHARE <= shares.get(phase, 0.0) < 1 and not (phase == LOADING and outcome.survey.unlike):
                sentences.append(f"Making {what} free would give at most {1 / (1 - shares[phase]):.2f}x.")
    return sentences


def _shares(seconds_of: Mapping[str, float]) -> dict[str, float]:
    """Of each phase of a step that takes any time; empty where the forward pass is not known."""
    taken = {phase: max(0.0, seconds_of.get(phase, 0.0)) for phase in PHASES}
    whole = sum(taken.values())
    if not taken[FORWARD]:
        return {}
    return {phase: part / whole for phase, part in taken.items() if part >= VISIBLE_SHARE * whole}


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
        remarks=[*remarks(outcome), *([" ".join(where)] if (where := ceilings(outcome)) else [])],
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
    elif not survey.repeats:
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


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count:,}"
