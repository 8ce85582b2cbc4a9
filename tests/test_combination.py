"""Which tips are followed together, decided from made-up effects."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.made_up import info, measured, run, tip
from tipbench.advise.combination import WITHOUT, Candidate, Combination, clear, first_combination, next_combination
from tipbench.report.result import Result
from tipbench.report.results import results

(RESULT,) = results(run([measured(info("WithoutAll", tip=tip("together"), scale="macro"), {"optimized": 0.1})]))


def with_speedup(mean: float, half: float = 0.02, **fields: Any) -> Result:
    """A result with this ln of its speedup, and an interval that reaches so far to both sides."""
    low, high = math.exp(mean - half), math.exp(mean + half)
    fields = {"verdict": "inconclusive", "p": 0.5, "is_provisional": False, **fields}
    return replace(RESULT, speedup=math.exp(mean), low=low, high=high, **fields)


def candidate(name: str, mean: float, one_of: str = "", verdict: str = "", allowed: bool = True) -> Candidate:
    return Candidate(name, one_of, mean, verdict, allowed)


def test_a_stack_starts_with_all_that_do_not_harm_in_their_order() -> None:
    found = [candidate("b", 0.2), candidate("a", 0.5), candidate("c", -0.1), candidate("d", 0.1, verdict="slower")]
    assert first_combination(found, most=9) == ("b", "a")


def test_who_is_not_known_to_be_faster_must_bring_more_than_the_job_beside_itself() -> None:
    found = [candidate("a", 0.02), candidate("b", 0.02, verdict="faster"), candidate("c", 0.2)]
    assert first_combination(found, most=9, noise=0.05) == ("b", "c")


def test_without_time_to_leave_each_out_only_those_stay_that_clearly_pay() -> None:
    found = [candidate("a", 0.06), candidate("b", 0.3), candidate("c", 0.02, verdict="faster"), candidate("d", 0.2)]
    assert clear(("a", "b", "c", "d"), found) == ("b", "c", "d")
    assert clear(("a",), found) == ("a",)


def test_of_those_that_exclude_each_other_the_best_is_in() -> None:
    found = [candidate("compiled", 0.1, "optimizer"), candidate("fused", 0.3, "optimizer"), candidate("a", 0.01)]
    assert first_combination(found, most=9) == ("fused", "a")


def test_what_memory_does_not_hold_is_left_out() -> None:
    found = [candidate("a", 0.1), candidate("b", 0.3), candidate("c", 0.2)]
    assert first_combination(found, most=2) == ("b", "c")


def test_what_may_not_change_results_is_left_out() -> None:
    assert first_combination([candidate("amp", 0.5, allowed=False), candidate("a", 0.1)], most=9) == ("a",)


def without(combination: Combination, alone: str = "", *, found: Mapping[str, Result]) -> Combination:
    """The next combination, where leaving each member out was found to bring this. alone: those known to pay by
    themselves."""
    beside = {"optimized": with_speedup(-0.3), **{f"{WITHOUT}{name}": one for name, one in found.items()}}
    return next_combination(combination, beside, [candidate(name, 0.1, verdict="faster") for name in alone.split()])


def known(mean: float, verdict: str = "inconclusive", half: float = 0.02) -> Result:
    return with_speedup(mean, half, verdict=verdict)


def provisional(speedup: float) -> Result:
    return replace(RESULT, speedup=speedup, low=None, high=None, is_provisional=True)


def test_the_most_harmful_member_leaves_first() -> None:
    harmful = {"a": known(0.1, "faster"), "b": known(0.3, "faster")}
    assert without(("a", "b", "c"), found={**harmful, "c": known(-0.5, "slower")}) == ("a", "c")


def test_who_brings_nothing_among_the_others_is_taken_out() -> None:
    assert without(("a", "b", "c"), found={"a": known(-0.1), "b": known(-0.01), "c": known(0.01)}) == ("a",)


def test_of_those_that_may_bring_the_same_one_leaves() -> None:
    assert without(("a", "b", "c"), alone="a b", found={"a": known(-0.01), "b": known(0.0), "c": known(-0.1)}) == (
        "a",
        "c",
    )


def test_where_all_may_bring_nothing_one_leaves() -> None:
    """Intervals of few launches are wide, and a combination that was 1.5 times as fast as the job lost all at once."""
    found = {name: known(mean, half=0.1) for name, mean in {"a": -0.06, "b": -0.03, "c": -0.05}.items()}
    assert without(("a", "b", "c"), found=found) == ("a", "c")


def test_who_seems_to_bring_something_stays_until_more_is_known() -> None:
    assert without(("a", "b"), found={"a": provisional(0.7), "b": provisional(1.02)}) == ("a",)


def test_of_two_that_may_do_the_same_one_leaves_before_more_is_known() -> None:
    found = {"a": provisional(0.45), "b": provisional(0.986), "c": provisional(0.985)}
    assert without(("a", "b", "c"), alone="a b c", found=found) == ("a", "c")


def test_who_was_not_measured_stays() -> None:
    assert without(("a", "b"), found={"a": known(-0.1)}) == ("a", "b")


def test_of_a_stack_that_cannot_be_measured_the_least_leaves() -> None:
    assert next_combination(("a", "b", "c"), {}, [candidate("a", 0.1), candidate("b", 0.02), candidate("c", 0.4)]) == (
        "a",
        "c",
    )
