"""How each claim is judged, and what all sessions of a run say of each pair and way, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tipbench.report.result import MEMORY_KINDS, MEMORY_MARGIN, ONE_OFF_NOISE_S, Key, Result
from tipbench.report.trained import both_reach, score_text, step_ratio, steps_text
from tipbench.tip.pair import Claim
from tipbench.tip.reason import reasons_text
from tipbench.tip.wording import change, ratio, seconds, size, value
from tipbench.verdict.launches import SHORTAGE
from tipbench.verdict.pooling import LEAST_PROBABILITY, TIMES, Spread, State, pool_runs, state
from tipbench.verdict.rules import BOUND, MARGIN
from tipbench.verdict.statistics import Mean
from tipbench.verdict.trainings import better_score, product

UNDECIDED = "undecided, "

CERTAIN = 0.995
"""Probability of a gain from which on it is called sure; from `LEAST_PROBABILITY` on it is likely."""


@dataclass(frozen=True)
class Measure:
    """How a claim is judged.

    Attributes:
        of: ln of what the baseline takes over what the variant takes; None if not known.
        margin: effects within +-margin are of no practical size.
        spread: between sessions on one machine.
        bounds, wide: what else is tried, as `pooling.state` has them.
    """

    of: Callable[[Result], Mean | None]
    margin: float
    spread: Spread
    bounds: tuple[float, ...]
    wide: tuple[float, ...] = ()


@dataclass(frozen=True)
class Effect:
    """What a run says of one pair by one variant.

    Attributes:
        row: the run's result.
        means: of time one for each session that timed it; of what is read or counted once, one.
        measure: by which it is judged.
    """

    row: Result
    means: tuple[Mean, ...]
    measure: Measure

    @cached_property
    def state(self) -> State:
        measure = self.measure
        return state(self.means, measure.spread, measure.margin, measure.bounds, measure.wide)

    @cached_property
    def mean(self) -> Mean | None:
        return pool_runs(self.means, self.measure.spread) if self.means else None

    @property
    def ratio(self) -> float:
        """What the baseline takes over what the variant takes; 1 if not known."""
        return math.exp(self.mean.mean) if self.mean else 1.0

    @property
    def is_sure(self) -> bool:
        """Whether a gain is one at 99.5 %, and of time also by the verdict of its pair."""
        if self.measure is TIME and self.row.verdict != "faster":
            return False
        return self.state.word == "gain" and (self.mean is None or self.mean.above(self.measure.margin) >= CERTAIN)

    @property
    def may_cost(self) -> bool:
        """Whether a loss of practical size cannot be excluded. What is known to be at most 3 % either way costs none
        (harness/decisions.md, "When a job may cost")."""
        if self.state.word == "within" and self.state.bound <= math.expm1(BOUND):
            return False
        return self.mean is None or self.mean.above(-self.measure.margin) < LEAST_PROBABILITY

    @property
    def words(self) -> str:
        """What it brings, after `Pair`, or after `Pair (variant)` of another variant than the one called optimized."""
        way = "" if self.row.variant == "optimized" else f" ({self.row.variant})"
        return f"{self.row.pair}{way} {self.brought}"

    @cached_property
    def brought(self) -> str:
        """What it brings, in words by what the tip claims."""
        row, mean = self.row, self.mean
        counted = row.trainings if row.about.claim == Claim.SOONER_AT_TARGET else None
        if self.measure is not TIME and (counted is None or not both_reach(counted)):
            return _readings(row, mean) if self.means else "not measured yet"
        if mean is None:
            busy = [reason for reason in row.reasons if reason.code == SHORTAGE]
            return f"no number yet: {reasons_text(busy)}" if busy else "not measured yet"
        low, middle, high = (math.exp(end) for end in (mean.interval()[0], mean.mean, mean.interval()[1]))
        more = f" in time to the target ({steps_text(counted)})" if counted else ""
        return f"{UNDECIDED * (self.state.word == 'open')}{ratio(middle, low, high)}{more}"


def _readings(result: Result, mean: Mean | None) -> str:
    """What is not time, of both sides in the newest run. mean: of all runs, if it has an interval."""
    sides, counted = result.memory_sides, result.trainings
    if result.about.claim == Claim.LEANER and sides:
        return f"{change(*sides)} {MEMORY_KINDS[result.memory_kind]} ({size(sides[0])} -> {size(sides[1])})"
    if result.about.claim == Claim.SOONER and result.one_off_sides is not None:
        return "once {} -> {}".format(*map(seconds, result.one_off_sides))
    if counted is not None and result.about.claim == Claim.BETTER:
        return score_text(counted)
    if counted is not None:
        pooled = mean if result.about.claim == Claim.FEWER_STEPS else None
        return steps_text(counted, pooled or step_ratio(*counted))
    return f"{' -> '.join(map(value, result.counts or ()))} {result.counted}"


def effects(rows: Sequence[Result]) -> dict[Key, Effect]:
    """What a run says of each pair and variant that it measured, the controls' included."""
    made = {}
    for row in rows:
        if not row.is_measured:
            continue
        measure = MEASURES.get(row.about.claim, TIME)
        means = row.sessions if measure.of is _time and row.sessions else [mean for mean in [measure.of(row)] if mean]
        if means and row.about.claim == Claim.SOONER_AT_TARGET:
            steps = _steps(row)
            means = [product(pool_runs(means, TIMES), steps)] if steps else []
        made[row.key] = Effect(row, tuple(means), measure)
    return made


