"""The rules of verdicts: looks, bounded answers, provisional numbers, and launches that are alike."""

from __future__ import annotations

import csv
import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import stdtr, stdtrit
from scipy.stats import norm

from tests.calibrate import contradicts
from tests.made_up import info, launch, measured, run, tip
from tipbench import compare
from tipbench.compare.comparison import Comparison
from tipbench.compare.gate import gate
from tipbench.compare.stored import Stored
from tipbench.engine.run import verdict
from tipbench.records.record import Record, Run
from tipbench.report import FORMATS, one_liners, render
from tipbench.report.results import results
from tipbench.tip.reason import Reason, in_percent, in_words
from tipbench.verdict.rules import (
    AT_MOST,
    BOUND,
    ERROR,
    MARGIN,
    RULES,
    decide,
    first_decision,
    futile,
    p_of,
)
from tipbench.verdict.statistics import PRIOR, Estimate, estimate, provisional, serial
from tipbench.verdict.verdict import Judgement, judge, judge_suite, undecided

CORES = 2
COMPARISONS = Path(__file__).parent / "identical_and_planted.csv"
"""Of each comparison of six calibrations on zen4 and zen5: the truth, and the effect of each launch, as ln."""

OPTIONS = {"profile": "full", "device": "auto", "seed": 0, "bare": False, "rules": 2}


def recorded(effects: Sequence[float], pair: str = "Pair", **about: Any) -> Record:
    """A record with one launch an effect, in this order."""
    made = tuple(launch({"optimized": effect}, seed) for seed, effect in enumerate(effects))
    return replace(measured(info(pair, **about), {"optimized": 0.0}), launches=made)


def only(effects: Sequence[float]) -> Judgement:
    (judged,) = judge(recorded(effects), RULES, CORES)
    return judged


def spread(mean: float, deviation: float, count: int) -> list[float]:
    """So many effects with exactly this mean and deviation, in an order that says nothing."""
    shape = norm.ppf((np.arange(count) + 0.5) / count)
    values = [float(value) for value in mean + deviation * shape / np.std(shape, ddof=1)]
    return random.Random(count).sample(values, count)


def new_run(*records: Record, **more: Any) -> Run:
    return run(records, options=OPTIONS, **more)


def as_stored(of: Run) -> Stored:
    return Stored(Path(f"{of.id}.jsonl"), of, 1, tuple(results(of)), ())


# ---- looks ----


def test_the_looks_are_at_every_count_and_their_error_is_five_percent_together() -> None:
    """Any interval misses in 5 % of paths, and the p-value of all looks is one: both were made by simulation."""
    looks, paths = RULES.looks, 100_000
    assert looks.launches == tuple(range(6, 19))
    assert sum(looks.alphas) > 2 * ERROR, "not Bonferroni's"
    drawn = np.random.default_rng(41).standard_normal((paths, looks.launches[-1]))
    counts = np.arange(1, looks.launches[-1] + 1)
    means = np.cumsum(drawn, 1) / counts
    squares = np.maximum(np.cumsum(drawn**2, 1) - counts * means**2, 0)
    missed, least = np.zeros(paths, bool), np.full(paths, np.inf)
    for count, alpha in zip(looks.launches, looks.alphas, strict=True):
        t = np.abs(means[:, count - 1]) * math.sqrt(count) / np.sqrt(squares[:, count - 1] / (count - 1))
        missed |= t > stdtrit(count - 1, 1 - alpha / 2)
        least = np.minimum(least, ERROR * (2 * stdtr(count - 1, -t) / alpha) ** RULES.power)
    assert 0.047 <= missed.mean() <= 0.053
    for p in (0.05, 0.02, 0.01, 0.005, 0.001):
        assert (least <= p).mean() == pytest.approx(p, rel=0.15 if p > 0.001 else 0.35)


@pytest.mark.parametrize("count", range(6, 19))
def test_an_interval_of_every_count_is_students_at_the_error_of_its_look(count: int) -> None:
    judged = only(spread(0.0, 0.08, count))
    alpha = RULES.looks.alphas[count - 6]
    expected = estimate(spread(0.0, 0.08, count), alpha)
    assert (judged.verdict, judged.launches) == ("inconclusive", count)
    assert judged.low is not None
    assert math.log(judged.low) == pytest.approx(expected.low)
    assert judged.p == pytest.approx(p_of(expected, RULES))


