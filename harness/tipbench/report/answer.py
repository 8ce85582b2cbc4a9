"""From the results of a run to answers: for each tip and workload one, with its condition, what it was
measured against, what each way to follow it brings in whole jobs, and what it costs.

The tip is judged by what the guide promises, in whole jobs. Operations alone explain; a tip without any whole job gets
no better answer than "faster alone".
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tipbench.report.answer_kinds import (
    ACTS,
    ALONE,
    DEPENDS,
    DO_NOT,
    IMPOSSIBLE,
    INFERENCE,
    KINDS,
    ONE_GPU,
    OPERATIONS,
    OTHER,
    SEVERAL,
    SMALL,
    TRAINING,
    UNCLEAR,
    USE,
    USE_IF,
)
from tipbench.report.measure import Effect, claim_of, effects
from tipbench.report.price import NONE_MEASURED, NOT_MEASURED
from tipbench.report.result import Key, Result
from tipbench.report.ways import WayEffect, lead_of, name_ways, ways_of
from tipbench.tip.pair import CONTROL, NO_TIPS, ONLY, PRECISION, TOGETHER, WITHOUT, Claim
from tipbench.tip.wording import change, job_words, seconds, way_words

LONG_TRAINING, ENOUGH = 1000, 2
"""Steps of the baseline to a target, and jobs that need them: with fewer, the effect was measured on a toy."""


@dataclass(frozen=True)
class Answer:
    """The answer on a tip in one workload.

    Attributes:
        tip, title, claim, one_of: of the tip.
        workload: one of WORKLOADS.
        kind: one of KINDS. answer: as it is shown, with its condition and the names of ways.
        when: the condition of "use it if" and of "depends".
        do: what to write; empty if nothing is to be done.
        against: what the gain was measured against; empty for the job as it is.
        gain: in words what it brings in all its jobs, with other ways that pay and remarks.
        price: what following the tip costs.
        brings: as of the way that leads.
        sessions: most sessions that timed one of its jobs.
        ways: the way that the answer is about, then the others.
        remarks: what else is to be said.
        rival: the tip that is followed in place of this one, if only one of them can be.
    """

    tip: str
    title: str
    claim: str
    one_of: str
    workload: str
    kind: str
    answer: str
    when: str = ""
    do: str = ""
    against: str = ""
    gain: str = ""
    price: str = ""
    brings: float = 0.0
    sessions: int = 1
    ways: tuple[WayEffect, ...] = ()
    remarks: tuple[str, ...] = ()
    rival: str = ""

    @property
    def gains(self) -> tuple[Effect, ...]:
        """Of the way that the answer is about, one a job."""
        return self.ways[0].gains if self.ways else ()

    @property
    def others(self) -> list[WayEffect]:
        """Further ways that pay; of values of one setting the answer names the best alone."""
        ways = (way for way in self.ways[1:] if way.kind in (USE, USE_IF) and way.is_way)
        return [way for way in ways if not way.value or not self.ways[0].value]

    @property
    def alternatives(self) -> str:
        """What other values of its setting, or other ways that pay, bring in its first job, those that may be better
        last: `1: 1.12x; more with 4: 3.45x`."""
        is_sweep, first = bool(self.ways[0].value), self.gains[0]
        ways = {way.value: way for way in self.ways[1:]} if is_sweep else {way.name: way for way in self.others}
        names = filter(None, sorted(ways, key=lambda name: (len(name), name)) if is_sweep else ways)
        gains = [(name, gain) for name in names for gain in ways[name].gains if gain.row.pair == first.row.pair]
        unknown = ", ".join(name for name, effect in gains if not effect.mean)
        known = [
            (is_sweep and effect.ratio > first.ratio, f"{name}: {effect.ratio:.2f}x")
            for name, effect in gains
            if effect.mean
        ]
        less, more = (", ".join(words for is_more, words in known if is_more is which) for which in (False, True))
        parts = [less, more and f"more with {more}", f"{unknown} not measured" if unknown and is_sweep else ""]
        return "; ".join(filter(None, parts))

    @property
    def harmful(self) -> list[WayEffect]:
        """Ways that cost time or memory and bring none; of a tip that is not to be followed all others."""
        return [way for way in self.ways[self.kind == DO_NOT :] if way.kind == DO_NOT and way.name]


def answers(rows: Sequence[Result]) -> list[Answer]:
    """The answers on the tips of a run, controls and NO_TIPS left out, in the order of KINDS,
    then by what they bring; of tips that exclude each other, those that are not to be followed stand behind the one
    that is.
    """
    return _with_rivals([answer for answer in _all_answers(rows) if answer.tip not in NO_TIPS])


def side_by_side(rows: Sequence[Result]) -> list[tuple[str, str, list[str]]]:
    """(tip, workload, lines) of each of NO_TIPS in each workload that has a job of it which was timed."""
    every = _all_answers(rows)
    shown = []
    for answer in sorted(
        (one for one in every if one.tip in NO_TIPS and one.gains), key=lambda one: NO_TIPS.index(one.tip)
    ):
        costly = [one.tip for one in every if one.kind == DO_NOT and one.workload == answer.workload]
        lines = _of_members(answer, costly) if answer.tip == TOGETHER else _of_each_job(answer)
        shown.append((answer.tip, answer.workload, lines))
    return shown


def _of_each_job(answer: Answer) -> list[str]:
    """What each way brings, the largest gain last; of several ways also their memory, and what was counted of them."""
    lines = []
    for job in answer.gains:
        gains = [(way.name, gain) for way in answer.ways for gain in way.gains if gain.row.pair == job.row.pair]
        sides = sorted(((name, gain) for name, gain in gains if gain.mean), key=lambda side: side[1].ratio)
        ideal = {name: f" of {gain.row.ranks}" * (gain.row.ranks > 1) for name, gain in sides}
        brought = [f"{name} {gain.brought}{ideal[name]}".strip() for name, gain in sides]
        lines.append(
            f"{job_words(job.row.pair)}, {_step(job.row)} {seconds(job.row.step_s or 0)}: {', '.join(brought)}"
        )
        if answer.tip == PRECISION:
            memory = [f"{name} {change(*gain.row.memory_sides)}" for name, gain in sides if gain.row.memory_sides]
            counted = [f"{name} {gain.row.mechanism['optimized']}" for name, gain in sides if gain.row.mechanism]
            lines += [f"memory: {', '.join(memory)}"] * bool(memory)
            lines += [f"{job.row.mechanism['what']}: {'; '.join(counted)}"] * bool(counted)
    return lines


def _step(row: Result) -> str:
    batch = json.loads(row.sizes).get("batch")
    return f"{batch} samples" if batch else "a step"


def _of_members(answer: Answer, costly: Sequence[str]) -> list[str]:
    """What tips bring together, and the price. costly: tips that cost in this workload."""
    without = way_words(WITHOUT)
    members = {way.name.removeprefix(without): way for way in answer.ways if way.name.startswith(without)}
    of_job = {
        gain.row.pair: [name for name, way in members.items() if gain.row.pair in {one.row.pair for one in way.gains}]
        for gain in answer.gains
    }
    left_out = ", or ".join(f"{name} {way.extreme}" for name, way in members.items() if way.extreme)
    costs = " and ".join(name for name in members if name in costly)
    if costs and not left_out:
        them = "them" if " and " in costs else "it"
        return [f"{costs} costs in these jobs, and nothing without {them} was measured"]
    left_out = left_out or "one of them: not measured" * bool(members)
    jobs = [_step_by_step(answer, gain, names) for gain, names in zip(answer.gains, of_job.values(), strict=True)]
    gains, are_ladders = "; ".join(words for words, _ in jobs), all(is_ladder for _, is_ladder in jobs)
    price = [] if answer.price.startswith((NONE_MEASURED, NOT_MEASURED)) else [f"price: {answer.price}"]
    return [f"{gains}{f' (without {left_out})' if left_out and not are_ladders else ''}", *price]


def _step_by_step(answer: Answer, gain: Effect, names: Sequence[str]) -> tuple[str, bool]:
    """(`GPT training 2.0x [1.8, 2.2], a step 95 ms -> + amp 61 ms -> + compile-modes 48 ms (all but amp 79 ms)`,
    whether it is so), if the sides between were timed; else with its members ahead, and the step before and after."""
    pair = gain.row.pair
    timed = {way.name: one.row.variant_step_s for way in answer.ways for one in way.gains if one.row.pair == pair}
    between = [f"{way_words(ONLY)}{names[0]}", f"{way_words(WITHOUT)}{names[-1]}"][3 - len(names) :] if names else []
    steps = [gain.row.step_s, *map(timed.get, between), gain.row.variant_step_s]
    members, added = "", ["", *(f"+ {name} " for name in names)]
    if None in steps or len(steps) != len(added):
        members, added, steps = f"{' + '.join(names)}: ", ["", ""], [steps[0], steps[-1]]
    shown = [f"{more}{seconds(step)}" for more, step in zip(added, steps, strict=True) if step]
    sides = f", {_step(gain.row)} {' -> '.join(shown)}" if len(shown) == len(added) else ""
    if not members and (step := timed.get(f"{way_words(WITHOUT)}{names[0]}")):
        sides += f" (all but {names[0]} {seconds(step)})"
    return f"{members}{job_words(pair)} {gain.brought}{sides}", not members


def _all_answers(rows: Sequence[Result]) -> list[Answer]:
    tips: dict[str, list[Result]] = {}
    for result in rows:
        if result.tip != CONTROL:
            tips.setdefault(result.tip, []).append(result)
    effect_of = effects(rows)
    made = [answer for results in tips.values() for answer in _of_tip(results, effect_of)]
    return sorted(made, key=lambda answer: (KINDS.index(answer.kind), -answer.brings))


def workload_of(result: Result) -> str:
    if result.scale != "macro":
        return OPERATIONS
    if result.task == "processes":
        return SEVERAL
    if result.device == "cuda":
        return ONE_GPU
    return {"training": TRAINING, "inference": INFERENCE}.get(result.task, OTHER)


def _of_tip(results: Sequence[Result], effect_of: Mapping[Key, Effect]) -> list[Answer]:
    measured = [effect_of[result.key] for result in results if result.is_measured]
    if not measured:
        return [_nothing(results)]
    by_workload: dict[str, list[Effect]] = {}
    for effect in measured:
        by_workload.setdefault(workload_of(effect.row), []).append(effect)
    alone = by_workload.pop(OPERATIONS, [])
    failed = dict.fromkeys(result.pair or "its file" for result in results if result.verdict == "failed")
    remarks = [f"{name} failed" for name in failed]
    jobs = by_workload or {OPERATIONS: alone}
    return [_in_workload(workload, of_workload, alone, remarks) for workload, of_workload in jobs.items()]


def _in_workload(workload: str, jobs: Sequence[Effect], alone: Sequence[Effect], remarks: Sequence[str]) -> Answer:
    ways = ways_of(jobs, [effect.row for effect in alone])
    lead = lead_of(ways)
    first = lead.gains[0].row
    kind, when = lead.kind, first.about.when if lead.kind in (USE_IF, DEPENDS) else ""
    if kind in (USE, USE_IF) and workload == OPERATIONS:
        kind, when = (ALONE if claim_of(first) == Claim.FASTER else UNCLEAR), ""
        remarks = [*remarks, "the operation alone; not tried in a job"]
    elif kind == DO_NOT and workload == OPERATIONS:
        kind, remarks = UNCLEAR, [*remarks, "the operation alone is slower; not tried in a job"]
    elif workload == OPERATIONS:
        remarks = [*remarks, "the operation alone; not tried in a job"]
    elif kind == DO_NOT and (left := [way.name for way in ways if way.is_way and way.kind == UNCLEAR]):
        kind, remarks = UNCLEAR, [*remarks, f"undecided: {', '.join(left)}"]
    elif kind == USE and (slow := _slower_alone(alone, first)):
        like = " and ".join(job_words(gain.row.pair) for gain in lead.gains)
        kind, when = USE_IF, f"your job is like {like}: alone, {slow}"
    answer = Answer(
        tip=first.tip,
        title=first.about.title,
        claim=claim_of(first),
        one_of=first.about.one_of,
        workload=workload,
        kind=kind,
        answer="",
        when=when,
        do=lead.do if kind in ACTS else "",
        against=lead.against,
        price=lead.price,
        brings=lead.brings,
        sessions=max(1, *(len(gain.means) for gain in lead.gains)),
        ways=(lead, *(way for way in ways if way is not lead)),
        remarks=tuple(remarks),
    )
    gain = [gain.words for gain in lead.gains]
    gain += [
        f"or {' and '.join(gain.words for gain in way.gains if gain.state.word == 'gain')}" for way in answer.others
    ]
    bound = f"{100 * max(gain.state.bound for gain in lead.gains):.0f} %" if kind == SMALL else ""
    shown = " ".join(filter(None, (kind, bound, when if kind == USE_IF else "")))
    toy = " (on this toy)" if kind in (USE, USE_IF, DEPENDS, SMALL, DO_NOT) and _is_toy(lead) else ""
    return replace(answer, answer=f"{shown}{toy}{name_ways(kind, lead, ways)}", gain="; ".join([*gain, *remarks]))


def _slower_alone(alone: Sequence[Effect], job: Result) -> str:
    """Names of operations that are slower with the tip on the job's device, as the guide words it."""
    slower = [
        f"{job_words(effect.row.pair)} is slower ({effect.ratio:.2f}x)"
        for effect in alone
        if effect.row.is_headline and effect.row.device == job.device and not effect.row.trainings
        if effect.state.word == "loss" and effect.mean is not None and claim_of(job) == Claim.FASTER
    ]
    return " and ".join(slower)


