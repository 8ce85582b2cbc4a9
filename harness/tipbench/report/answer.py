"""From the results of a machine's runs to one answer a tip: what to write, what it brings in whole jobs, what it costs.

An answer is about the tip as the guide words it, judged by what the guide promises, in whole jobs. Operations alone
explain; they answer only if a tip has no whole job. Other ways to follow it that pay are named as alternatives.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tipbench.report.measure import TIME, Effect, claim_of, effects
from tipbench.report.result import CONTROL, MEMORY_KINDS, MEMORY_MARGIN, Key, Result
from tipbench.report.trained import in_ratio, in_short, score_kept, trained
from tipbench.tip.pair import Claim
from tipbench.tip.reason import in_percent
from tipbench.tip.wording import change, plural, ratio, seconds, size, value
from tipbench.verdict.pooling import Mean

USE, USE_IF, DEPENDS, DEFAULT, SMALL, DO_NOT, UNCLEAR, IMPOSSIBLE = KINDS = (
    "use it",
    "use it if",
    "depends",
    "already the default",
    "at most",
    "don't",
    "can't tell",
    "not possible here",
)
"""The kinds of answers, those that ask for action first. Two are shown with more: `use it if memory is short`,
`at most 3 %`."""

Role = Literal["job", "alternative", "remark"]


@dataclass(frozen=True)
class Answer:
    """One row of the answers: a tip, and what it brings by one way in one job, or a remark on it.

    Attributes:
        tip, title, claim: of the tip.
        kind: one of KINDS. answer: as it is shown.
        do: what to write; empty if the run does not say, or nothing is to be done.
        price: what following the tip costs.
        brings: the mean over its jobs by what it claims, as ln of the baseline over the variant; 0 if not known.
        runs: how many runs the answer rests on, the last one included.
        role: a job that the answer is made of, an alternative way that pays, or a remark.
        gain: what it brings in that job, in words that name it; or the remark.
        brought: the same without the job's name; empty of a remark.
        when: the condition of "use it if".
        key: of the job and way; None of a remark.
        short: the gain as a signed change such as `+29 %`, without the job's name.
    """

    tip: str
    title: str
    claim: str
    kind: str
    answer: str
    do: str
    price: str
    brings: float
    runs: int
    role: Role
    gain: str
    key: Key | None = None
    short: str = ""
    brought: str = ""
    when: str = ""


def answers(runs: Sequence[Sequence[Result]]) -> list[Answer]:
    """The answers on the tips of the last run, controls left out: tips in the order of KINDS, then by what they bring,
    and of each tip one row a job or remark.

    runs: results of runs of one machine with the same versions, in the order in which they were made. Of the earlier
    ones that counts which the last one has too, of the same code at the same sizes.
    """
    tips: dict[str, list[Result]] = {}
    for result in runs[-1] if runs else ():
        if result.tip != CONTROL:
            tips.setdefault(result.tip, []).append(result)
    effect_of = effects(runs)
    rows = [_of_tip(results, effect_of) for results in tips.values()]
    return [row for tip in sorted(rows, key=lambda tip: (KINDS.index(tip[0].kind), -tip[0].brings)) for row in tip]


def by_tip(rows: Iterable[Answer]) -> dict[str, list[Answer]]:
    tips: dict[str, list[Answer]] = {}
    for row in rows:
        tips.setdefault(row.tip, []).append(row)
    return tips


def of_runs(rows: Sequence[Answer]) -> str:
    """A sentence on how many runs the answers are from."""
    tips = [tip[0] for tip in by_tip(rows).values()]
    most = max((tip.runs for tip in tips), default=1)
    if most == 1:
        return "The answers are from this run alone."
    answered = [tip for tip in tips if tip.kind != IMPOSSIBLE]
    several = sum(tip.runs > 1 for tip in answered)
    return f"The answers are from {most} runs of this machine: {several} of {len(answered)} rest on more than this one."


SOON = 100
"""Steps within which nobody minds when the tip is paid for: every training has more."""


def _of_tip(results: Sequence[Result], effect_of: Mapping[Key, Effect]) -> list[Answer]:
    pairs: dict[tuple[str, str], list[Effect]] = {}
    for result in results:
        if result.is_measured:
            pairs.setdefault((result.pair, result.device), []).append(effect_of[result.key])
    if not pairs:
        return [_nothing(results)]
    headlines = [_headline(ways) for ways in pairs.values()]
    whole = [effect for effect in headlines if effect.newest.scale == "macro"]
    jobs = whole or headlines
    kind, more = _kind(jobs)
    status = results[0].status
    price = _price([job.newest for job in jobs])
    if claim_of(results) == Claim.FASTER:  # of other claims the gain says how trainings went
        price += [score_kept(counted) for effect in headlines if (counted := trained(effect.newest))]
    price += [status] if status not in ("", "current") and kind != DEFAULT else []
    tip = Answer(
        tip=results[0].tip,
        title=results[0].title,
        claim=claim_of(results),
        kind=kind,
        answer=f"{kind} {more}".strip(),
        when=more if kind == USE_IF else "",
        do=results[0].do if kind in (USE, USE_IF, DEPENDS, UNCLEAR) else "",
        price="; ".join(price),
        brings=statistics.fmean([job.mean.mean for job in jobs if job.mean is not None] or [0.0]),
        runs=max(1, *(len(job.means) for job in jobs)),
        role="remark",
        gain="",
    )
    rows = [_in_job(tip, job) for job in sorted(jobs, key=lambda job: job.state.word != "gain")]
    rows += [] if whole else [replace(tip, gain="the operation alone: no whole job measured")]
    for way in _alternatives(pairs.values(), jobs) if kind not in (USE, USE_IF) else []:
        row = _in_job(tip, way)
        rows.append(replace(row, role="alternative", gain=f"instead: {row.gain}"))
    failed = dict.fromkeys(result.pair or "its file" for result in results if result.verdict == "failed")
    return rows + [replace(tip, gain=f"{name} failed") for name in failed]


def _headline(ways: Sequence[Effect]) -> Effect:
    """The headline variant; for a sweep with no named value, the fastest."""
    means = [way.mean.mean if way.mean is not None else -math.inf for way in ways]
    way, _ = max(zip(ways, means, strict=True), key=lambda pair: (pair[0].newest.is_headline, pair[1]))
    return way


def _alternatives(pairs: Iterable[Sequence[Effect]], headlines: Sequence[Effect]) -> list[Effect]:
    """Ways that pay in jobs in which the headline variant does not."""
    ways = []
    for of_pair in pairs:
        headline = next((effect for effect in of_pair if any(effect is other for other in headlines)), None)
        if headline is not None and headline.state.word != "gain":
            ways += [effect for effect in of_pair if effect.state.word == "gain"]
    return ways


def _kind(jobs: Sequence[Effect]) -> tuple[str, str]:
    """(kind, what is shown after it)."""
    if jobs[0].newest.status.startswith("default now"):
        return DEFAULT, ""
    measured = [job for job in jobs if job.means]
    words = [job.state.word for job in measured]
    gains, losses, when = words.count("gain"), words.count("loss"), jobs[0].newest.when
    if gains and losses:
        return DEPENDS, ""
    if losses:
        return DO_NOT, ""
    if gains and when:
        return USE_IF, when
    if gains:
        pays = 2 * gains >= len(measured) and not any(job.may_cost for job in measured)
        return (USE if pays else DEPENDS), ""
    if measured and set(words) == {"within"}:
        return SMALL, f"{100 * max(job.state.bound for job in measured):.0f} %"
    return UNCLEAR, ""


def _in_job(tip: Answer, effect: Effect) -> Answer:
    """The row of the tip on one job: what it brings there, by the tip's claim."""
    brought, short = _brought(effect)
    against = f", against {effect.newest.against}" if effect.newest.against else ""
    gain = f"{effect.newest.job_and_way} {brought}{against}"
    return replace(tip, role="job", key=effect.newest.key, gain=gain, brought=brought, short=short)