def test_no_number_of_launches_decides_before_the_first_look() -> None:
    assert first_decision(spread(2.0, 0.001, 5), RULES) is None
    assert only(spread(2.0, 0.001, 5)).verdict == "inconclusive"
    assert only(spread(2.0, 0.001, 6)).verdict == "faster"


def test_a_claim_needs_a_p_of_one_in_a_hundred() -> None:
    def with_p(p: float) -> Estimate:
        """Of which the p-value over all looks is this."""
        alpha, distance = RULES.looks.alphas[0], 0.01
        t = float(stdtrit(5, 1 - alpha * (p / ERROR) ** (1 / RULES.power) / 2))
        deviation = distance * math.sqrt(6) / t
        half = float(stdtrit(5, 1 - alpha / 2)) * deviation / math.sqrt(6)
        mean = MARGIN + distance
        return Estimate(mean, mean - half, mean + half, 6, alpha, deviation)

    assert p_of(with_p(0.02), RULES) == pytest.approx(0.02)
    assert decide(with_p(0.009), RULES) == "faster"
    assert decide(with_p(0.011), RULES) == "inconclusive"
    assert with_p(0.011).low > MARGIN


# ---- bounded answers ----


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.009, 0.009, "no difference"),
        (-MARGIN, 0.009, AT_MOST),
        (0.0, 0.02, AT_MOST),
        (-BOUND * 0.999, BOUND * 0.999, AT_MOST),
        (-BOUND, 0.0, "inconclusive"),
        (0.0, BOUND, "inconclusive"),
        (MARGIN, 0.02, AT_MOST),
        (-0.02, -MARGIN, AT_MOST),
        (MARGIN * 1.001, 0.02, "faster"),
        (-0.02, -MARGIN * 1.001, "slower"),
    ],
)
def test_an_interval_within_three_percent_is_an_answer(low: float, high: float, verdict: str) -> None:
    estimated = Estimate((low + high) / 2, low, high, 6, 0.0084, 1e-4)
    assert decide(estimated, RULES) == verdict


def test_an_effect_beyond_the_margin_that_is_not_sure_is_no_bounded_answer() -> None:
    estimated = Estimate(0.02, MARGIN * 1.001, 0.029, 6, 0.0084, 0.0135)
    assert p_of(estimated, RULES) > RULES.claim
    assert decide(estimated, RULES) == "inconclusive"


def test_a_pair_with_a_bounded_answer_is_done() -> None:
    record = recorded(spread(0.0, 0.01, 6))
    assert only(spread(0.0, 0.01, 6)).verdict == AT_MOST
    assert undecided(record, RULES, CORES) == []


def test_what_would_end_as_a_bounded_answer_is_not_given_up() -> None:
    assert not futile(spread(0.0, 0.04, 6), RULES)
    assert futile(spread(0.0, 0.2, 6), RULES)
    assert futile(spread(0.0, 0.2, 7), RULES), "at every count"
    assert not futile(spread(0.0, 0.2, 5), RULES)


def test_a_bounded_answer_is_shown_as_one() -> None:
    of = new_run(recorded(spread(0.004, 0.01, 6), tip=tip("small")))
    (line,) = one_liners(of)
    assert line.startswith("at most 3 %")
    assert "Pair 1.00" in line
    for format in FORMATS:
        assert AT_MOST in render(of, [], format).decode()
    assert "1 at most 3 %." in render(of, [], "md").decode()


def test_a_bounded_answer_is_wrong_beyond_its_bound() -> None:
    assert not contradicts(AT_MOST, math.log(1.03))
    assert not contradicts(AT_MOST, -math.log(1.03))
    assert contradicts(AT_MOST, math.log(1.031))
    assert contradicts(AT_MOST, -math.log(1.031))


def test_a_claim_that_becomes_a_bounded_answer_has_fallen() -> None:
    old = as_stored(new_run(recorded(spread(0.3, 0.005, 6)), id="old"))
    new = as_stored(new_run(recorded(spread(0.0, 0.01, 6)), id="new"))
    for before, after, worsened in ((old, new, True), (new, old, False), (new, new, False)):
        (change,) = gate(Comparison((before, after))).changes
        assert change.worsened == worsened


# ---- before the time is up ----


