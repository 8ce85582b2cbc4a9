"""What `tipbench advise` says of a person's job: the terminal's lines and the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tipbench.advise.pairs import AS_IT_IS, WITHOUT, sides_alone
from tipbench.advise.surveyed import Survey
from tipbench.advise.together import Stack
from tipbench.records.record import PHASES, Run
from tipbench.report.advice import USE, Advice, Gain, advise
from tipbench.report.answers import noise
from tipbench.report.cells import table
from tipbench.report.document import Block, Bullets, Heading, Line, Literal, Page, Paragraph, Strong
from tipbench.report.effect import Effect, effects
from tipbench.report.jobs import cards
from tipbench.report.machine_words import machine_words, versions
from tipbench.report.rows import CONTROL, Row, rows
from tipbench.report.wording import percent, plain, plural, ratio, seconds

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

VISIBLE = 0.05
"""What a job makes of rounding, from which on the page says so."""


@dataclass(frozen=True)
class Found:
    """What was found of a job. alone: the run of every tip by itself. members: the ways to follow tips that are left
    together. stack: their pair, measured anew: by side what it takes beside the whole stack; empty without members."""

    survey: Survey
    alone: Run
    members: Stack
    stack: dict[str, Effect]


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


def mean_of(effect: Effect) -> float | None:
    """ln of the speedup, from however few launches."""
    if effect.mean is not None:
        return effect.mean
    return None if effect.so_far is None else math.log(effect.so_far[0])


def pays(found: Found) -> bool:
    """Whether the changes together are known to pay, or seem to, from too few launches to know."""
    whole = found.stack.get("optimized")
    if whole is None or not found.members:
        return False
    return whole.verdict == "slower" or (whole.mean is None and (mean_of(whole) or 0.0) < 0)


def together(found: Found) -> str:
    """`1.83x [1.76, 1.90] with 2 changes`, from launches that chose nothing."""
    whole = found.stack["optimized"]
    more = "" if whole.mean is not None else f", from {_launches(whole.launches)}: no verdict yet"
    return f"{_inverse(whole)} with {plural(len(found.members), 'change')}{more}"


def _launches(count: int) -> str:
    return "1 launch" if count == 1 else f"{count} launches"


def conclusion(found: Found) -> str:
    """What to do, in one sentence without its full stop."""
    if pays(found):
        return together(found)
    aside = {AS_IT_IS, CONTROL, *(way["tip"] for way in found.survey["ways"] if way["changes_numbers"])}
    ends = [effect.high for effect in effects(found.alone) if effect.measured and effect.tip not in aside]
    known = [end for end in ends if end is not None]
    if not known or len(known) < len(ends):
        return "Nothing worth changing was found yet"
    most = max(0.0, *map(math.expm1, known))
    return f"Nothing worth changing: no tip that leaves the results as they are brings more than {percent(most)}"


def lines(found: Found) -> list[str]:
    """For the terminal: the job, what its tips bring together, and one line a tip."""
    given = _given(found)
    width = max((len(plain(one.answer)) for one in given), default=0)
    said = [f"{plain(one.answer):<{width}}  {plain(one.title)}: {plain(_gain(one))}" for one in given]
    members = [f"  {line}" for line in _members(found)]
    return [about(found.survey), *ceilings(found), "", conclusion(found), *members, "", *said]


def as_json(found: Found) -> dict[str, object]:
    """{"job", "kind", "device", "step_s", "together", "tips", "not_tried", "by_hand"}.

    together: null where nothing pays, else {"gain", "low", "high", "members": [{"name", "do", "gain", "low", "high"}]}
    with factors of the job's speed, those of a member beside the others; null where too few launches say.
    tips: [{"tip", "title", "answer", "do", "gain", "price"}].
    not_tried: [{"name", "why"}]. by_hand: [{"tip", "title", "do"}].
    """
    survey, whole = found.survey, found.stack.get("optimized") if pays(found) else None
    ways = {way["name"]: way for way in survey["ways"]}
    stack = None
    if whole is not None:
        beside = {name: found.stack.get(f"{WITHOUT}{name}") for name in found.members}
        listed = [{"name": name, "do": ways[name]["do"], **_factors(effect)} for name, effect in beside.items()]
        stack = {**_factors(whole), "members": listed}
    return {
        "job": found.survey["name"],
        "kind": survey["kind"],
        "device": survey["device"],
        "step_s": survey["step_s"],
        "together": stack,
        "tips": [
            {
                "tip": one.tip,
                "title": one.title,
                "answer": one.answer,
                "do": one.do,
                "gain": _gain(one),
                "price": _price(one, survey),
            }
            for one in _given(found)
        ],
        "not_tried": [{"name": name, "why": way["why_not"]} for name, way in ways.items() if way["why_not"]],
        "by_hand": [{"tip": tip, "title": title, "do": do} for tip, title, do in survey["by_hand"]],
    }


def _factors(effect: Effect | None) -> dict[str, float | None]:
    """How much faster the baseline is than this side, with the interval."""
    if effect is None:
        return dict.fromkeys(("gain", "low", "high"))
    mean = mean_of(effect)
    ends = (mean, effect.high, effect.low)
    return dict(zip(("gain", "low", "high"), (None if end is None else math.exp(-end) for end in ends), strict=True))


def ceilings(found: Found) -> list[str]:
    """Sentences on where the time goes, and what no tip can bring more than; none of a step that is not known."""
    listed = [card for card in cards(rows(found.alone)) if card.pairs]
    if not listed:
        return []
    card, said = listed[0], []
    if card.shares.get("forward"):
        shares = {name: share for name, share in card.shares.items() if share >= 0.005}
        spent = ", ".join(
            f"{words} {100 * shares[name]:.0f} %" for name, words in PHASE_WORDS.items() if name in shares
        )
        said.append(f"Of a step's time {spent}.")
        for phase, what in ((LOADING, "loading"), (OPTIMIZER, "the optimizer")):
            if 0.005 <= shares.get(phase, 0.0) < 1:
                said.append(f"A change of {what} alone can bring no more than {1 / (1 - shares[phase]):.2f}x.")
    flops, rate = card.card.get("flops", 0.0), found.survey["rates"].get("flops", 0.0)
    if flops and rate:
        said.append(
            f"At the rate of a large matrix product the step's operations would take {seconds(flops / rate)} of its "
            f"{seconds(card.step_s)}."
        )
    return said


def page(found: Found) -> Page:
    given = _given(found)
    survey = found.survey
    body: list[list[Line | str]] = [
        [one.answer, one.title, (Literal(one.do),) if one.do else "", _gain(one), _price(one, survey)] for one in given
    ]
    own = [row for row in rows(found.alone) if row.tip == AS_IT_IS and row.judgement.p is not None]
    members = tuple((line,) for line in _members(found))
    blocks: list[Block] = [
        Paragraph((f"{about(found.survey)}. {versions(found.alone.machine)}; {machine_words(found.alone.machine)}.",)),
        Paragraph((Strong(f"{conclusion(found)}."),)),
        *([Bullets(members)] if members else []),
        *([Paragraph((" ".join(known),))] if (known := ceilings(found)) else []),
        *([Paragraph(noise(own))] if own else []),
        *([] if survey["repeats"] else [Paragraph((_differs(survey),))]),
        *([Paragraph((_chaotic(survey),))] if survey["rounding"] > VISIBLE else []),
        *([] if survey["compared"] else [Paragraph(("A step returns nothing, so results were not compared.",))]),
        Heading("Each tip alone"),
        table("answers", ("answer", "tip", "what to write", "gain", "price"), body),
        Heading("Not tried"),
        Bullets(tuple((f"{way['title']}: {way['why_not']}.",) for way in survey["ways"] if way["why_not"])),
        Heading("What only you can try"),
        Paragraph(("These tips change code that nobody but you knows:",)),
        Bullets(tuple((f"{title}: ", Literal(do)) for _, title, do in survey["by_hand"])),
    ]
    return Page(f"Which tips pay for {found.survey['name']}", tuple(blocks))


def _given(found: Found) -> list[Advice]:
    """One advice a tip that was tried, without the job beside itself."""
    of_tip: dict[str, list[Row]] = {}
    for row in rows(found.alone):
        of_tip.setdefault(row.tip, []).append(row)
    answered = [given for given in advise([effects(found.alone)]) if given.tip not in (AS_IT_IS, CONTROL)]
    return [
        replace(given, do=_do(given, found.survey, of_tip[given.tip]))
        if any(row.measured for row in of_tip[given.tip])
        else _failed(given, of_tip[given.tip])
        for given in answered
    ]


def _do(given: Advice, survey: Survey, found: Sequence[Row]) -> str:
    """What to write in this job: of the ways that pay, else of the first where the tip is not answered with no."""
    ways = sides_alone(survey)[given.tip]
    paying = [ways[row.variant]["do"] for row in found if row.verdict == "faster" and row.variant in ways]
    return "; or ".join(paying) or (ways["optimized"]["do"] if given.do else "")


def _failed(given: Advice, found: Sequence[Row]) -> Advice:
    """What kept a tip from being measured, as an answer."""
    why = next((reason for row in found if (reason := row.judgement.record.why or row.judgement.found.why)), None)
    if why is None:
        return given
    answer = {"not engaged": NO_EFFECT, "different results": OTHER_RESULTS}.get(why.kind, FAILS)
    return replace(given, answer=answer, do="", gains=(Gain(why.text.partition(": ")[2] or why.text),))


def _members(found: Found) -> Sequence[str]:
    """What each member brings beside the others."""
    if not pays(found):
        return []
    do = {way["name"]: way["do"] for way in found.survey["ways"]}
    if len(found.members) == 1:
        return [do[name] for name in found.members]
    beside = {name: found.stack.get(f"{WITHOUT}{name}") for name in found.members}
    return [f"{do[name]}: {_inverse(one)} beside the others" for name, one in beside.items() if one is not None]


def _inverse(effect: Effect) -> str:
    """What the baseline brings over this side."""
    if effect.mean is None or effect.low is None or effect.high is None:
        mean = mean_of(effect)
        return "not measured" if mean is None else ratio(math.exp(-mean), None, None)
    return ratio(*(math.exp(-end) for end in (effect.mean, effect.high, effect.low)))


def _gain(given: Advice) -> str:
    return "; ".join(gain.text.removeprefix("Alone ") for gain in given.gains)


def _price(given: Advice, survey: Survey) -> str:
    changes = any(way["changes_numbers"] for way in survey["ways"] if way["tip"] == given.tip)
    return "; ".join(filter(None, (given.price, "results change" if changes and given.kind == USE else "")))


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