def _brought(effect: Effect) -> tuple[str, str]:
    """(in words, as a signed change; empty if nothing was measured)."""
    result, mean = effect.newest, effect.mean
    counted = trained(result) if result.claim == Claim.SOONER_AT_TARGET else None
    if effect.measure is not TIME and (counted is None or not counted.both_reach):
        if not effect.means:
            return "not measured yet", ""
        readings, sides = _readings(result, mean), result.memory_sides
        return readings, f"{change(*sides)} memory" if result.claim == Claim.LEANER and sides else readings
    if mean is None:
        return _so_far(result), ""
    low, middle, high = (math.exp(end) for end in (mean.interval()[0], mean.mean, mean.interval()[1]))
    more = f" to the target ({in_short(counted)})" if counted else ""
    if effect.state.word == "open":
        undecided = f"undecided, between {in_percent(math.log(low))} and {in_percent(math.log(high))}{more}"
        return undecided, f"{change(1, low)} to {change(1, high)}"
    return f"{ratio(middle, low, high)}{more}", change(1, middle)


def _readings(result: Result, mean: Mean | None) -> str:
    """What is not time, of both sides in the newest run. mean: of all runs, if it has an interval."""
    sides, counted = result.memory_sides, trained(result)
    if result.claim == Claim.LEANER and sides:
        return f"{change(*sides)} {MEMORY_KINDS[result.memory_kind]} ({size(sides[0])} -> {size(sides[1])})"
    if result.claim == Claim.SOONER and result.one_off_sides is not None:
        return "once {} -> {}".format(*map(seconds, result.one_off_sides))
    if counted is not None:
        return in_ratio(counted, mean if result.claim == Claim.FEWER_STEPS else None)
    return f"{' -> '.join(map(value, result.counts or ()))} {result.counted}"


