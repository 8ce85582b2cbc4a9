"""What `tipbench advise` says of a person's job: the terminal's lines and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tipbench.advise.found import Found, by_name, changes, conclusion, interplay, inverse_of, pays, price, speedup_of
from tipbench.advise.once import once, price_once
from tipbench.advise.pairs import AS_IT_IS, sides_alone
from tipbench.advise.surveyed import Survey
from tipbench.advise.together import WITHOUT, costs, mean_of
from tipbench.records.record import PHASES
from tipbench.report.advice import DO_NOT, USE, Advice, Gain, advise
from tipbench.report.answers import noise
from tipbench.report.cells import table
from tipbench.report.document import Block, Bullets, Heading, Line, Literal, Page, Paragraph, Strong
from tipbench.report.effect import Effect, effects
from tipbench.report.machine_words import machine_words, versions
from tipbench.report.rows import CONTROL, Row, rows
from tipbench.report.wording import plain, seconds

LOADING, FORWARD, BACKWARD, OPTIMIZER = PHASES
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
"""To import or to build a job, from which on it is said."""

VISIBLE_SHARE = 0.005
"""Of a step's time: the least that is said of a phase."""

VISIBLE = 0.05
"""What a job makes of rounding, from which on the page says so."""


def about(survey: Survey) -> str:
    """`train.py:job: a training of 11.2 M parameters, about 52.1 ms a step on cpu`."""
    kinds = {
        "training": "a training",
        "inference": "an inference",
        "step": "a step of which nothing is known",
        "command": "a command",
    }
    size = f" of {_millions(survey['parameters'])} parameters" if survey["parameters"] else ""
    what = f"{kinds[survey['kind']]}{size}"
    return f"{survey['name']}: {what}, about {seconds(survey['step_s'])} a step on {survey['device']}"


def slow(survey: Survey) -> list[str]:
    """Sentences on what makes each measurement of this job take long, beside its steps."""
    said, file = [], survey["name"].rpartition(":")[0]
    if survey["import_s"] >= SLOW_S:
        said.append(
            f"Importing {file} takes {seconds(survey['import_s'])} in each process that measures: what runs a training "
            'belongs below `if __name__ == "__main__":`.'
        )
    if survey["build_s"] >= SLOW_S:
        said.append(
            f"Building the job takes {seconds(survey['build_s'])}, and it is built about six times to check a tip and "
            "twice for each launch: give a budget of hours, or let it read from a file what it prepares."
        )
    return said


def lines(found: Found) -> list[str]:
    """For the terminal: the job, what its tips bring together, and one line a tip."""
    given = _given(found)
    width = max((len(plain(one.answer)) for one in given), default=0)
    said = [f"{plain(one.answer):<{width}}  {plain(one.title)}: {plain(_gain(one))}" for one in given]
    listed = [f"  {line}" for line in changes(found)]
    more = [f"  {line}" for line in (interplay(found), price(found)) if line]
    return [about(found.survey), *ceilings(found), "", conclusion(found), *listed, *more, "", *said]