def test_a_pair_without_launches_is_open() -> None:
    judged = only([])
    assert (judged.verdict, judged.speedup, judged.launches) == ("inconclusive", None, 0)
    assert in_words(judged.reasons) == "time was up: needs 6 launches, has 0"


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_few_launches_give_a_provisional_number_and_no_verdict(count: int) -> None:
    judged = only(spread(0.3, 0.01, count) if count > 1 else [0.3])
    assert (judged.verdict, judged.launches, judged.p, judged.smallest) == ("inconclusive", count, None, None)
    assert judged.speedup == pytest.approx(math.exp(0.3))
    assert in_words(judged.reasons) == f"needs 6 launches, has {count}"
    assert (judged.low is None) == (judged.high is None) == (count < 4)
    if judged.low is not None and judged.high is not None:
        assert judged.low < math.exp(0.3) < judged.high
        assert math.sqrt(judged.low * judged.high) == pytest.approx(math.exp(0.3))


@pytest.mark.parametrize("count", [4, 5, 6, 18])
def test_a_provisional_interval_ends_where_its_bayes_factor_is_one_over_the_error(count: int) -> None:
    values = spread(0.1, 0.02, count)
    mean, half = provisional(values)
    assert half is not None
    t = half * math.sqrt(count) / np.std(values, ddof=1)
    wide = 1 + count * PRIOR
    factor = wide**-0.5 * ((1 + t**2 / (count - 1)) / (1 + t**2 / (count - 1) / wide)) ** (count / 2)
    assert factor == pytest.approx(1 / 0.05)
    assert mean == pytest.approx(0.1)


def test_provisional_intervals_hold_the_truth_at_all_counts_at_once() -> None:
    drawn = np.random.default_rng(43).standard_normal((4_000, 18)).tolist()
    missed = 0
    for values in drawn:
        numbers = (provisional(values[:count]) for count in range(4, 19))
        missed += any(half is not None and abs(mean) > half for mean, half in numbers)
    assert 0.01 <= missed / len(drawn) <= 0.035


def test_provisional_numbers_are_no_part_of_the_false_discovery_control() -> None:
    weak = recorded(spread(0.04, 0.011, 6), "Weak")
    few = [recorded(spread(0.0, 0.01, 5), f"Few{number}") for number in range(200)]
    alone, among = judge_suite([weak], RULES, CORES)[0], judge_suite([weak, *few], RULES, CORES)[0]
    assert alone.verdict == among.verdict == "faster"
    many = [recorded(spread(0.0, 0.002, 6), f"Null{number}") for number in range(20)]
    assert judge_suite([weak, *many], RULES, CORES)[0].verdict == "inconclusive"


@pytest.mark.parametrize(("count", "deviation", "is_open"), [(6, 0.06, True), (17, 0.08, True), (18, 0.08, False)])
def test_what_is_still_open_says_so(count: int, deviation: float, is_open: bool) -> None:
    judged = only(spread(0.03, deviation, count))
    assert judged.verdict == "inconclusive"
    assert in_words(judged.reasons).endswith(f"; time was up after {count} of 18 launches") == is_open


def test_what_was_given_up_is_not_open() -> None:
    judged = only(spread(0.0, 0.2, 7))
    assert in_words(judged.reasons).endswith("stopped after 7 launches: more would hardly settle it")
    assert only(spread(0.3, 0.01, 6)).reasons == ()


@pytest.mark.parametrize("count", [3, 5])
def test_every_format_and_figure_shows_a_provisional_number(count: int) -> None:
    sweep = replace(recorded(spread(0.27, 0.01, count), "Sweep", variants=["n=1", "n=2"]), launches=())
    sweep = replace(
        sweep,
        variants=dict.fromkeys(("baseline", "n=1", "n=2"), sweep.variants["baseline"]),
        launches=tuple(launch({"n=1": effect, "n=2": 2 * effect}, 3) for effect in spread(0.2, 0.01, count)),
    )
    record = recorded(spread(0.27, 0.01, count), tip=tip("few"))
    of = new_run(record, sweep, recorded(spread(0.0, 0.01, count), "Same", tip=tip("control")))
    shown = "about 1.31x" if count < 4 else r"1.31x ["
    lines = one_liners(of)
    assert any(shown in line and f"from {count} launches: too few to say" in line for line in lines)
    assert all(line.startswith("can't tell") for line in lines)
    assert shown in render(of, [], "md").decode()
    for format in FORMATS:
        assert render(of, [], format)
    (pair, *_) = json.loads(render(of, [], "json"))["pairs"]
    assert (pair["low"] is None) == (count < 4)
    (judged,) = judge(record, RULES, CORES)
    assert verdict(judged).startswith(f"provisional {shown}")


