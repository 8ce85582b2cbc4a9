"""What was found of a person's job, and what is concluded: which tips together, and what they bring."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tipbench.advise.once import price_once
from tipbench.advise.pairs import sides_alone
from tipbench.advise.scores import Scores
from tipbench.advise.surveyed import Survey
from tipbench.advise.together import WITHOUT, Stack, costs, mean_of
from tipbench.records.record import Run
from tipbench.report.advice import more_memory
from tipbench.report.effect import Effect, effects
from tipbench.report.wording import percent, plural, ratio
from tipbench.verdict.rules import MARGIN


@dataclass(frozen=True)
class Found:
    """What was found of a job. alone: the run of every tip by itself. members: the ways to follow tips that are left
    together. stack: their pair, measured anew: by side what it takes beside the whole stack; empty without members.
    left_out: by way that was with them and is no more, what doing without it took beside the whole stack of then. time:
    seconds that the phases of a step take with these members, where that is known. scores: by a function of theirs."""

    survey: Survey
    alone: Run
    members: Stack
    stack: dict[str, Effect]
    left_out: Mapping[str, Effect] = field(default_factory=dict)
    time: Mapping[str, float] = field(default_factory=dict)
    scores: Scores = field(default_factory=Scores)


def pays(found: Found) -> bool:
    """Whether the changes together are known to bring more than the 1 % that counts as no difference, or seem to pay,
    from too few launches to know."""
    whole = found.stack.get("optimized")
    if whole is None or not found.members:
        return False
    return costs(whole) if whole.high is None else whole.high < -MARGIN


def gain(found: Found) -> str:
    """`1.83x [1.76, 1.90] with 2 changes`, from launches that chose nothing."""
    whole = found.stack["optimized"]
    more = "" if whole.mean is not None else f", from {_launches(whole.launches)}: no verdict yet"
    return f"{inverse_of(whole)} with {plural(len(found.members), 'change')}{more}"


def conclusion(found: Found) -> str:
    """What to do, in one sentence without its full stop."""
    if pays(found):
        return gain(found)
    aside = {way["tip"] for way in found.survey["ways"] if way["changes_numbers"]}
    tips = sides_alone(found.survey).keys() - aside
    of_tips = [effect for effect in effects(found.alone) if effect.tip in tips]
    measured = [effect for effect in of_tips if effect.measured]
    unknown = tips - {effect.tip for effect in of_tips} | {effect.tip for effect in measured if effect.high is None}
    if unknown:
        count = f"{len(unknown)} of {plural(len(tips), 'tip')} need{'s' * (len(unknown) == 1)} more launches"
        return f"Nothing worth changing was found yet: {count}"
    known = [math.expm1(effect.high) for effect in measured if effect.high is not None]
    if not known:
        return "Nothing worth changing was found: no tip that leaves the results as they are could be measured"
    most = max(0.0, *known)
    return f"Nothing worth changing: no tip that leaves the results as they are brings more than {percent(most)}"


def changes(found: Found) -> list[str]:
    """What each member brings on top of the others, what those brought that were left out, and what may not be in."""
    return [*(_members(found) if pays(found) else _tried(found)), *_kept_out(found)]


def _do(found: Found) -> dict[str, str]:
    return {way["name"]: way["do"].rstrip(":") for way in found.survey["ways"]}


def _tried(found: Found) -> list[str]:
    """What seemed to pay alone, and does not for certain by launches that chose nothing."""
    whole = found.stack.get("optimized")
    if whole is None or mean_of(whole) is None:
        return []
    tried = " and ".join(_do(found)[name] for name in found.members)
    return [f"Seemed to pay, but not more than 1 % for certain when measured anew: {tried}, {inverse_of(whole)}"]


def _members(found: Found) -> list[str]:
    do, alone, said = _do(found), by_name(found), []
    for name in found.members:
        if len(found.members) == 1:
            said.append(do[name])
        elif (beside := found.stack.get(f"{WITHOUT}{name}")) is not None:
            nothing = "" if costs(beside) else ", where it may bring nothing"
            more = f"; costs {once}" if (once := price_once(beside)) else ""
            said.append(f"{do[name]}: {inverse_of(beside)} on top of the others{nothing}{more}")
        else:
            said.append(f"{do[name]}: {speedup_of(alone[name])} alone")
    left = found.left_out.items()
    return [*said, *(f"Left out: {do[name]}, {inverse_of(effect)} on top of these" for name, effect in left)]


def _kept_out(found: Found) -> list[str]:
    """What pays alone and is not among the members because it changes results."""
    alone, said = by_name(found), []
    for way in found.survey["ways"]:
        name, do = way["name"], way["do"].rstrip(":")
        if not way["changes_numbers"] or name not in alone or alone[name].verdict != "faster":
            continue
        if name in found.members or name in found.left_out or found.scores.keeps(name):
            continue
        score = found.scores.words(name)
        why, more = ("lowers the score", score) if score else ("changes results", "`--allow numerics` lets it in")
        said.append(f"Left out, as it {why}: {do}, {speedup_of(alone[name])} alone; {more}")
    return said


def interplay(found: Found) -> str:
    """Whether what each member brings on top of the others multiplies to less than what all bring, or to more, or that
    none was left out; empty where that is not known, or is so within two standard errors. Of more than two members
    this says nothing of a single one: it may still bring less than alone where they help each other."""
    whole = found.stack.get("optimized")
    others = [found.stack.get(f"{WITHOUT}{name}") for name in found.members]
    if pays(found) and len(others) > 1 and not any(others):
        return (
            "There was no time to leave each out in turn, so what each brings on top of the others is not known; a "
            "longer budget shows that."
        )
    known = [
        (one.mean, one.error) for one in (whole, *others) if one and one.mean is not None and one.error is not None
    ]
    if len(others) < 2 or len(known) <= len(others):
        return ""
    (all_s, _), *each = known
    more = sum(mean for mean, _ in each) - all_s
    if abs(more) <= 2 * math.hypot(*(error for _, error in known)):
        return ""
    if more > 0:
        return "In part they save the same time: where one is left out, the others bring some of its gain."
    return "They help each other: where one is left out, the others bring less."


def price(found: Found) -> str:
    """What all changes cost once, with the steps that pay for it, and in memory; empty where that is nothing."""
    whole = found.stack.get("optimized")
    if whole is None or not pays(found):
        return ""
    if whole.one_off is None:
        return "What the changes take once, such as to compile, was not measured; a longer budget shows that."
    live = [(whole.memory_after, whole.memory_before)] if whole.memory_before and whole.memory_after else []
    trees = [(whole.tree[1], whole.tree[0])] if whole.tree else []
    once = price_once(whole)
    listed = [*([once] if once else []), *more_memory(live, trees)]
    if not listed:
        return ""
    what = "This change costs" if len(found.members) == 1 else "Together the changes cost"
    cached = " Compile caches were empty: a later run finds there what is compiled, and starts sooner." if once else ""
    return f"{what} {', and '.join(listed)}.{cached}"


def by_name(found: Found) -> dict[str, Effect]:
    """By way, what it was found to bring alone."""
    sides = sides_alone(found.survey)
    measured = [one for one in effects(found.alone) if one.tip in sides and one.variant in sides[one.tip]]
    return {sides[one.tip][one.variant]["name"]: one for one in measured}


def speedup_of(effect: Effect) -> str:
    mean = mean_of(effect)
    if mean is None:
        return effect.reason if not effect.measured else "not measured yet"
    if effect.mean is None or effect.low is None or effect.high is None:
        return f"{ratio(math.exp(mean), None, None)} from {_launches(effect.launches)}"
    return ratio(*map(math.exp, (effect.mean, effect.low, effect.high)))


def inverse_of(effect: Effect) -> str:
    """What the baseline brings over this side."""
    if effect.mean is None or effect.low is None or effect.high is None:
        mean = mean_of(effect)
        return "not measured" if mean is None else ratio(math.exp(-mean), None, None)
    return ratio(*(math.exp(-end) for end in (effect.mean, effect.high, effect.low)))


def _launches(count: int) -> str:
    return "1 launch" if count == 1 else f"{count} launches"