def as_json(found: Found) -> dict[str, object]:
    """{"job", "kind", "device", "step_s", "conclusion", "measured_anew", "together", "time_with_changes", "tips",
    "not_tried", "by_hand"}.

    measured_anew: names of what was left at the end, whether that pays or not. together: null where nothing pays, else
    {"gain", "low", "high", "once_s", "pays_after_steps", "price", "members": [{"name", "do", "alone", "gain", "low",
    "high", "once_s", "pays_after_steps"}]} with factors of the job's speed, those of a member beside the others but for
    "alone"; null where too few launches say, or that was not measured.
    tips: [{"tip", "title", "answer", "do", "gain", "price"}].
    not_tried: [{"name", "why"}]. by_hand: [{"tip", "title", "do"}].
    """
    survey, whole = found.survey, found.stack.get("optimized") if pays(found) else None
    ways = {way["name"]: way for way in survey["ways"]}
    stack = None
    if whole is not None:
        beside = {name: _beside_the_others(name, found) for name in found.members}
        alone = {name: math.exp(mean_of(effect) or 0.0) for name, effect in by_name(found).items()}
        listed = [
            {"name": name, "do": ways[name]["do"], "alone": alone[name], **_factors(effect)}
            for name, effect in beside.items()
        ]
        stack = {**_factors(whole), "price": price(found), "members": listed}
    return {
        "job": found.survey["name"],
        "kind": survey["kind"],
        "device": survey["device"],
        "step_s": survey["step_s"],
        "conclusion": conclusion(found),
        "measured_anew": list(found.members),
        "together": stack,
        "time_with_changes": dict(found.time),
        "tips": [
            {
                "tip": one.tip,
                "title": one.title,
                "answer": one.answer,
                "do": one.do,
                "gain": _gain(one),
                "price": _price(one, found),
            }
            for one in _given(found)
        ],
        "not_tried": [{"name": name, "why": way["why_not"]} for name, way in ways.items() if way["why_not"]],
        "by_hand": [{"tip": tip, "title": title, "do": do} for tip, title, do in survey["by_hand"]],
    }


def _factors(effect: Effect | None) -> dict[str, float | None]:
    """How much faster the baseline is than this side, with the interval, and what it takes once."""
    if effect is None:
        return dict.fromkeys(("gain", "low", "high", "once_s", "pays_after_steps"))
    mean = mean_of(effect)
    ends = (mean, effect.high, effect.low)
    once_s, steps = once(effect) or (None, None)
    factors = (None if end is None else math.exp(-end) for end in ends)
    return dict(zip(("gain", "low", "high"), factors, strict=True)) | {"once_s": once_s, "pays_after_steps": steps}


def ceilings(found: Found) -> list[str]:
    """Sentences on where the time goes, and what no tip can bring more than; none of a step that is not known."""
    card, said = found.survey["card"], []
    shares, whole = _shares(card), sum(card.get(phase, 0.0) for phase in PHASES)
    if shares:
        said.append(f"Of a step's time {_spent(shares)}.")
        for phase, what in ((LOADING, "loading"), (OPTIMIZER, "the optimizer")):
            if VISIBLE_SHARE <= shares.get(phase, 0.0) < 1:
                said.append(f"A change of {what} alone can bring no more than {1 / (1 - shares[phase]):.2f}x.")
    least, moving = _at_best(found.survey, "flops", whole), _at_best(found.survey, "bytes", whole)
    if least:
        copied = f", and its reads and writes {seconds(moving)} at the rate of a large copy" if moving else ""
        said.append(
            f"The arithmetic of a step would take {seconds(least)} at the rate of a large matrix product{copied}."
        )
    if pays(found) and (after := _shares(found.time)):
        left = sum(found.time.values())
        times = f"; a step then takes {left / least:.1f} times what its arithmetic would" if least else ""
        said.append(f"With the changes {_spent(after)}{times}.")
    return said


def _at_best(survey: Survey, work: str, whole: float) -> float:
    """Seconds for this part of a step's work at the rate of a large operation. 0 where it is not known, or is more than
    the whole step: operations of grouped convolutions are counted too often, and caches are faster than memory."""
    rate = survey["rates"].get(work, 0.0)
    least = survey["card"].get(work, 0.0) / rate if rate else 0.0
    return least if least <= whole else 0.0


def _shares(seconds_of: Mapping[str, float]) -> dict[str, float]:
    """Of each phase of a step that takes any time; empty where the forward pass is not known."""
    whole = sum(seconds_of.get(phase, 0.0) for phase in PHASES)
    if not seconds_of.get(FORWARD):
        return {}
    return {phase: seconds_of[phase] / whole for phase in PHASES if seconds_of[phase] >= VISIBLE_SHARE * whole}