def _is_toy(way: WayEffect) -> bool:
    results = [gain.row for gain in way.gains]
    of_trainings = [row for row in results if row.about.claim in (Claim.FEWER_STEPS, Claim.SOONER_AT_TARGET)]
    steps = [statistics.fmean(row.trainings[0].steps) for row in of_trainings if row.trainings]
    return bool(of_trainings) and sum(step > LONG_TRAINING for step in steps) < ENOUGH


def _with_rivals(made: Sequence[Answer]) -> list[Answer]:
    """Of tips that exclude each other in a workload, the first one leads, and the others follow it."""
    listed: list[Answer] = []
    for answer in made:
        if any(answer.tip == other.tip and answer.workload == other.workload for other in listed):
            continue
        listed.append(answer)
        if answer.one_of and answer.kind in (USE, USE_IF):
            listed += [
                replace(other, rival=answer.tip)
                for other in made
                if other.one_of == answer.one_of and other.workload == answer.workload and other.tip != answer.tip
            ]
    return listed


def _nothing(results: Sequence[Result]) -> Answer:
    """Nothing was measured: a failure leaves the question open, a skip answers it for this machine."""
    failed = next((result for result in results if result.verdict == "failed"), None)
    if failed is not None:
        kind, why = UNCLEAR, f"{failed.pair or 'its file'} failed: {failed.reason}"
    else:
        reasons = dict.fromkeys(result.reason for result in results if result.reason)
        remedies = dict.fromkeys(result.remedy for result in results if result.remedy)
        kind, why = IMPOSSIBLE, "; ".join(reasons) or "skipped without a reason"
        why += f" (remedy: {'; '.join(remedies)})" if remedies else ""
    first = max(results, key=lambda result: result.scale == "macro")
    about, workload = first.about, workload_of(first)
    return Answer(first.tip, about.title, claim_of(results[0]), about.one_of, workload, kind, kind, gain=why)
