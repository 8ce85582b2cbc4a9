"""From what a machine's runs found to one answer a tip: what to write, what it brings in whole jobs, what it costs.

An answer is about the tip as the guide words it, judged by what the guide promises, in whole jobs. Operations alone
explain; they answer only where a tip has no whole job. Other ways to follow a tip are named beside it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tipbench.report.effect import Effect, Key
from tipbench.report.rows import CONTROL, MEMORY_KINDS, MEMORY_MARGIN, ONE_OFF_NOISE_S
from tipbench.report.trained import in_ratio, in_short, score_kept
from tipbench.report.wording import change, plural, ratio, seconds, size, value
from tipbench.tip.pair import Claim
from tipbench.verdict.pooling import SURE, TIMES, Mean, Spread, State, pooled, state
from tipbench.verdict.rules import BOUND, MARGIN
from tipbench.verdict.trainings import both
from tipbench.verdict.verdict import in_percent

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
class Gain:
    """What a tip brings in one job, in words that name it. interval: (low, mean, high) of the speedup, where time is
    claimed and known; it is what the words say, to be drawn beside them. short: the same as a signed change, such as
    `+29 %`, without the job's name. key: of the job; None of what is said beside the jobs that answer."""

    text: str
    interval: tuple[float, float, float] | None = None
    short: str = ""
    key: Key | None = None


@dataclass(frozen=True)
class Advice:
    """The answer on one tip; plain text that is still to be escaped.

    kind: one of ANSWERS. answer: as it is shown. do: what to write; empty where the run does not say, or nothing is to
    be done. gains: what it brings in each whole job, or why it was not tried. price: what it costs beside. brings: the
    mean over its jobs by what it claims, as ln of the baseline over the variant; 0 where nothing is known. runs: how
    many it rests on, the last one included. claim: what it is judged by.
    """

    tip: str
    title: str
    kind: str
    answer: str
    do: str
    gains: tuple[Gain, ...]
    price: str
    brings: float = 0.0
    runs: int = 1
    claim: str = ""

    @property
    def gain(self) -> str:
        """All of it in one line."""
        return "; ".join(gain.text for gain in self.gains)


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

    @cached_property
    def state(self) -> State:
        return state(self.means, self.measure.spread, self.measure.margin, self.measure.bounds)

    @cached_property
    def mean(self) -> Mean | None:
        return pooled(self.means, self.measure.spread) if self.means else None

    @property
    def may_cost(self) -> bool:
        """Whether a loss of practical size cannot be excluded. What is known to be at most 3 % either way costs none.

        Simulated with the 39 whole jobs of 21 tips of time that the runs 5917d0d7 and c89c4793 found, each drawn twice
        with its own error: 2.7 answers differ in place of 2.9, and no "use it" has a job that loses over 1 %. Where
        every job counted as costing nothing whose loss is not known, 2.0 would differ, and one "use it" in 56 be wrong.
        """
        if self.state.word == "within" and self.state.bound <= math.expm1(BOUND):
            return False
        return self.mean is None or self.mean.above(-self.measure.margin) < SURE


def advise(runs: Sequence[Sequence[Effect]]) -> list[Advice]:
    """One advice a tip of the last run, controls left out, by answer in the order of ANSWERS, then by what it brings.

    runs: what runs of one machine with the same versions found, in the order they were made. Of the earlier ones that
    counts which the last one has too, of the same code at the same sizes.
    """
    tips: dict[str, list[Effect]] = {}
    for effect in runs[-1] if runs else ():
        if effect.tip != CONTROL:
            tips.setdefault(effect.tip, []).append(effect)
    known = jobs_of(runs)
    found = [_advise(effects, known) for effects in tips.values()]
    return sorted(found, key=lambda advice: (ANSWERS.index(advice.kind), -advice.brings))


def jobs_of(runs: Sequence[Sequence[Effect]]) -> dict[Key, Job]:
    """What the same runs say of each pair and variant that the last one measured, the controls' included."""
    earlier: dict[tuple[Key, str], list[Effect]] = {}
    for effect in (effect for run in runs[:-1] for effect in run if effect.measured):
        earlier.setdefault((effect.key, effect.text), []).append(effect)
    found = {}
    for effect in (effect for run in runs[-1:] for effect in run if effect.measured):
        measure, read = MEASURES.get(effect.claim, TIME), _read(effect, effect.claim)
        alike = [one for one in earlier.get((effect.key, effect.text), ()) if _read(one, effect.claim) == read]
        seen = [measure.of(one) for one in (*alike, effect)]
        found[effect.key] = Job(effect, tuple(mean for mean in seen if mean is not None), measure)
    return found