def _so_far(result: Result) -> str:
    if result.speedup is None or not result.is_provisional:
        return "not measured yet"
    launches = f"{result.launches} launch{'es' * (result.launches > 1)}"
    return f"{ratio(result.speedup, result.low, result.high)} from {launches}: too few to say"


def _price(results: Sequence[Result]) -> list[str]:
    """What following the tip costs, the most of all jobs: time if that is not claimed, memory, and one-off costs."""
    claim, price = results[0].claim, []
    times = [-result.log_speedup for result in results if result.verdict == "slower" and result.log_speedup is not None]
    slower = sorted(map(math.exp, times))
    if slower and claim not in (Claim.FASTER, Claim.SOONER_AT_TARGET):
        ends = dict.fromkeys(f"{time:.2f}x" for time in (slower[0], slower[-1]))
        price.append(f"{' to '.join(ends)} the time")
    live = [sides for result in results if (sides := result.memory_sides) and all(sides)]
    trees = [sides for result in results if (sides := result.tree_sides)]
    price += more_memory(live if claim != Claim.LEANER else [], trees)
    steps = max((result.break_even_steps or 0 for result in results), default=0)
    return [*price, f"pays after {plural(steps, 'step')}"] if steps > SOON else price


def more_memory(live: Sequence[tuple[int, int]], trees: Sequence[tuple[int, int]]) -> list[str]:
    """`+25 % memory of all processes`, the most of all; growth by less than MEMORY_MARGIN is left out.

    live: bytes of live tensors, before and after; worker processes hide theirs. trees: bytes of all processes."""
    price = []
    for sides, what in ((live, "memory"), (trees, "memory of all processes")):
        before, after = max(sides, key=lambda pair: pair[1] / pair[0], default=(1, 1))
        price += [f"{change(before, after)} {what}"] if after >= (1 + MEMORY_MARGIN) * before else []
    return price


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
    first = results[0]
    return Answer(first.tip, first.title, claim_of(results), kind, kind, "", "", 0.0, 1, "remark", why)
