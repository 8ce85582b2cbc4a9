"""What an advice concludes from its measurements: which changes together, what they bring and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any

from tipbench.advise.combination import SIDE_WITHOUT, Combination, costs, rungs
from tipbench.advise.pairs import IN_A_ROW, LOADING_TIPS, results_by_way, sides_alone
from tipbench.given.curve import JobCurve
from tipbench.given.survey import AS_IT_IS, Survey
from tipbench.machine.activity import OCCUPIED, mostly_beside
from tipbench.machine.controls import HEAP
from tipbench.records.record import Run
from tipbench.report.price import SOON, more_memory
from tipbench.report.result import Result, steps_to_pay
from tipbench.report.results import results
from tipbench.tip.wording import equal_work, percent, plural, ratio, seconds
from tipbench.verdict.rules import JOB_BOUND

OFF = math.log(1.05)
"""How far the job may be off from itself."""


@dataclass(frozen=True)
class JobOutcome:
    """What was measured of a job, and which ways to follow tips are left.

    Attributes:
        survey: of the job as it is.
        alone: the run of every tip by itself.
        members: names of the ways that are left together, in the order in which they are applied.
        sides: of the combination's pair, measured anew: by side its time relative to the whole combination; empty
            without members.
        left_out: for each way that was removed from the combination, the time without it relative to the full
            combination at that point.
        others: of each launch of all parts, cores that other programs kept busy, as far as that is known.
        on_busy: whether there is advice from a busy machine too.
        curves: how the rate of the job as it is depends on what can act on it.
    """

    survey: Survey
    alone: Run
    members: Combination
    sides: dict[str, Result]
    left_out: Mapping[str, Result] = field(default_factory=dict)
    others: Sequence[float] = ()
    on_busy: bool = False
    curves: Sequence[JobCurve] = ()

    @cached_property
    def by_way(self) -> dict[str, Result]:
        """By name, what each way brings alone."""
        return results_by_way(self.survey, results(self.alone))


def launch_steps(outcome: JobOutcome) -> list[float]:
    """Seconds of a step of the job as it is, the median in each launch of its comparisons."""
    loaded, steps = outcome.survey.epoch or IN_A_ROW, []
    for record in outcome.alone.records:
        in_a_row = loaded if outcome.survey.workers or record.info.tip["id"] in LOADING_TIPS else 1
        for launch in record.launches:
            blocks = [taken for side, taken in zip(launch.variant, launch.seconds, strict=True) if side == "baseline"]
            steps.append(median(blocks) / record.steps / in_a_row)
    return steps


def load_of_others(outcome: JobOutcome) -> str:
    """What other programs took of this machine in most launches, or while the job was surveyed if there is none yet;
    empty where that is little."""
    if outcome.others or outcome.survey.others <= OCCUPIED:
        return mostly_beside(outcome.others)
    return f"other programs kept {outcome.survey.others:.1f} cores busy while the job was surveyed"


def off_from_itself(alone: Run) -> str:
    """What the job beside itself came out as, if that is more than OFF; else empty."""
    own = next((result for result in results(alone) if result.tip == AS_IT_IS and result.is_timed), None)
    if own is None or own.speedup is None or own.log_speedup is None or abs(own.log_speedup) <= OFF:
        return ""
    return ratio(own.speedup, own.low, own.high)


def is_unreliable(outcome: JobOutcome) -> bool:
    """Whether nothing is advised, whatever was measured."""
    return bool(off_from_itself(outcome.alone) or (load_of_others(outcome) and not outcome.on_busy))


def pays(outcome: JobOutcome) -> bool:
    """Whether the changes together bring more than the 1 % that counts as no difference for certain, or by the interval
    of too few launches for that more than JOB_BOUND."""
    if is_unreliable(outcome):
        return False
    whole = outcome.sides.get("optimized")
    return bool(outcome.members) and whole is not None and (whole.verdict == "slower" or is_likely(whole))


def is_likely(whole: Result) -> bool:
    """Whether the job as it is takes longer by more than JOB_BOUND, by the interval of few launches."""
    return whole.verdict == "inconclusive" and whole.log_high is not None and whole.log_high < -JOB_BOUND


def is_open(outcome: JobOutcome) -> bool:
    """Whether further launches may still show that changes pay."""
    whole = outcome.sides.get("optimized")
    if outcome.members and (whole is None or whole.is_measured):
        return whole is None or whole.verdict == "inconclusive"
    return bool(_undecided(outcome))


def gain(outcome: JobOutcome) -> str:
    """`1.83x [1.76, 1.90] with 2 changes`, from launches that chose nothing, which may be few."""
    whole = outcome.sides["optimized"]
    few = f", likely, from {plural(len(whole.effects), 'launch')}" if is_likely(whole) else ""
    return f"{inverse_of(whole)} with {plural(len(outcome.members), 'change')}{few}"


def conclusion(outcome: JobOutcome) -> str:
    """What to do, in one sentence without its full stop."""
    others = load_of_others(outcome)
    if others and not outcome.on_busy:
        return f"This machine was busy, so there is no advice: {others}"
    if off := off_from_itself(outcome.alone):
        return f"No number here can be trusted, so there is no advice: the job beside itself came out {off}"
    if pays(outcome):
        return f"{gain(outcome)}, measured while {others}" if others else gain(outcome)
    whole = outcome.sides.get("optimized")
    if outcome.members and whole is not None and whole.verdict == "inconclusive":
        return f"Not known yet: {plural(len(outcome.members), 'change')} together, {inverse_of(whole)}"
    if outcome.members and whole is None:
        tried = "change that seems" if len(outcome.members) == 1 else "changes that seem"
        return f"Not enough time yet: {len(outcome.members)} {tried} to pay alone, not measured again"
    tips = _leaving_results(outcome)
    if unknown := _undecided(outcome):
        count = f"{len(unknown)} of {plural(len(tips), 'tip')} need{'s' * (len(unknown) == 1)} more launches"
        return f"Nothing worth changing was found yet: {count}"
    of_tips = [result for result in results(outcome.alone) if result.tip in tips]
    bounds = [result.high - 1 for result in of_tips if result.high is not None and result.is_timed]
    if not bounds:
        return "Nothing worth changing was found: no tip that leaves the results as they are could be measured"
    most = max(0.0, *bounds)
    return f"Nothing worth changing: no tip that leaves the results as they are brings more than {percent(most)}"


def _leaving_results(outcome: JobOutcome) -> set[str]:
    """The tips that were tried and leave the results as they are."""
    aside = {way.tip for way in outcome.survey.ways if way.changes_numbers}
    return sides_alone(outcome.survey).keys() - aside


def _undecided(outcome: JobOutcome) -> set[str]:
    """Those of them that have no launches, or may still bring more than 5 %."""
    tips = _leaving_results(outcome)
    of_tips = [result for result in results(outcome.alone) if result.tip in tips]
    open_ones = [result for result in of_tips if result.verdict == "inconclusive"]
    waiting = {result.tip for result in open_ones if result.log_high is None or result.log_high > JOB_BOUND}
    return tips - {result.tip for result in of_tips} | waiting


def change_lines(outcome: JobOutcome) -> list[str]:
    """What each member brings on top of the others, and what those brought that were left out; nothing where nothing is
    advised."""
    if is_unreliable(outcome):
        return []
    return _members(outcome) if pays(outcome) else _not_confirmed(outcome)


def ladder(outcome: JobOutcome) -> str:
    """`107 ms as it is -> async-loading 60.0 ms -> fused-optimizer 57.1 ms`: a step with one member after the other;
    empty where nothing pays, or a side between was not measured."""
    whole = outcome.sides.get("optimized")
    if not pays(outcome) or whole is None or not whole.speedup or not (steps := launch_steps(outcome)):
        return ""
    as_it_is = median(steps)
    words = [f"{seconds(as_it_is)} as it is"]
    for name, side, _ in rungs(outcome.members, outcome.by_way):
        result = outcome.sides.get(side)
        relative = 1.0 if side == "baseline" else result.speedup if result else None
        if relative:
            words.append(f"{name} {seconds(as_it_is * whole.speedup / relative)}")
    return " -> ".join(words) if len(words) == len(outcome.members) + 1 else ""


def _do(outcome: JobOutcome) -> dict[str, str]:
    return {name: way.in_a_line for name, way in outcome.survey.by_name.items()}


def _not_confirmed(outcome: JobOutcome) -> list[str]:
    """What seemed to pay alone, and does not for certain by launches that chose nothing."""
    whole = outcome.sides.get("optimized")
    if whole is None or whole.speedup is None:
        return []
    tried = " and ".join(_do(outcome)[name] for name in outcome.members)
    if whole.verdict == "inconclusive":
        return [f"Tried together, without a verdict yet: {tried}, {inverse_of(whole)}"]
    return [f"Seemed to pay, but not more than 1 % for certain when measured anew: {tried}, {inverse_of(whole)}"]


def _members(outcome: JobOutcome) -> list[str]:
    do, alone, sentences = _do(outcome), outcome.by_way, []
    for name in outcome.members:
        if len(outcome.members) == 1:
            sentences.append(do[name])
        elif (without := outcome.sides.get(f"{SIDE_WITHOUT}{name}")) is not None:
            nothing = "" if costs(without) else ", where it may bring nothing"
            once = price_once(without) if outcome.survey.by_name[name].takes_once else ""
            more = f"; costs {once}" if once else ""
            sentences.append(f"{do[name]}: {inverse_of(without)} on top of the others{nothing}{more}")
        else:
            sentences.append(f"{do[name]}: {speedup_of(alone[name])} alone")
    left = outcome.left_out.items()
    return [*sentences, *(f"Left out: {do[name]}, {inverse_of(result)} on top of these" for name, result in left)]


def lossy(outcome: JobOutcome) -> dict[str, str]:
    """By name, the ways that pay alone and alter results, those first that bring most: what each brings, and how far
    results are off with it. Empty where nothing is advised."""
    alone, ways = outcome.by_way, outcome.survey.by_name
    taken = {ways[name].one_of for name in outcome.members} - {""}
    paying = [
        (name, result)
        for name, result in alone.items()
        if ways[name].changes_numbers and ways[name].one_of not in taken and result.verdict == "faster"
    ]
    if is_unreliable(outcome):
        return {}
    return {
        name: f"{ways[name].in_a_line}: {speedup_of(result)} alone; "
        f"{_off(result.equal, outcome.survey.kind)}{equal_work(result.equal) or 'results were not compared'}"
        for name, result in sorted(paying, key=lambda one: -(one[1].log_speedup or 0.0))
    }


def _off(equal: Mapping[str, Any], kind: str) -> str:
    """How far what a step returns is off; empty if that was not compared."""
    off = equal.get("returned_error")
    what = "the loss over the compared steps is" if kind == "training" else "outputs are"
    return f"{what} {percent(off)} off; " if isinstance(off, float) else ""


def remarks(outcome: JobOutcome) -> list[str]:
    """What holds of all members together, in sentences."""
    without = [outcome.sides.get(f"{SIDE_WITHOUT}{name}") for name in outcome.members]
    apart = ""
    if pays(outcome) and len(without) > 1 and not any(without):
        apart = (
            "There was no time to leave each out in turn, so what each brings on top of the others is not known; a "
            "longer budget shows that."
        )
    return [sentence for sentence in (apart, price_line(outcome), heap(outcome)) if sentence]


def price_line(outcome: JobOutcome) -> str:
    """What all changes cost once, with the steps that pay for it, and in memory; empty where that is nothing."""
    whole = outcome.sides.get("optimized")
    if whole is None or not pays(outcome):
        return ""
    takes_once = any(outcome.survey.by_name[name].takes_once for name in outcome.members)
    if takes_once and whole.one_off_sides is None:
        return "What the changes take once, such as to compile, was not measured; a longer budget shows that."
    live = [sides[::-1]] if (sides := whole.memory_sides) and all(sides) else []
    trees = [sides[::-1]] if (sides := whole.tree_sides) else []
    once = price_once(whole) if takes_once else ""
    listed = [*([once] if once else []), *more_memory(live, trees)]
    if not listed:
        return ""
    what = "This change costs" if len(outcome.members) == 1 else "Together the changes cost"
    cached = " Compile caches were empty: a later run finds there what is compiled, and starts sooner." if once else ""
    return f"{what} {', and '.join(listed)}.{cached}"


def once(without: Result) -> tuple[float, int] | None:
    """One-off cost of the combination over this side (seconds), and the steps needed to recoup it, 0 if the cost is
    within noise. None if it was not measured, or the combination saves nothing."""
    mean = without.log_speedup
    if without.one_off_sides is None or without.step_s is None or mean is None or mean >= 0:
        return None
    whole_s, without_s = without.one_off_sides
    extra_s = whole_s - without_s
    return extra_s, steps_to_pay(extra_s, without_s, without.step_s * math.expm1(-mean))


def price_once(without: Result) -> str:
    """`56.8 s once, paid back after about 1,400 steps`; empty where every training has as many."""
    cost = once(without)
    if cost is None or cost[1] <= SOON:
        return ""
    extra_s, steps = cost
    return f"{seconds(extra_s)} once, paid back after about {float(f'{steps:.2g}'):,.0f} steps"


def heap(outcome: JobOutcome) -> str:
    """That the changes bring so much where glibc keeps its heap; empty where they set their own allocator."""
    ways = [outcome.survey.by_name[name] for name in outcome.members]
    own = any(HEAP.keys() & way.env.keys() or "malloc" in "".join(way.preload) for way in ways)
    had = HEAP.items() <= outcome.alone.controls.items()
    if own or not had or not pays(outcome) or outcome.survey.device != "cpu":
        return ""
    names = " and ".join(f"{name}={value}" for name, value in HEAP.items())
    return (
        f"Set {names} too: both sides had them, and tuned.env has. Without, a process may map its large temporaries "
        "anew at each step, and the changes bring less, or cost. With them it gives no memory back, and can grow at "
        "each step that keeps a small tensor, such as a loss: leave them out if its memory does not stay level."
    )


def speedup_of(result: Result) -> str:
    if result.speedup is None:
        return result.reason if not result.is_measured else "not measured yet"
    return ratio(result.speedup, result.low, result.high)


def inverse_of(result: Result) -> str:
    """What the baseline brings over this side."""
    if result.speedup is None:
        return "not measured"
    return ratio(1 / result.speedup, 1 / (result.high or math.inf), 1 / (result.low or math.inf))