@pytest.mark.parametrize("count", [3, 5])
def test_a_provisional_number_is_not_compared(count: int) -> None:
    of = new_run(recorded(spread(0.27, 0.01, count)))
    (row,) = results(of)
    assert (row.log_speedup, row.error, row.verdict) == (None, None, "inconclusive")
    comparison = Comparison((as_stored(of), as_stored(replace(of, id="two"))))
    ((_, why),) = gate(comparison).uncompared
    assert why == f"inconclusive (needs 6 launches, has {count}) in both"
    for format in compare.FORMATS:
        assert compare.render(comparison, format)


def test_from_few_launches_beside_a_busy_program_there_is_no_number() -> None:
    quiet = recorded([0.3, 0.31])
    waited = [replace(each, pressure_us=tuple(round(5e5 * s) for s in each.seconds)) for each in quiet.launches]
    busy = replace(quiet, launches=tuple(waited))
    (judged,) = judge(busy, RULES, CORES)
    said = "no number yet: tasks waited for a core 50 % of the time: other programs' or the pair's own"
    assert verdict(judged) == said
    assert said in one_liners(new_run(busy))[0]
    assert "no number yet" not in one_liners(new_run(quiet))[0]
    more = replace(busy, launches=tuple(replace(waited[0], seed=seed) for seed in range(4)))  # these have an interval
    assert "no number yet" not in one_liners(new_run(more))[0]


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        (spread(0.04, 0.03, 6), "about 2 more minutes needed"),  # at most 10 % so far
        (spread(0.04, 0.01, 3), "about 2 more minutes needed"),
        (spread(0.02, 0.08, 6), "and more time would hardly tell"),
        (spread(0.3, 0.01, 6), ""),
    ],
)
def test_what_is_open_says_how_much_longer_to_measure(effects: list[float], said: str) -> None:
    """At 30 s a launch."""
    record = replace(recorded(effects), wall_s=30.0 * len(effects))
    line = one_liners(new_run(record))[0]
    assert (said in line) if said else ("more" not in line)


def test_the_standard_error_behind_an_interval_is_found_again() -> None:
    values = spread(0.0, 0.08, 12)
    (row,) = results(new_run(recorded(values)))
    assert row.launches == 12
    assert row.error == pytest.approx(np.std(values, ddof=1) / math.sqrt(12))


# ---- launches that are alike ----


