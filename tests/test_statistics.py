"""Known answers; `test_properties.py` compares with scipy, `test_estimate.py` has what an estimate decides."""

from __future__ import annotations

import math

import pytest

from tipbench.verdict.statistics import discoveries, error_of_trimmed, round_effect, student, trimmed_mean


def test_trimmed_mean_ignores_a_fifth_of_spikes_and_refuses_nothing() -> None:
    assert trimmed_mean([1.0, 1.0, 1.0, 1.0, 1e9]) == 1.0
    with pytest.raises(ValueError, match="no values"):
        trimmed_mean([])


def test_one_value_has_no_error_of_its_own() -> None:
    assert error_of_trimmed([0.1]) == 0
    with pytest.raises(ValueError, match="at least 2"):
        student([0.1])


def test_round_effect_is_the_log_ratio_of_geometric_means() -> None:
    assert round_effect([2.0, 8.0], [1.0, 4.0]) == pytest.approx(math.log(2))


def test_discoveries_of_nothing_and_of_ties() -> None:
    assert discoveries([], 0.05) == []
    assert discoveries([0.05, 0.05, 0.05], 0.05) == [True, True, True]
    assert discoveries([0.03, 0.9, 0.9], 0.05) == [False, False, False]
