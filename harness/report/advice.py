"""From what a machine's runs found to one answer a tip: what to write, what it brings in whole jobs, what it costs.

An answer is about the tip as the guide words it, judged by what the guide promises, in whole jobs. Operations alone
explain; they answer only where a tip has no whole job. Other ways to follow a tip are named beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tipbench.report.effect import Effect
from tipbench.report.rows import CONTROL, MEMORY_KINDS, MEMORY_MARGIN, ONE_OFF_NOISE_S
from tipbench.report.wording import change, plural, ratio, seconds, size, value
from tipbench.tip.pair import Claim
from tipbench.verdict.pooling import SURE, TIMES, Mean, Spread, State, pooled, state
from tipbench.verdict.rules import MARGIN

USE, USE_IF, DEPENDS, DEFAULT, SMALL, DO_NOT, UNCLEAR, IMPOSSIBLE = ANSWERS = (
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


@dataclass(frozen=True)
class Advice:
    """The answer on one tip; plain text that is still to be escaped.

    kind: one of ANSWERS. answer: as it is shown. do: what to write; empty where the run does not say, or nothing is to
    be done. gain: what it brings in each whole job. price: what it costs beside.
    """

    tip: str
    title: str
    kind: str
    answer: str
    do: str
    gain: str
    price: str


@dataclass(frozen=True)
class Measure:
    """How a claim is judged. of: ln of what the baseline takes over what the variant takes, in one run; None where it
    is not known. margin: effects within +-margin are of no practical size. spread: between runs of one machine. bounds:
    what else is tried, as `pooling.state` has them."""

    of: Callable[[Effect], Mean | None]
    margin: float
    spread: Spread
    bounds: tuple[float, ...]


@dataclass(frozen=True)
class Job:
    """What the runs say of one pair through one variant. newest: of the last run. means: one a run that has it."""

    newest: Effect
    means: tuple[Mean, ...]
    measure: Measure

    @property
    def state(self) -> State:
        return state(self.means, self.measure.spread, self.measure.margin, self.measure.bounds)

    @property
    def mean(self) -> Mean | None:
        return pooled(self.means, self.measure.spread) if self.means else None

    @property
    def may_cost(self) -> bool:
        """Whether a loss cannot be excluded."""
        return self.mean is None or self.mean.above(-self.measure.margin) < SURE


def advise(runs: Sequence[Sequence[Effect]]) -> list[Advice]:
    """One advice a tip of the last run, controls left out, grouped by answer in the order of ANSWERS.

    runs: what runs of one machine with the same versions found, in the order they were made. Of the earlier ones that
    counts which the last one has too, of the same code at the same sizes.
    """
    tips: dict[str, list[Effect]] = {}
    for effect in runs[-1] if runs else ():
        if effect.tip != CONTROL:
            tips.setdefault(effect.tip, []).append(effect)
    earlier: dict[tuple[str, ...], list[Effect]] = {}
    for effect in (effect for run in runs[:-1] for effect in run):
        earlier.setdefault(_same(effect), []).append(effect)
    found = [_advise(effects, earlier) for effects in tips.values()]
    return sorted(found, key=lambda advice: ANSWERS.index(advice.kind))


def _same(effect: Effect) -> tuple[str, ...]:
    return *effect.key, effect.sizes, effect.code, effect.text


# ---- what is judged, by claim ----


def _time(effect: Effect) -> Mean | None:
    if effect.mean is None or effect.error is None:
        return None
    return Mean(effect.mean, effect.error, effect.launches - 1.0)


def _memory(effect: Effect) -> Mean | None:
    return _reading(effect.memory_before, effect.memory_after) if effect.memory_before and effect.memory_after else None


def _one_off(effect: Effect) -> Mean | None:
    """A difference that single readings have by chance counts as next to none."""
    return None if effect.one_off is None else _reading(*(side + ONE_OFF_NOISE_S for side in effect.one_off))


def _counted(effect: Effect) -> Mean | None:
    """Half a count more on both sides, as there may be none."""
    return None if effect.counts is None else _reading(*(side + 0.5 for side in effect.counts))


def _reading(before: float, after: float) -> Mean:
    """One reading a run: only further runs show how far it is off."""
    return Mean(math.log(before / after), 0.0, math.inf)


TIME = Measure(_time, MARGIN, TIMES, (0.02, 0.03, 0.05))

MEASURES: Mapping[str, Measure] = {
    Claim.FASTER: TIME,
    # Of 288 peaks in two runs of three 95 % were alike to 0.01 %, and the others differed by up to 11 %.
    Claim.LEANER: Measure(_memory, -math.log(1 - MEMORY_MARGIN), Spread(0.015), (0.05, 0.10)),
    # Of the same pairs half differed by 7 %, and one in twenty by 35 %.
    Claim.SOONER: Measure(_one_off, math.log(1.1), Spread(0.11), (0.5,)),
    Claim.FEWER_STEPS: Measure(_counted, math.log(1.05), Spread(0.03), (0.10,)),
    Claim.STEADIER: Measure(_counted, math.log(2), Spread(0.3), ()),
}


# ---- the answer ----


def _advise(effects: Sequence[Effect], earlier: Mapping[tuple[str, ...], Sequence[Effect]]) -> Advice:
    measure = MEASURES.get(effects[0].claim, TIME)
    pairs: dict[tuple[str, str], list[Job]] = {}
    for effect in effects:
        if effect.measured:
            seen = [measure.of(one) for one in (*earlier.get(_same(effect), ()), effect)]
            job = Job(effect, tuple(mean for mean in seen if mean is not None), measure)
            pairs.setdefault((effect.pair, effect.device), []).append(job)
    if not pairs:
        return _nothing(effects)
    spoken = [_speaking(jobs) for jobs in pairs.values()]
    whole = [job for job in spoken if job.newest.scale == "macro"]
    jobs = whole or spoken
    kind, more = _answer(jobs)
    gain = [_gain(job) for job in sorted(jobs, key=lambda job: job.state.word != "gain")]
    gain += [] if whole else ["the operation alone: no whole job measured"]
    gain += [f"instead: {_gain(job)}" for job in _others(pairs.values(), jobs) if kind not in (USE, USE_IF)]
    failed = dict.fromkeys(effect.pair or "its file" for effect in effects if effect.verdict == "failed")
    gain += [f"{name} failed" for name in failed]
    status = effects[0].status
    price = _price([job.newest for job in jobs])
    price += [status] if status not in ("", "current") and kind != DEFAULT else []
    return Advice(
        tip=effects[0].tip,
        title=effects[0].title,
        kind=kind,
        answer=f"{kind} {more}".strip(),
        do=effects[0].do if kind in (USE, USE_IF, DEPENDS, UNCLEAR) else "",
        gain="; ".join(gain),
        price="; ".join(price),
    )


def _speaking(jobs: Sequence[Job]) -> Job:
    """The way that the guide words; of a sweep of which it names no value, the best."""
    means = [job.mean.mean if job.mean is not None else -math.inf for job in jobs]
    job, _ = max(zip(jobs, means, strict=True), key=lambda one: (one[0].newest.worded, one[1]))
    return job


def _others(pairs: Iterable[Sequence[Job]], speaking: Sequence[Job]) -> list[Job]:
    """Ways that pay where the one that speaks does not."""
    found = []
    for jobs in pairs:
        spoke = [job for job in jobs if job in speaking]
        if spoke and spoke[0].state.word != "gain":
            found += [job for job in jobs if job.state.word == "gain"]
    return found


def _answer(jobs: Sequence[Job]) -> tuple[str, str]:
    """(kind, what is shown after it)."""
    if jobs[0].newest.status.startswith("default now"):
        return DEFAULT, ""
    known = [job for job in jobs if job.means]
    words = [job.state.word for job in known]
    gains, losses, when = words.count("gain"), words.count("loss"), jobs[0].newest.when
    if gains and losses:
        return DEPENDS, ""
    if losses:
        return DO_NOT, ""
    if gains and when:
        return USE_IF, when
    if gains:
        return (USE if 2 * gains >= len(known) and not any(job.may_cost for job in known) else DEPENDS), ""
    if known and set(words) == {"within"}:
        return SMALL, f"{100 * max(job.state.bound for job in known):.0f} %"
    return UNCLEAR, ""


def _gain(job: Job) -> str:
    """What it brings in one job, by the tip's claim."""
    effect, mean = job.newest, job.mean
    name = effect.pair if effect.variant == "optimized" else f"{effect.pair} ({effect.variant})"
    if job.measure is not TIME:
        return f"{name} {_readings(effect) if job.means else 'not measured yet'}"
    if mean is None:
        return f"{name} {_so_far(effect)}"
    low, high = mean.interval()
    if job.state.word == "open":
        return f"{name} undecided, between {_percent(low)} and {_percent(high)}"
    return f"{name} {ratio(math.exp(mean.mean), math.exp(low), math.exp(high))}"


