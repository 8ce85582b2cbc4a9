"""Whole runs, simulated launch by launch: what the allocation of launches brings, and that it costs no honesty.

A run has 80 pairs, 40 % of them near null, and 30 minutes. A pair's launches spread by 2 to 4 % at the median, and
differ from pair to pair as in stored runs; they take 0.5 to 10 s. An effect is the truth, noise and drift: an AR(1)
process of time that goes on while other pairs are measured. Of a launch's variance drift has 5 %, its correlation falls
by e in five minutes, unless said otherwise; launches that follow each other in stored runs correlate by up to 5 %.

Known limit: where drift has a tenth of the variance and lasts longer than the run, 5.0 % of the intervals miss and
1.1 % of the verdicts are wrong; where it has a fifth, 9.4 and 3.1 %. Rounds over all pairs then miss in 3.0 and 6.4 %,
batches of ten in 6.0 and 12 %. The suite's guard against launches that are alike must find this, not the allocation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from tipbench.engine.allocation import OpenPair, next_group
from tipbench.verdict.rules import AT_MOST, BOUND, MARGIN, RULES, decide
from tipbench.verdict.statistics import Estimate, estimate

pytestmark = pytest.mark.slow

RUNS = 30
PAIRS = 80
BUDGET_S = 1800.0
LOOKS = RULES.looks
ALPHAS = dict(zip(LOOKS.launches, LOOKS.alphas, strict=True))

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Drift:
    """share: of a launch's variance. lasts_s: the seconds in which its correlation falls by e."""

    share: float
    lasts_s: float


NONE, USUAL = Drift(0.0, 1.0), Drift(0.05, 300.0)
DRIFTS = {"none": NONE, "usual": USUAL, "a minute": Drift(0.2, 60.0), "five minutes": Drift(0.1, 300.0)}


class World:
    """What is true of the pairs, and what a launch of each would measure at any time."""

    def __init__(self, seed: int, drift: Drift) -> None:
        draw = np.random.default_rng(seed)
        sides = draw.choice([1.0, -1.0], PAIRS, p=[0.75, 0.25])
        sizes = draw.lognormal(math.log(0.08), 1.0, PAIRS)
        self.truths: Numbers = np.where(draw.random(PAIRS) < 0.4, draw.normal(0, 0.003, PAIRS), sides * sizes)
        spreads = draw.lognormal(math.log(draw.uniform(0.02, 0.04)), 0.7, PAIRS)
        self.costs_s: Numbers = draw.lognormal(math.log(2.24), 0.75, PAIRS).clip(0.5, 10)
        decay = math.exp(-1 / drift.lasts_s)
        kicks = draw.normal(0, math.sqrt(1 - decay**2), (PAIRS, int(BUDGET_S)))
        kicks[:, 0] = draw.normal(0, 1, PAIRS)
        scale = spreads[:, None]
        drifts = np.asarray(lfilter([1.0], [1.0, -decay], kicks)) * scale * math.sqrt(drift.share)
        noise = draw.normal(0, 1, (PAIRS, LOOKS.launches[-1])) * scale * math.sqrt(1 - drift.share)
        self.drifts: Numbers = drifts
        """By pair and second of the run."""
        self.noise: Numbers = noise
        """By pair and launch."""


