"""How often the interval holds the truth, and how often a verdict is wrong: simulated, from block seconds on.

What holds, over launch spreads of 0 to 1.5 %, launches in two equal modes 1 to 4 % apart, spikes, drift and
disturbances that last, for truths of 0 to 50 %:

- The interval at the moment of stopping holds the truth in at least 94 % of runs: the least is 94.3 %, of modes 4 %
  apart and a truth of 3 %.
- A verdict is wrong in at most 1 % of runs. Short of it are modes that reach beyond the margin: 1.6 % where they
  are 2 % apart and the truth is half way to the edge, 3.1 % where they are 4 % apart.

Both have one cause: in 2 of 2^6 runs (3.1 %) all of the first six launches lie in the same mode, and their own
spread is then no sign of the other.

A known limit, which no method can lift: a mode not met yet cannot be known. Where one launch in five lies in another
mode, 26 % of runs do not meet it in six launches, so the interval may hold the mean over both modes in 71 % of runs
only; in the others it tells of the mode that it met. The verdict on identical code stays right up to 4 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from tests.made_up import info, measured
from tipbench.engine.launch import rounds_of
from tipbench.engine.profiles import PROFILES
from tipbench.records.record import Launch
from tipbench.verdict.launches import launch_effect, round_effects
from tipbench.verdict.rules import AT_MOST, MARGIN, RULES, decide, first_decision
from tipbench.verdict.verdict import judge, undecided

RUNS = 3_000
"""Simulated runs behind each rate: the standard error of a coverage of 95.5 % is 0.38 %."""

LAUNCHES = 800
"""Launches simulated block by block for each noise and truth; every run draws its own from them."""

SEED = 20261120

SIDES = "baseline", "optimized"

TRUTHS = {
    "0": 0.0,
    "+0.5 %": math.log(1.005),
    "-0.5 %": -math.log(1.005),
    "+1 %": MARGIN,
    "-1 %": -MARGIN,
    "3 %": math.log(1.03),
    "10 %": math.log(1.1),
    "50 %": math.log(1.5),
}
WITHIN = "0", "+0.5 %", "-0.5 %"
EDGES = "+1 %", "-1 %"
BEYOND = "3 %", "10 %", "50 %"
FAR = "10 %", "50 %"

Numbers = NDArray[np.float64]
Shape = tuple[int, int]

# ---- noise within a launch: a row of undisturbed block seconds becomes the row that is measured ----

ROUND_SD = 0.005 / 0.6745
"""Of a round's effect, and of a block's logarithm: normal noise whose median deviation is the 0.5 % measured."""


def even(draw: np.random.Generator, seconds: Numbers) -> Numbers:
    return seconds * np.exp(draw.normal(0, ROUND_SD, seconds.shape))


def spiky(draw: np.random.Generator, seconds: Numbers) -> Numbers:
    """Spikes of 1 to 3 ms, the more the longer a block lasts."""
    hit = draw.random(seconds.shape) < 2.8 * seconds
    return even(draw, seconds) + hit * draw.uniform(0.001, 0.003, seconds.shape)


def drift(seconds: Numbers) -> Numbers:
    """The last block takes a fifth longer than the first."""
    return seconds * np.linspace(1, 1.2, seconds.shape[1])


def drifting(draw: np.random.Generator, seconds: Numbers) -> Numbers:
    return even(draw, drift(seconds))


def kept_up(draw: np.random.Generator, seconds: Numbers) -> Numbers:
    """AR(1): 90 % of what disturbs a block still disturbs the next."""
    kicks = draw.normal(0, ROUND_SD, seconds.shape)
    kicks[:, 0] /= math.sqrt(1 - 0.9**2)
    return seconds * np.exp(np.asarray(lfilter([1.0], [1.0, -0.9], kicks)))


# ---- noise between launches, added to a launch's effect ----


def spread(sd: float) -> Callable[[np.random.Generator, Shape], Numbers]:
    return lambda draw, shape: draw.normal(0, sd, shape)


def modes(gap: float, share: float = 0.5) -> Callable[[np.random.Generator, Shape], Numbers]:
    """Launches lie in one of two modes, `share` of them in the upper one; their mean is 0."""
    return lambda draw, shape: np.where(draw.random(shape) < share, (1 - share) * gap, -share * gap)


@dataclass(frozen=True)
class Noise:
    blocks: Callable[[np.random.Generator, Numbers], Numbers]
    launches: Callable[[np.random.Generator, Shape], Numbers]
    rounds: int = 1
    """Which of the profile's rounds a launch has: 0 the least, 1 the most."""