def _spent(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{words} {100 * shares[phase]:.0f} %" for phase, words in PHASE_WORDS.items() if phase in shares)


def page(found: Found) -> Page:
    given = _given(found)
    survey = found.survey
    body: list[list[Line | str]] = [
        [one.answer, one.title, (Literal(one.do),) if one.do else "", _gain(one), _price(one, found)] for one in given
    ]
    own = [row for row in rows(found.alone) if row.tip == AS_IT_IS and row.judgement.p is not None]
    listed = tuple((line,) for line in changes(found))
    blocks: list[Block] = [
        Paragraph((f"{about(found.survey)}. {versions(found.alone.machine)}; {machine_words(found.alone.machine)}.",)),
        Paragraph((Strong(f"{conclusion(found)}."),)),
        *([Bullets(listed)] if listed else []),
        *(Paragraph((line,)) for line in (interplay(found), price(found)) if line),
        *([Paragraph((" ".join(known),))] if (known := ceilings(found)) else []),
        *([Paragraph(noise(own))] if own else []),
        *([Paragraph((" ".join(said),))] if (said := slow(survey)) else []),
        *([] if survey["repeats"] else [Paragraph((_differs(survey),))]),
        *([Paragraph((_chaotic(survey),))] if survey["rounding"] > VISIBLE else []),
        *([] if survey["compared"] else [Paragraph(("A step returns nothing, so results were not compared.",))]),
        Heading("Each tip alone"),
        table("answers", ("answer", "tip", "what to write", "gain", "price"), body),
        Heading("Not tried"),
        Bullets(tuple((f"{titles}: {why}.",) for why, titles in _not_tried(survey).items())),
        Heading("What only you can try"),
        Paragraph(("These tips change code that nobody but you knows:",)),
        Bullets(tuple((f"{title}: ", Literal(do)) for _, title, do in survey["by_hand"])),
    ]
    return Page(f"Which tips pay for {found.survey['name']}", tuple(blocks))


def _not_tried(survey: Survey) -> dict[str, str]:
    """By reason, the titles of the tips; of one that is tried in another way with the name of the way that is not."""
    tried = {way["tip"] for way in survey["ways"] if not way["why_not"]}
    titles: dict[str, list[str]] = {}
    for way in survey["ways"]:
        if way["why_not"]:
            title = f"{way['title']} ({way['do']})" if way["tip"] in tried else way["title"]
            titles.setdefault(way["why_not"], []).append(title)
    return {why: "; ".join(dict.fromkeys(listed)) for why, listed in titles.items()}


def _given(found: Found) -> list[Advice]:
    """One advice a tip that was tried, without the job beside itself, what seems to bring most first. What the launches
    that confirmed the changes say of a tip counts more than what it brings alone."""
    of_tip: dict[str, list[Row]] = {}
    for row in rows(found.alone):
        of_tip.setdefault(row.tip, []).append(row)
    measured = effects(found.alone)
    bring: dict[str, float] = {}
    for effect in measured:
        mean = mean_of(effect) if effect.measured else None
        bring[effect.tip] = max(bring.get(effect.tip, -math.inf), -math.inf if mean is None else mean)
    answered = [given for given in advise([measured]) if given.tip not in (AS_IT_IS, CONTROL)]
    answered.sort(key=lambda given: -bring[given.tip])
    return [
        _beside_the_changes(
            replace(given, do=_do(given, found.survey, measured), gains=_gains(given, found.survey, measured)), found
        )
        if any(row.measured for row in of_tip[given.tip])
        else _failed(given, of_tip[given.tip])
        for given in answered
    ]


def _beside_the_changes(given: Advice, found: Found) -> Advice:
    """The advice on a tip as the changes that pay together say it; as it is where these say nothing of it."""
    if not pays(found):
        return given
    all_ways = {way["name"]: way for way in found.survey["ways"]}
    ways = {name: way for name, way in all_ways.items() if way["tip"] == given.tip}
    alone = Gain(f"alone {_gain(given)}")
    for name in ways.keys() & set(found.members):
        if said := _as_a_member(name, found):
            return replace(given, kind=USE, answer=USE, do=ways[name]["do"], gains=(Gain(said), alone))
        return given
    why_not = [f"{inverse_of(found.left_out[name])} on top of the changes" for name in ways if name in found.left_out]
    taken = {all_ways[name]["one_of"]: all_ways[name]["do"] for name in found.members if all_ways[name]["one_of"]}
    why_not += [f"cannot be used with {taken[way['one_of']]}" for way in ways.values() if way["one_of"] in taken]
    if given.kind == USE and why_not:
        return replace(given, kind=DO_NOT, answer=DO_NOT, do="", gains=(Gain(why_not[0]), alone))
    return given


def _beside_the_others(name: str, found: Found) -> Effect | None:
    """The job with all members but this one; None where it was not left out in turn."""
    return found.stack.get("optimized" if len(found.members) == 1 else f"{WITHOUT}{name}")


def _as_a_member(name: str, found: Found) -> str:
    """What is known to be gained with this change among the others; empty where that is not known."""
    whole, beside = found.stack["optimized"], _beside_the_others(name, found)
    if beside is None:
        return f"{inverse_of(whole)} with all changes" if whole.mean is not None else ""
    if beside.mean is None or not costs(beside):
        return ""
    return f"{inverse_of(beside)} {'confirmed' if beside is whole else 'on top of the others'}"


def _gains(given: Advice, survey: Survey, measured: Sequence[Effect]) -> tuple[Gain, ...]:
    """What each way brings, where there are several."""
    ways = sides_alone(survey)[given.tip]
    if len(ways) == 1:
        return tuple(given.gains)
    do = {side: way["do"].rstrip(":") for side, way in ways.items()}
    return tuple(Gain(f"{do[one.variant]}: {speedup_of(one)}") for one in measured if one.tip == given.tip)


def _do(given: Advice, survey: Survey, measured: Sequence[Effect]) -> str:
    """What to write in this job: of the ways that pay, else of the best where the tip is not answered with no."""
    ways = sides_alone(survey)[given.tip]
    own = {one.variant: one for one in measured if one.tip == given.tip and one.variant in ways}
    paying = [ways[side]["do"] for side, one in own.items() if one.verdict == "faster"]
    means = {side: mean for side, one in own.items() if (mean := mean_of(one)) is not None}
    best = max(means, key=means.__getitem__, default="optimized")
    return "; or ".join(paying) or (ways[best]["do"] if given.do else "")


def _failed(given: Advice, found: Sequence[Row]) -> Advice:
    """What kept a tip from being measured, as an answer."""
    why = next((reason for row in found if (reason := row.judgement.record.why or row.judgement.found.why)), None)
    if why is None:
        return given
    answer = {"not engaged": NO_EFFECT, "different results": OTHER_RESULTS}.get(why.kind, FAILS)
    return replace(given, answer=answer, do="", gains=(Gain(why.text.partition(": ")[2] or why.text),))


def _gain(given: Advice) -> str:
    return "; ".join(gain.text.removeprefix("Alone ") for gain in given.gains)


def _price(given: Advice, found: Found) -> str:
    changing = [way["name"] for way in found.survey["ways"] if way["tip"] == given.tip and way["changes_numbers"]]
    scores = filter(None, map(found.scores.words, changing))
    here = [way["name"] for way in found.survey["ways"] if way["tip"] == given.tip and way["name"] in found.members]
    beside = _beside_the_others(here[0], found) if here and pays(found) else None
    once_more = price_once(beside) if beside else ""
    results = "results change" if changing and given.kind == USE else ""
    return "; ".join(filter(None, (given.price, once_more, results, *scores)))


def _differs(survey: Survey) -> str:
    return (
        f"Two runs of the job with the same seed returned results that differ by {100 * survey['noise']:.2g} %. "
        "Differences of that size are not taken for an error of a tip."
    )


def _chaotic(survey: Survey) -> str:
    return (
        "The job magnifies rounding: parameters changed by 0.001 % make its results or gradients differ by "
        f"{100 * survey['rounding']:.2g} % after two steps. So a tip's may differ by three times as much."
    )


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count:,}"