def _read(effect: Effect, claim: str) -> str:
    """What the numbers are of that the claim is judged by: older versions read and counted other things."""
    return effect.memory_kind if claim == Claim.LEANER else effect.counted if claim == Claim.STEADIER else ""


def of_runs(advice: Sequence[Advice]) -> str:
    """A sentence on how many runs the answers are from."""
    most = max((given.runs for given in advice), default=1)
    if most == 1:
        return "The answers are from this run alone."
    answered = [given for given in advice if given.kind != IMPOSSIBLE]
    several = sum(given.runs > 1 for given in answered)
    return f"The answers are from {most} runs of this machine: {several} of {len(answered)} rest on more than this one."


# ---- what is judged, by claim ----


def _time(effect: Effect) -> Mean | None:
    """With the verdict's own interval, which is wider than 95 % of one look would be."""
    if effect.low is None or effect.high is None or effect.error is None:
        return None
    return Mean.of_interval(effect.low, effect.high, effect.launches - 1.0)


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


def _steps(effect: Effect) -> Mean | None:
    return None if effect.trained is None else effect.trained.fewer


def _to_target(effect: Effect) -> Mean | None:
    """What a step takes, times how many are needed."""
    step, steps = _time(effect), _steps(effect)
    return None if step is None or steps is None else both(step, steps)


TIME = Measure(_time, MARGIN, TIMES, (0.02, 0.03, 0.05))

SOON = 100
"""Steps within which nobody minds when the tip is paid for: every training has more."""

STEPS_MARGIN = math.log(1.05)
"""Steps to a target within 5 % are of no practical size."""

MEASURES: Mapping[str, Measure] = {
    Claim.FASTER: TIME,
    # Of 288 peaks in two runs of three 95 % were alike to 0.01 %, and the others differed by up to 11 %.
    Claim.LEANER: Measure(_memory, -math.log(1 - MEMORY_MARGIN), Spread(0.015), (0.05, 0.10)),
    # Of the same pairs half differed by 7 %, and one in twenty by 35 %.
    Claim.SOONER: Measure(_one_off, math.log(1.1), Spread(0.11), (0.5,)),
    # Runs draw other seeds, and what that changes is in the error of each.
    Claim.FEWER_STEPS: Measure(_steps, STEPS_MARGIN, Spread(0.005), (0.10, 0.20)),
    Claim.SOONER_AT_TARGET: Measure(_to_target, STEPS_MARGIN, TIMES, (0.10, 0.20)),
    Claim.STEADIER: Measure(_counted, math.log(2), Spread(0.3), ()),
}


def _claim(effects: Sequence[Effect]) -> str:
    """Time, where an older version promised something else."""
    claim = effects[0].claim
    return claim if claim in MEASURES else str(Claim.FASTER)


# ---- the answer ----