class Run:
    """A run of a world's pairs up to now: pairs are decided at every look, and closed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.draw, self.now_s, self.last = world, random.Random(seed), 0.0, -1
        self.costs_s: list[float] = world.costs_s.tolist()
        self.effects: list[list[float]] = [[] for _ in range(PAIRS)]
        self.results: dict[int, Estimate] = {}
        self.open = set(range(PAIRS))

    def fitting(self) -> list[int]:
        return [pair for pair in sorted(self.open) if self.fits(pair)]

    def fits(self, pair: int) -> bool:
        return self.now_s + self.costs_s[pair] <= BUDGET_S

    def launch(self, pair: int) -> None:
        world, effects = self.world, self.effects[pair]
        effect = world.truths[pair] + world.drifts[pair, int(self.now_s)] + world.noise[pair, len(effects)]
        effects.append(float(effect))
        self.now_s += self.costs_s[pair]
        self.last = pair
        if len(effects) in ALPHAS:
            self.results[pair] = estimate(effects, ALPHAS[len(effects)])
            if len(effects) == LOOKS.launches[-1] or self.verdict(pair) != "inconclusive":
                self.open.remove(pair)

    def verdict(self, pair: int) -> str:
        return decide(self.results[pair], RULES) if pair in self.results else "inconclusive"


def is_true(verdict: str, truth: float) -> bool:
    within = {"no difference": MARGIN, AT_MOST: BOUND}
    if verdict in within:
        return abs(truth) <= within[verdict]
    return truth > MARGIN if verdict == "faster" else truth < -MARGIN


# ---- which pairs are launched next: the rule, and what it is compared with ----

Choose = Callable[[Run], list[int]]


def by_rule(size: int) -> Choose:
    def choose(run: Run) -> list[int]:
        pairs = [
            OpenPair(str(pair), len(run.effects[pair]), {"optimized": run.effects[pair]}, run.costs_s[pair])
            for pair in [pair for pair in run.fitting() if not run.effects[pair]] or sorted(run.open)
        ]
        return [int(name) for name in next_group(pairs, LOOKS, size, BUDGET_S - run.now_s, str(run.last), run.draw)]

    return choose


def in_rounds(run: Run) -> list[int]:
    """Every open pair, in an order drawn anew."""
    group = run.fitting()
    run.draw.shuffle(group)
    return group


def in_batches(run: Run) -> list[int]:
    """Rounds over ten pairs until these are done, then over the next ten."""
    fitting = run.fitting()
    group = [pair for pair in fitting if pair // 10 == fitting[0] // 10]
    run.draw.shuffle(group)
    return group


def widest_first(run: Run) -> list[int]:
    """The pair with the widest interval at 5 %, but not twice in a row."""
    fitting = [pair for pair in run.fitting() if pair != run.last] or run.fitting()

    def width(pair: int) -> float:
        effects = run.effects[pair]
        if len(effects) < 2:
            return math.inf
        result = estimate(effects, 0.05)
        return result.high - result.low

    return [max(fitting, key=width)] if fitting else []


RULE = {size: by_rule(size) for size in (1, 4, 10)}
"""By launches a group."""

OTHERS: dict[str, Choose] = {"in rounds": in_rounds, "in batches of ten": in_batches, "widest first": widest_first}


@dataclass(frozen=True)
class Figures:
    """Means a run: right and wrong verdicts, intervals, those that miss the truth; pairs without a launch."""

    right: float
    wrong: float
    intervals: float
    missing: float
    starved: float

    @property
    def wrong_share(self) -> float:
        return self.wrong / max(self.right + self.wrong, 1)

    @property
    def error(self) -> float:
        """Share of the intervals, at the moment of stopping or at the budget's end, that miss the truth."""
        return self.missing / max(self.intervals, 1)


@cache
def simulated(choose: Choose, drift: Drift) -> Figures:
    right = wrong = intervals = missing = starved = 0
    for seed in range(RUNS):
        run = Run(World(seed, drift), seed)
        while group := choose(run):
            for pair in filter(run.fits, group):
                run.launch(pair)
        truths: list[float] = run.world.truths.tolist()
        verdicts = {pair: run.verdict(pair) for pair in run.results}
        held = [is_true(verdict, truths[pair]) for pair, verdict in verdicts.items() if verdict != "inconclusive"]
        right += sum(held)
        wrong += len(held) - sum(held)
        intervals += len(run.results)
        missing += sum(not result.low <= truths[pair] <= result.high for pair, result in run.results.items())
        starved += sum(not effects for effects in run.effects)
    figures = Figures(*(count / RUNS for count in (right, wrong, intervals, missing, starved)))
    print(f"{figures.right:.1f} of {PAIRS} right, {figures.wrong_share:.2%} wrong, error {figures.error:.2%}")
    return figures


def standard_error(share: float, of: float) -> float:
    return math.sqrt(share * (1 - share) / (RUNS * of))


# ---- what holds ----

SIMULATED = [(4, drift) for drift in DRIFTS] + [(1, "usual"), (10, "usual")]


@pytest.mark.parametrize(("size", "drift"), SIMULATED)
def test_the_interval_at_the_end_misses_the_truth_in_at_most_5_percent(size: int, drift: str) -> None:
    figures = simulated(RULE[size], DRIFTS[drift])
    assert figures.error <= 0.05 + 2 * standard_error(0.05, figures.intervals)


@pytest.mark.parametrize(("size", "drift"), SIMULATED)
def test_a_verdict_is_wrong_in_at_most_1_percent(size: int, drift: str) -> None:
    figures = simulated(RULE[size], DRIFTS[drift])
    assert figures.wrong_share <= 0.01 + 2 * standard_error(0.01, figures.right)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("size", RULE)
def test_the_rule_finds_more_in_the_same_time(size: int, other: str) -> None:
    """By a tenth at least. Seen: 54 or 55 right verdicts by the rule, 42 in rounds, 43 in batches, 18 widest first."""
    assert simulated(RULE[size], USUAL).right > 1.1 * simulated(OTHERS[other], USUAL).right


@pytest.mark.parametrize("size", RULE)
def test_no_pair_is_left_without_a_number(size: int) -> None:
    assert simulated(RULE[size], USUAL).starved == 0
