"""Which tips are followed together, decided from made-up effects."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.made_up import info, measured, run, tip
from tipbench.advise.combination import SIDE_WITHOUT, Combination, clear, first_combination, next_combination
from tipbench.report.result import Result
from tipbench.report.results import results

(RESULT,) = results(run([measured(info("WithoutAll", tip=tip("together"), scale="macro"), {"optimized": 0.1})]))


def with_speedup(mean: float, half: float = 0.02, **fields: Any) -> Result:
    """A result with this ln of its speedup, and an interval that reaches so far to both sides."""
    low, high = math.exp(mean - half), math.exp(mean + half)
    fields = {"verdict": "inconclusive", **fields}
    return replace(RESULT, speedup=math.exp(mean), low=low, high=high, **fields)


def decided(mean: float, verdict: str = "at most 3 %", half: float = 0.02) -> Result:
    return with_speedup(mean, half, verdict=verdict)


@pytest.mark.parametrize(
    ("alone", "limits", "chosen"),
    [
        # all that do not harm, in their order
        ({"b": decided(0.2), "a": decided(0.5), "c": decided(-0.1), "d": decided(0.1, "slower")}, {}, ("b", "a")),
        # who is not proven faster must bring more than the job differs from itself
        ({"a": decided(0.02), "b": decided(0.02, "faster"), "c": decided(0.2)}, {"noise": 0.05}, ("b", "c")),
        # who has no verdict must seem to bring more than few launches may be off
        ({"a": with_speedup(0.02), "b": decided(0.02), "c": with_speedup(0.2)}, {}, ("b", "c")),
        # of those that exclude each other the best
        (
            {"compiled": decided(0.1), "fused": decided(0.3), "a": decided(0.01)},
            {"one_of": {"compiled": "optimizer", "fused": "optimizer", "a": ""}},
            ("fused", "a"),
        ),
        # what memory does not hold is left out
        ({"a": decided(0.1), "b": decided(0.3), "c": decided(0.2)}, {"most": 2}, ("b", "c")),
    ],
)
def test_a_combination_starts_with_all_that_may_help(
    alone: dict[str, Result], limits: dict[str, Any], chosen: Combination
) -> None:
    assert first_combination(alone, **{"one_of": dict.fromkeys(alone, ""), "most": 9, **limits}) == chosen


def test_without_time_to_leave_each_out_only_those_stay_that_clearly_pay() -> None:
    alone = {"a": decided(0.06), "b": decided(0.3), "c": decided(0.02, "faster"), "d": decided(0.2)}
    assert clear(("a", "b", "c", "d"), alone) == ("b", "c", "d")
    assert clear(("a",), alone) == ("a",)


@pytest.mark.parametrize(
    ("without", "alone", "left"),
    [
        # the most harmful leaves first
        ({"a": decided(0.1, "faster"), "b": decided(0.3, "faster"), "c": decided(-0.5, "slower")}, "", "ac"),
        # who brings nothing among the others leaves
        ({"a": decided(-0.1), "b": decided(-0.01), "c": decided(0.01)}, "", "a"),
        # of those that may bring the same one leaves
        ({"a": decided(-0.01), "b": decided(0.0), "c": decided(-0.1)}, "ab", "ac"),
        # Intervals of few launches are wide, and a combination that was 1.5 times as fast as the job lost all at once.
        ({"a": decided(-0.06, half=0.1), "b": decided(-0.03, half=0.1), "c": decided(-0.05, half=0.1)}, "", "ac"),
        # who was not measured stays
        ({"a": decided(-0.1), "b": None}, "", "ab"),
    ],
)
def test_who_leaves_a_combination_next(without: Mapping[str, Result | None], alone: str, left: str) -> None:
    """without: what leaving each member out brings. alone: members that pay by themselves."""
    sides = {f"{SIDE_WITHOUT}{name}": result for name, result in without.items() if result is not None}
    sure = {name: decided(0.1, "faster") for name in alone}
    assert next_combination(tuple(without), {"optimized": with_speedup(-0.3), **sides}, sure) == tuple(left)


def test_of_a_combination_that_cannot_be_measured_the_least_leaves() -> None:
    alone = {"a": decided(0.1), "b": decided(0.02), "c": decided(0.4)}
    assert next_combination(("a", "b", "c"), {}, alone) == ("a", "c")


@pytest.mark.parametrize(("mean", "words"), [(0.3, "likely faster"), (-0.3, "likely slower"), (0.01, "inconclusive")])
def test_an_interval_beyond_a_percent_is_not_open(mean: float, words: str) -> None:
    assert with_speedup(mean).verdict_words == words