def _readings(effect: Effect) -> str:
    """Of what is not time, those of both sides in the newest run."""
    if effect.claim == Claim.LEANER and effect.memory_before and effect.memory_after is not None:
        before, after = effect.memory_before, effect.memory_after
        return f"{change(before, after)} {MEMORY_KINDS[effect.memory_kind]} ({size(before)} -> {size(after)})"
    if effect.claim == Claim.SOONER and effect.one_off is not None:
        return "once {} -> {}".format(*map(seconds, effect.one_off))
    counts = " -> ".join(map(value, effect.counts or ()))
    return f"{counts} {'steps to the target' if effect.claim == Claim.FEWER_STEPS else effect.counted}"


def _so_far(effect: Effect) -> str:
    if effect.so_far is None:
        return "not measured yet"
    launches = "1 launch" if effect.launches == 1 else f"{effect.launches} launches"
    return f"{ratio(*effect.so_far)} (provisional, from {launches})"


def _percent(effect: float) -> str:
    percent = 100 * math.expm1(abs(effect))
    return f"{percent:.{0 if percent >= 2 else 1}f} % {'faster' if effect > 0 else 'slower'}"


def _price(effects: Sequence[Effect]) -> list[str]:
    """What following the tip costs beside, the most of all jobs: time where that is not claimed, memory, and what is
    done once."""
    claim, price = effects[0].claim, []
    slower = sorted(math.exp(-one.mean) for one in effects if one.verdict == "slower" and one.mean is not None)
    if slower and claim != Claim.FASTER:
        ends = dict.fromkeys(f"{time:.2f}x" for time in (slower[0], slower[-1]))
        price.append(f"{' to '.join(ends)} the time")
    live = [(one.memory_before, one.memory_after) for one in effects if one.memory_before and one.memory_after]
    # Worker processes hide their memory from the count of live tensors.
    trees = [one.tree for one in effects if one.tree is not None]
    for sides, what in ((live, "memory") if claim != Claim.LEANER else ([], ""), (trees, "memory of all processes")):
        before, after = max(sides, key=lambda both: both[1] / both[0], default=(1, 1))
        price += [f"{change(before, after)} {what}"] if after >= (1 + MEMORY_MARGIN) * before else []
    steps = max((one.break_even_steps or 0 for one in effects), default=0)
    return [*price, f"pays after {plural(steps, 'step')}"] if steps else price


def _nothing(effects: Sequence[Effect]) -> Advice:
    """Nothing was measured: a failure leaves the question open, a skip answers it for this machine."""
    failed = next((effect for effect in effects if effect.verdict == "failed"), None)
    if failed is not None:
        kind, why = UNCLEAR, f"{failed.pair or 'its file'} failed: {failed.reason}"
    else:
        reasons = dict.fromkeys(effect.reason for effect in effects if effect.reason)
        remedies = dict.fromkeys(effect.remedy for effect in effects if effect.remedy)
        kind, why = IMPOSSIBLE, "; ".join(reasons) or "skipped without a reason"
        why += f" (remedy: {'; '.join(remedies)})" if remedies else ""
    return Advice(effects[0].tip, effects[0].title, kind, kind, "", why, "")