def _advise(effects: Sequence[Effect], known: Mapping[Key, Job]) -> Advice:
    pairs: dict[tuple[str, str], list[Job]] = {}
    for effect in effects:
        if effect.measured:
            pairs.setdefault((effect.pair, effect.device), []).append(known[effect.key])
    if not pairs:
        return _nothing(effects)
    spoken = [_speaking(jobs) for jobs in pairs.values()]
    whole = [job for job in spoken if job.newest.scale == "macro"]
    jobs = whole or spoken
    kind, more = _answer(jobs)
    gain = [gain_of(job) for job in sorted(jobs, key=lambda job: job.state.word != "gain")]
    gain += [] if whole else [Gain("the operation alone: no whole job measured")]
    others = _others(pairs.values(), jobs) if kind not in (USE, USE_IF) else []
    gain += [replace(brings, text=f"instead: {brings.text}", key=None) for brings in map(gain_of, others)]
    failed = dict.fromkeys(effect.pair or "its file" for effect in effects if effect.verdict == "failed")
    gain += [Gain(f"{name} failed") for name in failed]
    status = effects[0].status
    price = _price([job.newest for job in jobs])
    if _claim(effects) == Claim.FASTER:  # of other claims the gain says how trainings went
        price += [score_kept(job.newest.trained) for job in spoken if job.newest.trained]
    price += [status] if status not in ("", "current") and kind != DEFAULT else []
    return Advice(
        tip=effects[0].tip,
        title=effects[0].title,
        kind=kind,
        answer=f"{kind} {more}".strip(),
        do=effects[0].do if kind in (USE, USE_IF, DEPENDS, UNCLEAR) else "",
        gains=tuple(gain),
        price="; ".join(price),
        brings=statistics.fmean([job.mean.mean for job in jobs if job.mean is not None] or [0.0]),
        runs=max(1, *(len(job.means) for job in jobs)),
        claim=_claim(effects),
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


def gain_of(job: Job) -> Gain:
    """What it brings in one job, by the tip's claim."""
    effect, mean = job.newest, job.mean
    name = effect.pair if effect.variant == "optimized" else f"{effect.pair} ({effect.variant})"
    trained = effect.trained if effect.claim == Claim.SOONER_AT_TARGET else None
    if job.measure is not TIME and (trained is None or not trained.both_reach):
        read = job.means and _readings(effect, mean)
        return Gain(f"{name} {read or 'not measured yet'}", short=_change(effect, mean) if read else "", key=effect.key)
    if mean is None:
        return Gain(f"{name} {_so_far(effect)}", key=effect.key)
    low, middle, high = (math.exp(end) for end in (mean.interval()[0], mean.mean, mean.interval()[1]))
    more = f" to the target ({in_short(trained)})" if trained else ""
    if job.state.word == "open":
        undecided = f"{name} undecided, between {in_percent(math.log(low))} and {in_percent(math.log(high))}{more}"
        return Gain(undecided, (low, middle, high), f"{change(1, low)} to {change(1, high)}", effect.key)
    return Gain(f"{name} {ratio(middle, low, high)}{more}", (low, middle, high), change(1, middle), effect.key)


def _readings(effect: Effect, mean: Mean | None) -> str:
    """Of what is not time, those of both sides in the newest run. mean: of all runs, where it has an interval."""
    if effect.claim == Claim.LEANER and effect.memory_before and effect.memory_after is not None:
        before, after = effect.memory_before, effect.memory_after
        return f"{change(before, after)} {MEMORY_KINDS[effect.memory_kind]} ({size(before)} -> {size(after)})"
    if effect.claim == Claim.SOONER and effect.one_off is not None:
        return "once {} -> {}".format(*map(seconds, effect.one_off))
    if effect.trained is not None:
        return in_ratio(effect.trained, mean if effect.claim == Claim.FEWER_STEPS else None)
    return f"{' -> '.join(map(value, effect.counts or ()))} {effect.counted}"


def _change(effect: Effect, mean: Mean | None) -> str:
    """The same as a change, where a share says it."""
    if effect.claim == Claim.LEANER and effect.memory_before and effect.memory_after is not None:
        return f"{change(effect.memory_before, effect.memory_after)} memory"
    return _readings(effect, mean)


def _so_far(effect: Effect) -> str:
    if effect.so_far is None:
        return "not measured yet"
    return f"{ratio(*effect.so_far)} from {effect.launches} launch{'es' * (effect.launches > 1)}: too few to say"


def _price(effects: Sequence[Effect]) -> list[str]:
    """What following the tip costs beside, the most of all jobs: time where that is not claimed, memory, and what is
    done once."""
    claim, price = effects[0].claim, []
    slower = sorted(math.exp(-one.mean) for one in effects if one.verdict == "slower" and one.mean is not None)
    if slower and claim not in (Claim.FASTER, Claim.SOONER_AT_TARGET):
        ends = dict.fromkeys(f"{time:.2f}x" for time in (slower[0], slower[-1]))
        price.append(f"{' to '.join(ends)} the time")
    live = [(one.memory_before, one.memory_after) for one in effects if one.memory_before and one.memory_after]
    price += more_memory(live if claim != Claim.LEANER else [], [one.tree for one in effects if one.tree])
    steps = max((one.break_even_steps or 0 for one in effects), default=0)
    return [*price, f"pays after {plural(steps, 'step')}"] if steps > SOON else price


def more_memory(live: Sequence[tuple[int, int]], trees: Sequence[tuple[int, int]]) -> list[str]:
    """`+25 % memory of all processes`, the most of all; what grows by less than MEMORY_MARGIN is left out.

    live: bytes of live tensors, before and after; worker processes hide theirs. trees: bytes of all processes."""
    price = []
    for sides, what in ((live, "memory"), (trees, "memory of all processes")):
        before, after = max(sides, key=lambda both: both[1] / both[0], default=(1, 1))
        price += [f"{change(before, after)} {what}"] if after >= (1 + MEMORY_MARGIN) * before else []
    return price


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
    return Advice(effects[0].tip, effects[0].title, kind, kind, "", (Gain(why),), "", claim=_claim(effects))