NOISES = {
    "no spread": Noise(even, spread(0)),
    "spread 0.25 %": Noise(even, spread(0.0025)),
    "spread 0.5 %": Noise(even, spread(0.005)),
    "spread 1.5 %": Noise(even, spread(0.015)),
    "modes 1 % apart": Noise(even, modes(0.01)),
    "modes 2 % apart": Noise(even, modes(0.02)),
    "modes 4 % apart": Noise(even, modes(0.04)),
    "spikes": Noise(spiky, spread(0)),
    "spikes, few rounds": Noise(spiky, spread(0), rounds=0),
    "drift": Noise(drifting, spread(0)),
    "AR(1)": Noise(kept_up, spread(0)),
}
RARE = 0.2
"""Share of launches in a mode that six launches may well not meet."""


@cache
def orders(count: int) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(chain(*islice(rounds_of(SIDES, seed), count))) for seed in range(LAUNCHES))


def undisturbed(truth: float, count: int) -> Numbers:
    """Seconds of each launch's blocks without noise: the faster side's last as long as a profile asks for."""
    at_baseline = np.array(orders(count)) == "baseline"
    return PROFILES["full"].block_s * np.exp(np.where(at_baseline, max(truth, 0), max(-truth, 0)))


def as_launches(seconds: Numbers, count: int) -> list[Launch]:
    nothing = (0,) * seconds.shape[1]
    return [
        Launch(seed, order, tuple(row), nothing, nothing, nothing, nothing, rounds=count)
        for seed, (order, row) in enumerate(zip(orders(count), seconds.tolist(), strict=True))
    ]


@cache
def pool(blocks: Callable[[np.random.Generator, Numbers], Numbers], truth: float, count: int) -> Numbers:
    """The effects of LAUNCHES launches, each out of its own block seconds."""
    seconds = blocks(np.random.default_rng(SEED), undisturbed(truth, count))
    effects = [launch_effect(launch, "optimized", cores=2)[0] for launch in as_launches(seconds, count)]
    return np.array(effects, dtype=np.float64)


@cache
def simulated(noise: Noise, truth: float, profile: str) -> tuple[float, Counter[str], Counter[int]]:
    """(share of runs whose interval holds the truth, verdicts, launches used)."""
    draw = np.random.default_rng(SEED + 1)
    shape = RUNS, RULES.looks.launches[-1]
    effects = draw.choice(pool(noise.blocks, truth, PROFILES[profile].rounds[noise.rounds]), shape)
    held, verdicts, used = 0, Counter[str](), Counter[int]()
    for run in (effects + noise.launches(draw, shape)).tolist():
        result = first_decision(run, RULES)
        assert result is not None
        held += result.low <= truth <= result.high
        verdicts[decide(result, RULES)] += 1
        used[result.launches] += 1
    return held / RUNS, verdicts, used


def wrong(noise: Noise, truth: str, profile: str) -> float:
    """Share of runs with a verdict that the truth belies."""
    verdicts = simulated(noise, TRUTHS[truth], profile)[1]
    lies = ("faster", "slower") if truth in WITHIN + EDGES else ("no difference", "slower")
    return sum(verdicts[lie] for lie in (*lies, *([AT_MOST] if truth in FAR else []))) / RUNS


# ---- the noise is what it is meant to be ----


