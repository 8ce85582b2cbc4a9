"""What must hold for every input: statistics, verdicts, records, and the words a person types."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.made_up import only, recorded, run
from tipbench.records import store
from tipbench.records.record import Launch
from tipbench.verdict.rules import AT_MOST, BOUND, MARGIN, decide
from tipbench.verdict.statistics import SHARE, Mean, discoveries, error_of_trimmed, round_effect, student, trimmed_mean

# No clock and no chance in what is tried: the same examples everywhere.
exactly = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])

VERDICTS = ("faster", "slower", "no difference", AT_MOST, "inconclusive")
SWAPPED = {**dict(zip(VERDICTS, VERDICTS, strict=True)), "faster": "slower", "slower": "faster"}

some_effects = st.floats(-3, 3).map(lambda effect: round(effect, 6))
some_seconds = st.floats(1e-6, 1e4)


# ---- statistics ----


@exactly
@given(st.lists(some_effects, min_size=1, max_size=60))
def test_trimmed_mean_is_scipys(values: list[float]) -> None:
    expected = float(scipy.stats.trim_mean(values, SHARE))
    assert trimmed_mean(values) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@exactly
@given(st.lists(some_effects, min_size=2, max_size=60))
def test_its_error_is_scipys(values: list[float]) -> None:
    expected = float(scipy.stats.mstats.trimmed_stde(values, (SHARE, SHARE)))
    count, left = len(values), len(values) - 2 * int(SHARE * len(values))
    # That of Tukey and McLaughlin (1963) has the exact share where Yuen has the numbers that are left.
    yuens = expected * (1 - 2 * SHARE) * math.sqrt(count * (count - 1) / left / max(1, left - 1))
    assert error_of_trimmed(values) == pytest.approx(yuens, rel=1e-6, abs=1e-9)


@exactly
@given(st.lists(some_seconds, min_size=1, max_size=8), st.lists(some_seconds, min_size=1, max_size=8), some_seconds)
def test_round_effect_turns_and_knows_no_unit(baseline: list[float], optimized: list[float], unit: float) -> None:
    result = round_effect(baseline, optimized)
    assert round_effect(optimized, baseline) == -result
    assert round_effect(baseline, baseline) == 0
    in_unit = round_effect([value * unit for value in baseline], [value * unit for value in optimized])
    assert in_unit == pytest.approx(result, abs=1e-9)


@exactly
@given(st.lists(some_effects, min_size=2, max_size=18), st.floats(1e-4, 0.5))
def test_the_interval_is_scipys_t_interval(effects: list[float], alpha: float) -> None:
    half = scipy.stats.t.isf(alpha / 2, len(effects) - 1) * np.std(effects, ddof=1) / math.sqrt(len(effects))
    mean = float(np.mean(effects))
    assert student(effects).interval(alpha) == pytest.approx((mean - half, mean + half), rel=1e-6, abs=1e-9)


# Odd numbers over a prime: no p-value ties with a threshold, where rounding would decide.
some_p_values = st.lists(st.integers(0, 10_000).map(lambda n: (2 * n + 1) / 20_011), min_size=1, max_size=40)
some_rates = st.sampled_from([0.01, 0.05, 0.1, 0.2])


@exactly
@given(some_p_values, some_rates)
@example([1 / 20_011] * 40, 0.05)
def test_discoveries_are_scipys(p_values: list[float], rate: float) -> None:
    expected = scipy.stats.false_discovery_control(p_values) <= rate
    assert discoveries(p_values, rate) == expected.tolist()


def test_what_the_properties_do_not_reach() -> None:
    with pytest.raises(ValueError, match="no values"):
        trimmed_mean([])
    with pytest.raises(ValueError, match="at least 2"):
        student([0.1])
    assert error_of_trimmed([0.1]) == 0, "one value has no error of its own"
    assert round_effect([2.0, 8.0], [1.0, 4.0]) == pytest.approx(math.log(2))
    of_ties_and_of_nothing = [discoveries(values, 0.05) for values in ([0.05] * 3, [0.03, 0.9, 0.9], [])]
    assert of_ties_and_of_nothing == [[True] * 3, [False] * 3, []]


# ---- verdicts ----


@st.composite
def launch_effects(draw: st.DrawFn, most: int = 18) -> list[float]:
    """Near enough to the margin and to each other that every verdict occurs."""
    centre = draw(st.sampled_from([0.0, 0.005, MARGIN, 0.02, -0.02, 0.04, -0.3, 0.5]))
    scatter = draw(st.sampled_from([1e-4, 0.002, 0.01, 0.05]))
    drawn = draw(st.lists(st.floats(-1, 1), min_size=6, max_size=most))
    return [centre + scatter * value for value in drawn]


def turned(launch: Launch) -> Launch:
    other = {"baseline": "optimized", "optimized": "baseline"}
    return replace(launch, variant=tuple(other[name] for name in launch.variant))


@exactly
@given(launch_effects())
def test_swapped_sides_turn_the_verdict_and_the_speedup(effects: list[float]) -> None:
    record = recorded(effects)
    there, back = only(record), only(replace(record, launches=tuple(map(turned, record.launches))))
    assert back.verdict == SWAPPED[there.verdict]
    assert len(back.effects) == len(there.effects)
    assert there.speedup is not None
    assert there.low is not None
    assert there.high is not None
    reciprocals = (1 / there.speedup, 1 / there.high, 1 / there.low)
    assert (back.speedup, back.low, back.high) == pytest.approx(reciprocals, rel=1e-12)


@exactly
@given(some_effects, st.floats(1e-9, 1), st.floats(1, 30))
def test_a_claim_needs_an_interval_that_excludes_the_margin(value: float, error: float, freedom: float) -> None:
    mean = Mean(value, error, freedom)
    (low, high), verdict = mean.interval(), decide(mean)
    assert verdict in VERDICTS
    if verdict == "faster":
        assert low > MARGIN
    if verdict == "slower":
        assert high < -MARGIN
    if verdict == "no difference":
        assert -MARGIN < low <= high < MARGIN
    if verdict == AT_MOST:
        assert -BOUND < low < MARGIN
        assert -MARGIN < high < BOUND


# ---- records ----


@exactly
@given(st.text(), st.text(), st.text())
def test_no_name_leads_out_of_the_results_folder(started: str, id: str, machine: str) -> None:
    about = run(started=started, id=id, machine={"name": machine})
    for part in (store.file_name(about), store.folder_name(about.machine)):
        assert part not in ("", ".", "..")
        assert Path(part).name == part
        assert part.isascii()
        assert not part.startswith(".")
