"""What several runs of one machine say together: examples by hand, and coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from tipbench.verdict.estimate import priors
from tipbench.verdict.launches import LaunchEffect
from tipbench.verdict.pooling import OPEN, TIMES, Spread, State, pool_runs, state
from tipbench.verdict.rules import decide
from tipbench.verdict.statistics import Mean

BOUNDS = (0.02, 0.03, 0.05)
MARGIN = math.log(1.01)


def test_one_run_is_widened_by_what_is_assumed_between_runs() -> None:
    together = pool_runs([Mean(0.1, 0.01, 8)], TIMES)
    between = TIMES.small**2 + (TIMES.share * 0.1) ** 2
    assert together.mean == 0.1
    assert together.error == pytest.approx(math.sqrt(0.01**2 + between))
    welch = (0.01**2 + between) ** 2 / (0.01**4 / 8 + between**2 / 4)
    assert together.freedom == pytest.approx(min(welch, 8))


def test_runs_that_differ_by_more_than_is_assumed_are_less_sure() -> None:
    near = pool_runs([Mean(0.10, 0.01, 8), Mean(0.11, 0.01, 8)], TIMES)
    apart = pool_runs([Mean(0.00, 0.01, 8), Mean(0.21, 0.01, 8)], TIMES)
    assert near.mean == pytest.approx(0.105)
    assert apart.mean == pytest.approx(0.105)
    assert near.error < pool_runs([Mean(0.105, 0.01, 8)], TIMES).error < apart.error


def test_a_run_counts_by_how_sure_it_is_but_never_for_all() -> None:
    together = pool_runs([Mean(0.0, 1e-6, 17), Mean(0.03, 0.01, 5)], TIMES)
    assert 0.005 < together.mean < 0.015


@pytest.mark.parametrize("freedom", [3, 5, 6, 8, 12, 17])
@pytest.mark.parametrize("half", [0.0005, 0.004, 0.02, 0.1, 0.6])
@pytest.mark.parametrize("mean", [-0.7, 0.0, 0.03, 2.0])
def test_no_interval_of_a_run_becomes_narrower_by_what_is_assumed(mean: float, half: float, freedom: int) -> None:
    one = Mean(mean, half / float(t.ppf(0.975, freedom)), freedom)
    low, high = pool_runs([one], TIMES).interval()
    assert low < mean - half
    assert mean + half < high


@pytest.mark.parametrize("runs", [1, 2, 3, 4])
@pytest.mark.parametrize("truth", [0.0, 0.05, 0.4])
def test_the_interval_over_runs_holds_the_truth(runs: int, truth: float) -> None:
    """Effects of runs are t-distributed with 4 degrees of freedom and a spread of 0.6 % or 5 % of the effect; launches
    are 6 to 18, and spread by 1 to 4 %."""
    draw = np.random.default_rng(runs)
    tries, held = 1000, 0
    scale = math.hypot(0.006, 0.05 * truth)
    for _ in range(tries):
        means = []
        for _ in range(runs):
            mean = truth + t.rvs(4, random_state=draw) * scale
            launches = int(draw.integers(6, 19))
            effects = mean + draw.normal(0, draw.uniform(0.01, 0.04), launches)
            error = float(effects.std(ddof=1)) / math.sqrt(launches)
            means.append(Mean(float(effects.mean()), error, launches - 1.0))
        low, high = pool_runs(means, TIMES).interval()
        held += low <= truth <= high
    assert 0.92 <= held / tries <= 0.97


@pytest.mark.parametrize("runs", [1, 2, 3])
@pytest.mark.parametrize("truth", [0.0, 0.05])
def test_it_does_so_where_runs_stop_as_soon_as_they_decide(runs: int, truth: float) -> None:
    """By the rules of new runs; a run's part in it is the interval that its verdict rests on."""
    draw = np.random.default_rng(100 + runs)
    tries, held = 300, 0
    scale = math.hypot(0.006, 0.05 * truth)
    for _ in range(tries):
        means = []
        for _ in range(runs):
            spread = draw.uniform(0.005, 0.03)
            effects = truth + t.rvs(4, random_state=draw) * scale + draw.normal(0, spread, 18)
            for count in range(1, 19):
                mean = priors()["job"].mean([LaunchEffect(float(value), spread / 2) for value in effects[:count]])
                if decide(mean) != "inconclusive":
                    break
            means.append(mean)
        low, high = pool_runs(means, TIMES).interval()
        held += low <= truth <= high
    assert held / tries >= 0.93


# ---- states ----


@pytest.mark.parametrize(
    ("mean", "error", "expected"),
    [
        (0.10, 0.01, State("gain")),
        (-0.10, 0.01, State("loss")),
        (0.0, 0.002, State("within", 0.02)),
        (0.0, 0.01, State("within", 0.03)),
        (0.0, 0.019, State("within", 0.05)),
        (0.0, 0.04, State("open")),
        (0.02, 0.004, State("within", 0.05)),
        (0.10, 0.06, State("open")),
    ],
)
def test_what_one_run_says_of_an_effect(mean: float, error: float, expected: State) -> None:
    assert state([Mean(mean, error, 8)], TIMES, MARGIN, BOUNDS) == expected


def test_no_run_says_nothing() -> None:
    assert state([], TIMES, MARGIN, BOUNDS) == State("open")
    with pytest.raises(ValueError, match="no runs"):
        pool_runs([], TIMES)


def test_what_an_earlier_run_said_stays_while_it_is_likely() -> None:
    clear, edge, contrary = Mean(0.04, 0.005, 8), Mean(0.01, 0.005, 8), Mean(-0.04, 0.005, 8)
    together = pool_runs([clear, edge], TIMES)
    assert 0.80 < together.above(MARGIN) < 0.95
    assert state([clear, edge], TIMES, MARGIN, BOUNDS) == State("gain")
    assert state([edge, clear], TIMES, MARGIN, BOUNDS) != State("gain"), "none was sure before"
    assert state([clear, edge, contrary], TIMES, MARGIN, BOUNDS) != State("gain")


def test_a_wide_bound_says_something_of_what_is_open_and_never_stays() -> None:
    unsure, sure = Mean(0.03, 0.012, 20.0), Mean(0.03, 0.001, 20.0)
    none = Spread(0.001)
    assert state([unsure], none, 0.01, (0.02, 0.03)) == OPEN
    assert state([unsure], none, 0.01, (0.02, 0.03), (0.05, 0.10)) == State("within", 0.10)
    assert state([unsure, sure], none, 0.01, (0.02, 0.03), (0.05, 0.10)) == State("gain")
    assert state([], none, 0.01, (0.02,), (0.10,)) == OPEN


def test_a_bound_becomes_tighter_with_more_runs() -> None:
    wide, narrow = Mean(0.0, 0.019, 8), Mean(0.0, 0.002, 8)
    assert state([wide], TIMES, MARGIN, BOUNDS) == State("within", 0.05)
    assert state([wide, narrow, narrow, narrow], TIMES, MARGIN, BOUNDS) == State("within", 0.02)