def test_spikes_are_as_measured() -> None:
    """Rounds of 5 ms blocks: a median deviation of 0.5 %, an rms of 4 %."""
    draw, count = np.random.default_rng(SEED), PROFILES["full"].rounds[1]
    launches = as_launches(spiky(draw, undisturbed(0.0, count)), count)
    effects = np.array([effect for launch in launches for effect in round_effects(launch, "optimized")])
    assert 0.004 < np.median(np.abs(effects)) < 0.006
    assert 0.035 < np.sqrt(np.mean(effects**2)) < 0.045


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_drift_within_a_launch_cancels_by_the_palindromes(truth: float) -> None:
    """What is left is the curvature of the logarithm; rounds without their mirror would be off by 0.0017."""
    count = PROFILES["full"].rounds[1]
    for launch in as_launches(drift(undisturbed(truth, count)), count):
        assert launch_effect(launch, "optimized", cores=2)[0] == pytest.approx(truth, abs=1e-5)


# ---- from block seconds to the verdict, as the runner and the report go ----


@pytest.mark.parametrize("profile", ["full", "quick"])
@pytest.mark.parametrize("truth", [0.0, math.log(1.03), math.log(1.5)])
def test_a_record_is_RULES_the_rule_that_is_simulated(profile: str, truth: float) -> None:
    """Launches are added while the runner would; the judgement is `first_decision` on the effects of the launches."""
    count = PROFILES[profile].rounds[0]
    last = RULES.looks.launches[-1]
    draw = np.random.default_rng(SEED)
    launches = as_launches(spiky(draw, undisturbed(truth, count)), count)
    for first in range(0, 10 * last, last):
        record = replace(measured(info(), {"optimized": 0.0}), launches=())
        while undecided(record, RULES, cores=2):
            record = replace(record, launches=(*record.launches, launches[first + len(record.launches)]))
        (judged,) = judge(record, RULES, cores=2)
        effects = [launch_effect(launch, "optimized", cores=2)[0] for launch in record.launches]
        result = first_decision([effect for effect in effects if effect is not None], RULES)
        assert result is not None
        assert judged.launches == result.launches == len(record.launches)
        assert (judged.low, judged.high) == (math.exp(result.low), math.exp(result.high))
        assert judged.verdict == decide(result, RULES)


# ---- what holds ----

COVERAGE = 0.94
WRONG = 0.01

AT_AN_EDGE = 0.03
"""Half of the error of 5 %, with its error of simulation: that side of the edge on which a claim is just not true."""

SAME_MODE = 2 / 2**6
"""The chance that the first six launches all lie in one of two equal modes."""

REACH_BEYOND = ("modes 2 % apart", "modes 4 % apart")
"""Modes whose one side can lie beyond the margin while the truth lies within."""


@pytest.mark.parametrize("profile", ["full", "quick"])
@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_holds_the_truth(noise: str, truth: str, profile: str) -> None:
    held = simulated(NOISES[noise], TRUTHS[truth], profile)[0]
    assert held >= COVERAGE


@pytest.mark.parametrize("profile", ["full", "quick"])
@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("noise", NOISES)
def test_a_verdict_is_hardly_ever_wrong(noise: str, truth: str, profile: str) -> None:
    most = AT_AN_EDGE if truth in EDGES else WRONG
    if noise in REACH_BEYOND:
        most += SAME_MODE if truth in WITHIN + EDGES else 0
    assert wrong(NOISES[noise], truth, profile) <= most


@pytest.mark.parametrize("profile", ["full", "quick"])
@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("gap", [0.01, 0.02, 0.04])
def test_a_rare_mode_costs_coverage_but_makes_no_wrong_verdict(gap: float, truth: str, profile: str) -> None:
    """Where the common mode alone lies beyond the margin and the mean of both within, a run that met only the
    common mode says so: that is no error of the rule, and left out."""
    noise = Noise(even, modes(gap, RARE))
    assert simulated(noise, TRUTHS[truth], profile)[0] >= 0.7
    common = TRUTHS[truth] - RARE * gap
    if truth in BEYOND or abs(common) < MARGIN:
        assert wrong(noise, truth, profile) <= WRONG


@pytest.mark.parametrize("profile", ["full", "quick"])
def test_every_look_is_simulated(profile: str) -> None:
    """A rate says nothing about a look at which no run stopped."""
    looks, stopped = RULES.looks, Counter[int]()
    for noise in NOISES.values():
        for truth in TRUTHS.values():
            stopped += simulated(noise, truth, profile)[2]
    assert set(stopped) == set(looks.launches)
    assert min(stopped.values()) >= RUNS / 10