def test_the_ratio_of_successive_differences_by_hand() -> None:
    rising = serial([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
    assert rising is not None
    assert rising.correlation == pytest.approx(1 - 5 / 17.5 / 2)
    assert rising.z == pytest.approx((5 / 17.5 - 2) / math.sqrt(16 / 35))
    assert rising.widening == pytest.approx(math.sqrt((1 + rising.correlation) / (1 - rising.correlation)))
    turning = serial([[0.0, 1.0] * 4])
    assert turning is not None
    assert turning.z > 2
    assert turning.widening == 1


def test_pairs_that_cannot_tell_are_left_out() -> None:
    assert serial([]) is None
    assert serial([[0.0, 1.0, 2.0, 3.0, 4.0], [0.1] * 9]) is None
    dependence = serial([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0.1] * 9])
    assert dependence is not None
    assert dependence.pairs == 1


def test_the_ratio_has_its_mean_and_variance_where_launches_are_independent() -> None:
    draw = np.random.default_rng(47)
    z = []
    for _ in range(400):
        pairs = [draw.standard_normal(n).tolist() for n in draw.integers(6, 19, 30)]
        dependence = serial(pairs)
        assert dependence is not None
        z.append(dependence.z)
    assert abs(np.mean(z)) < 0.15
    assert 0.9 < np.std(z) < 1.1


def correlated(draw: np.random.Generator, correlation: float, count: int, deviation: float = 1.0) -> list[float]:
    """AR(1): each is so correlated with the one before."""
    values = [float(draw.standard_normal())]
    while len(values) < count:
        values.append(correlation * values[-1] + math.sqrt(1 - correlation**2) * float(draw.standard_normal()))
    return [deviation * value for value in values]


def test_launches_that_are_alike_are_found_and_their_intervals_widened_enough() -> None:
    """Over suites of 100 pairs of 12 launches with a correlation of 0.2: 10 % of their own intervals miss."""
    draw, held, wider, suites = np.random.default_rng(53), 0, 0, 30
    for _ in range(suites):
        pairs = [correlated(draw, 0.2, 12) for _ in range(100)]
        dependence = serial(pairs)
        assert dependence is not None
        assert dependence.z < -2
        for values in pairs:
            of = estimate(values, 0.05)
            held += of.low <= 0 <= of.high
            wider += abs(of.mean) <= dependence.widening * (of.high - of.mean)
    assert held / suites / 100 < 0.91
    assert wider / suites / 100 > 0.93


def alike(mean: float, deviation: float, count: int = 12) -> list[float]:
    """Effects with this mean that only rise, as where the machine drifts."""
    return sorted(spread(mean, deviation, count))


def test_a_suite_whose_launches_are_alike_is_judged_by_wider_intervals() -> None:
    # at the first look, of the lowest six: their mean and deviation are not those of all
    drifting = [recorded(alike(0.04, 0.02), f"Drift{number}") for number in range(9)]
    apart = judge(drifting[0], RULES, CORES)[0]
    judged = judge_suite(drifting, RULES, CORES)
    dependence = serial(judgement.effects for judgement in judged)
    assert dependence is not None
    assert dependence.z < -2
    for judgement in judged:
        assert judgement.low is not None
        assert judgement.high is not None
        assert apart.low is not None
        assert apart.high is not None
        assert math.log(judgement.high / judgement.low) == pytest.approx(
            dependence.widening * math.log(apart.high / apart.low)
        )
        assert judgement.speedup == apart.speedup


def test_a_verdict_that_the_wider_interval_does_not_support_is_taken_back() -> None:
    drifting = [recorded(alike(0.0, 0.005, 6), f"Drift{number}") for number in range(9)]
    apart, together = judge(drifting[0], RULES, CORES)[0], judge_suite(drifting, RULES, CORES)[0]
    assert (apart.verdict, together.verdict) == ("no difference", AT_MOST)
    assert together.reasons == (Reason("verdict.widened", {"verdict": "no difference"}),)
    wide = [recorded(alike(0.0, 0.015, 6), f"Drift{number}") for number in range(9)]
    apart, together = judge(wide[0], RULES, CORES)[0], judge_suite(wide, RULES, CORES)[0]
    assert (apart.verdict, together.verdict) == (AT_MOST, "inconclusive")
    assert together.smallest is not None
    assert re.match(rf"between \S+ % slower and \S+ % faster; {AT_MOST} before", in_words(together.reasons))


def test_what_stays_inconclusive_names_the_ends_of_the_wider_interval() -> None:
    drifting = [recorded(alike(0.02, 0.06, 12), f"Drift{number}") for number in range(9)]
    apart, together = judge(drifting[0], RULES, CORES)[0], judge_suite(drifting, RULES, CORES)[0]
    assert apart.verdict == together.verdict == "inconclusive"
    assert apart.smallest is not None
    assert together.smallest is not None
    assert together.smallest > apart.smallest
    assert together.low is not None
    assert f"between {in_percent(math.log(together.low))} and " in in_words(together.reasons)
    assert together.reasons[1:] == apart.reasons[1:]


def test_the_reports_limits_say_that_intervals_were_widened() -> None:
    drifting = [recorded(alike(0.3, 0.01, 6), f"Drift{number}") for number in range(9)]
    calm = [recorded(spread(0.3, 0.01, 6), f"Calm{number}") for number in range(9)]
    sentence = "Consecutive launches were correlated, so every interval was widened by "
    text = render(new_run(*drifting), [], "md").decode()
    assert sentence in text[: text.index("| answer |")]
    assert "average over 9 comparisons, z -" in text
    assert "% wider than independent launches would make it." in text
    assert sentence not in render(new_run(*calm), [], "md").decode()


# ---- older calibrations, judged anew ----


def test_older_calibrations_judged_by_these_rules_are_hardly_ever_wrong() -> None:
    """Launches that were timed under earlier rules, whose truth was planted: identical sides and known differences,
    idle and loaded, six to eighteen launches each."""
    with COMPARISONS.open(newline="") as file:
        timed = [(float(row["truth"]), [*map(float, row["effects"].split())]) for row in csv.DictReader(file)]
    assert len(timed) == 669
    wrong = held = 0
    for truth, launch_effects in timed:
        estimated = first_decision(launch_effects, RULES)
        assert estimated is not None
        wrong += contradicts(decide(estimated, RULES), truth)
        held += estimated.low <= truth <= estimated.high
    assert wrong <= 0.01 * len(timed)
    assert held >= 0.95 * len(timed)
