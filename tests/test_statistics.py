"""Known answers, and simulations of the whole stopping rule; `test_properties.py` compares with scipy."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from tipbench.verdict.rules import AT_MOST, MARGIN, RULES, decide, first_decision
from tipbench.verdict.statistics import Estimate, discoveries, estimate, p_beyond, round_effect, trimmed_mean

RUNS = 2000


def test_trimmed_mean_ignores_a_fifth_of_spikes_and_refuses_nothing() -> None:
    assert trimmed_mean([1.0, 1.0, 1.0, 1.0, 1e9]) == 1.0
    with pytest.raises(ValueError, match="no values"):
        trimmed_mean([])


def test_interval_of_equal_effects_has_no_width_and_one_launch_none_at_all() -> None:
    result = estimate([0.25, 0.25, 0.25], 0.05)
    assert (result.low, result.mean, result.high) == (0.25, 0.25, 0.25)
    with pytest.raises(ValueError, match="at least 2"):
        estimate([0.1], 0.05)


def test_round_effect_is_the_log_ratio_of_geometric_means() -> None:
    assert round_effect([2.0, 8.0], [1.0, 4.0]) == pytest.approx(math.log(2))


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
        result = first_decision(launches, RULES)
        assert result is not None
        held += result.low <= truth <= result.high
        verdicts[decide(result, RULES)] += 1
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


@pytest.mark.parametrize(
    ("spread", "same", "different"),
    [(0.0025, 0.99, 0.002), (0.005, 0.99, 0.002), (0.015, 0.2, 0.002), (0.05, 0, 0.01), (0.2, 0, 0.01)],
)
def test_identical_code_is_hardly_ever_called_different(spread: float, same: float, different: float) -> None:
    """Shares of runs; a machine on which launches spread by 5 % or more is a busy one."""
    draw = np.random.default_rng(19)
    verdicts = stop(draw.normal(0, spread, (RUNS, RULES.looks.launches[-1])), 0.0)[1]
    assert verdicts["faster"] + verdicts["slower"] <= different * RUNS
    assert verdicts["no difference"] + verdicts[AT_MOST] >= same * RUNS


@pytest.mark.parametrize("truth", [math.log(1.1), -math.log(1.1)])
@pytest.mark.parametrize(("spread", "launches_needed"), [(0.0025, 6), (0.005, 6), (0.015, 18)])
def test_a_planted_tenth_is_always_found(truth: float, spread: float, launches_needed: int) -> None:
    draw = np.random.default_rng(23)
    for launches in draw.normal(truth, spread, (200, launches_needed)).tolist():
        result = first_decision(launches, RULES)
        assert result is not None
        assert decide(result, RULES) == ("faster" if truth > 0 else "slower")


def test_no_estimate_before_the_first_look() -> None:
    assert first_decision([0.0] * 3, RULES) is None