def _time(result: Result) -> Mean | None:
    return result.mean


def _memory(result: Result) -> Mean | None:
    sides = result.memory_sides
    return _reading(*sides) if sides and all(sides) else None


def _one_off(result: Result) -> Mean | None:
    """A difference that single readings have by chance counts as next to none. None too if a reading is further below
    zero than by chance: a warm-up is what it takes beyond as many steady steps."""
    sides = result.one_off_sides
    if sides is None or min(sides) <= -ONE_OFF_NOISE_S:
        return None
    return _reading(*(side + ONE_OFF_NOISE_S for side in sides))


def _counted(result: Result) -> Mean | None:
    """Half a count more on both sides, as there may be none."""
    return None if result.counts is None else _reading(*(side + 0.5 for side in result.counts))


def _reading(before: float, after: float) -> Mean:
    """One reading: nothing shows how far it is off."""
    return Mean(math.log(before / after), 0.0, math.inf)


def _steps(result: Result) -> Mean | None:
    return None if result.trainings is None else step_ratio(*result.trainings)


def _score(result: Result) -> Mean | None:
    return None if result.trainings is None else better_score(*result.trainings)


TIME = Measure(_time, MARGIN, TIMES, (0.02, 0.03, 0.05), (0.08, 0.10))

STEPS_MARGIN = math.log(1.05)
"""Steps to a target within 5 % are of no practical size."""

SCORE_MARGIN = math.log(1.01)
"""Nor are scores within 1 % of their size."""

MEASURES: Mapping[str, Measure] = {
    Claim.FASTER: TIME,
    # Of 288 peaks in two runs of three 95 % were alike to 0.01 %, and the others differed by up to 11 %.
    Claim.LEANER: Measure(_memory, -math.log(1 - MEMORY_MARGIN), Spread(0.015), (0.05, 0.10)),
    # Of the same pairs half differed by 7 %, and one in twenty by 35 %.
    Claim.SOONER: Measure(_one_off, math.log(1.1), Spread(0.11), (0.5,)),
    Claim.FEWER_STEPS: Measure(_steps, STEPS_MARGIN, Spread(0.005), (0.10, 0.20)),
    # The time of a step: `effects` multiplies it by how many are needed.
    Claim.SOONER_AT_TARGET: Measure(_time, STEPS_MARGIN, TIMES, (0.10, 0.20)),
    Claim.BETTER: Measure(_score, SCORE_MARGIN, Spread(0.005), (0.05, 0.10)),
    Claim.STEADIER: Measure(_counted, math.log(2), Spread(0.3), ()),
}


def claim_of(result: Result) -> str:
    """Time, if an older version promised something else."""
    claim = result.about.claim
    return claim if claim in MEASURES else str(Claim.FASTER)
