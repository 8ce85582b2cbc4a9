"""Which tips are followed together, decided from made-up effects."""

from dataclasses import replace

from tipbench.advise.together import Candidate, first_stack, left_out, that_pay, worst
from tipbench.report.effect import Effect

EFFECT = Effect(
    tip="together",
    title="",
    claim="less time",
    pair="Stack",
    variant="",
    device="cpu",
    scale="macro",
    sizes="{}",
    code="",
    verdict="inconclusive",
    reason="",
    remedy="",
    launches=6,
)


def candidate(
    name: str, mean: float, one_of: str = "", slower: bool = False, changes_numbers: bool = False
) -> Candidate:
    return Candidate(name, one_of, mean, slower, changes_numbers)


def test_a_stack_starts_with_all_that_do_not_harm_in_their_order() -> None:
    found = [candidate("b", 0.2), candidate("a", 0.5), candidate("c", -0.1), candidate("d", 0.1, slower=True)]
    assert first_stack(found, numerics=False, most=9) == ("b", "a")


def test_of_those_that_exclude_each_other_the_best_is_in() -> None:
    found = [candidate("compiled", 0.1, "optimizer"), candidate("fused", 0.3, "optimizer"), candidate("a", 0.01)]
    assert first_stack(found, numerics=False, most=9) == ("fused", "a")


def test_what_memory_does_not_hold_is_left_out() -> None:
    found = [candidate("a", 0.1), candidate("b", 0.3), candidate("c", 0.2)]
    assert first_stack(found, numerics=False, most=2) == ("b", "c")


def test_what_changes_numbers_is_in_only_where_that_is_allowed() -> None:
    found = [candidate("amp", 0.5, changes_numbers=True), candidate("a", 0.1)]
    assert first_stack(found, numerics=False, most=9) == ("a",)
    assert first_stack(found, numerics=True, most=9) == ("amp", "a")


def test_the_most_harmful_member_leaves_first() -> None:
    without = {
        "a": replace(EFFECT, verdict="faster", mean=0.1),
        "b": replace(EFFECT, verdict="faster", mean=0.3),
        "c": replace(EFFECT, verdict="slower", mean=-0.5),
    }
    assert worst(("a", "b", "c"), without) == "b"
    assert worst(left_out(left_out(("a", "b", "c"), "b"), "a"), without) == ""


def test_who_brings_nothing_among_the_others_is_taken_out() -> None:
    without = {"a": replace(EFFECT, verdict="slower", mean=-0.1), "b": replace(EFFECT, mean=-0.01)}
    assert that_pay(("a", "b", "c"), without) == ("a",)


def test_who_seems_to_bring_something_stays_until_more_is_known() -> None:
    without = {"a": replace(EFFECT, so_far=(0.7, None, None)), "b": replace(EFFECT, so_far=(1.02, None, None))}
    assert that_pay(("a", "b"), without) == ("a",)
