"""Known answers from scipy, and simulations of the whole stopping rule."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import scipy.stats

from tipbench.verdict.rules import AT_MOST, MARGIN, RULES, decide, first_decision
from tipbench.verdict.statistics import Estimate, discoveries, estimate, p_beyond, round_effect, trimmed_mean

RUNS = 2000


@pytest.mark.parametrize("count", [1, 4, 5, 20, 41])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.4])
def test_trimmed_mean_is_scipys(count: int, share: float) -> None:
    values = np.random.default_rng(count).lognormal(size=count).tolist()
    assert trimmed_mean(values, share) == pytest.approx(float(scipy.stats.trim_mean(values, share)), rel=1e-12)


def test_trimmed_mean_ignores_a_fifth_of_spikes_and_refuses_nothing() -> None:
    assert trimmed_mean([1.0, 1.0, 1.0, 1.0, 1e9]) == 1.0
    with pytest.raises(ValueError, match="no values"):
        trimmed_mean([])


@pytest.mark.parametrize("count", [2, 6, 9, 13, 18])
@pytest.mark.parametrize("alpha", [0.005, 0.02, 0.05])
def test_interval_is_scipys_t_interval(count: int, alpha: float) -> None:
    values = np.random.default_rng(count).normal(0.1, 0.02, count)
    low, high = scipy.stats.t.interval(1 - alpha, count - 1, loc=values.mean(), scale=scipy.stats.sem(values))
    found = estimate(values.tolist(), alpha)
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high), rel=1e-10)
    assert found.deviation == pytest.approx(values.std(ddof=1), rel=1e-10)
    assert (found.launches, found.alpha) == (count, alpha)


def test_interval_of_equal_effects_has_no_width_and_one_launch_none_at_all() -> None:
    found = estimate([0.25, 0.25, 0.25], 0.05)
    assert (found.low, found.mean, found.high) == (0.25, 0.25, 0.25)
    with pytest.raises(ValueError, match="at least 2"):
        estimate([0.1], 0.05)


def test_round_effect_is_the_log_ratio_of_geometric_means() -> None:
    assert round_effect([2.0, 8.0], [1.0, 4.0]) == pytest.approx(math.log(2))
    assert round_effect([1.0, 4.0], [2.0, 8.0]) == pytest.approx(-math.log(2))


def test_discoveries_of_nothing_and_of_ties() -> None:
    assert discoveries([], 0.05) == []
    assert discoveries([0.05, 0.05, 0.05], 0.05) == [True, True, True]
    assert discoveries([0.03, 0.9, 0.9], 0.05) == [False, False, False]


def test_p_without_scatter_and_within_the_margin() -> None:
    assert p_beyond(Estimate(0.1, 0.1, 0.1, 6, 0.005, 0.0), MARGIN, 0.05) == 0.0
    assert p_beyond(Estimate(0.005, 0.005, 0.005, 6, 0.005, 0.0), MARGIN, 0.05) == 1.0


Runs = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def stop(effects: Runs, truth: float) -> tuple[float, Counter[str]]:
    """(share of intervals that hold the truth, verdicts) where every row is a run that may stop at each look."""
    held, verdicts = 0, Counter[str]()
    for launches in effects.tolist():
        found = first_decision(launches, RULES)
        assert found is not None
        held += found.low <= truth <= found.high
        verdicts[decide(found, RULES)] += 1
    return held / len(effects), verdicts


@pytest.mark.parametrize("spread", [0.0025, 0.015])
@pytest.mark.parametrize("truth", [0.0, MARGIN, 0.02])
def test_stopping_early_keeps_the_coverage(truth: float, spread: float) -> None:
    draw = np.random.default_rng(11)
    effects = draw.normal(truth, spread, (RUNS, RULES.looks.launches[-1]))
    assert stop(effects, truth)[0] >= 0.94


@pytest.mark.parametrize("gap", [0.01, 0.02])
def test_a_rare_mode_that_is_missed_makes_no_claim(gap: float) -> None:
    """Six launches can miss a mode that one in five lands in: then the interval is too narrow, which no
    method can see. What must hold is that identical code is still not called faster or slower."""
    draw = np.random.default_rng(17)
    shape = RUNS, RULES.looks.launches[-1]
    effects = (draw.random(shape) < 0.2) * gap - 0.2 * gap + draw.normal(0, 0.002, shape)
    verdicts = stop(effects, 0.0)[1]
    assert (verdicts["faster"] + verdicts["slower"]) / RUNS <= 0.002


@pytest.mark.parametrize(("spread", "same"), [(0.0025, 0.99), (0.005, 0.99), (0.015, 0.2)])
def test_identical_code_is_hardly_ever_called_different(spread: float, same: float) -> None:
    draw = np.random.default_rng(19)
    verdicts = stop(draw.normal(0, spread, (RUNS, RULES.looks.launches[-1])), 0.0)[1]
    assert verdicts["faster"] + verdicts["slower"] <= 0.002 * RUNS
    assert verdicts["no difference"] + verdicts[AT_MOST] >= same * RUNS


@pytest.mark.parametrize("spread", [0.05, 0.2])
def test_identical_code_on_a_busy_machine_is_called_different_once_in_100_at_most(spread: float) -> None:
    draw = np.random.default_rng(29)
    verdicts = stop(draw.normal(0, spread, (RUNS, RULES.looks.launches[-1])), 0.0)[1]
    assert verdicts["faster"] + verdicts["slower"] <= 0.01 * RUNS


@pytest.mark.parametrize("truth", [math.log(1.1), -math.log(1.1)])
@pytest.mark.parametrize(("spread", "launches_needed"), [(0.0025, 6), (0.005, 6), (0.015, 18)])
def test_a_planted_tenth_is_always_found(truth: float, spread: float, launches_needed: int) -> None:
    draw = np.random.default_rng(23)
    for launches in draw.normal(truth, spread, (200, launches_needed)).tolist():
        found = first_decision(launches, RULES)
        assert found is not None
        assert decide(found, RULES) == ("faster" if truth > 0 else "slower")


def test_no_estimate_before_the_first_look() -> None:
    assert first_decision([0.0] * 3, RULES) is None
