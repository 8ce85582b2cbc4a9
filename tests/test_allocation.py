"""Which pairs get the next launches: every rule of it, by examples and over long sequences."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tipbench.engine.allocation import OpenPair, next_group

# No clock and no chance in what is tried: the same examples everywhere.
exactly = settings(derandomize=True, deadline=None)

LAST = 18
"""Launches after which a pair is open no more."""


def pair(name: str, left: float = 2, cost_s: float = 1.0, worth: float = 1.0, launches: int = 2) -> OpenPair:
    return OpenPair(name, launches, left, cost_s, worth)


def chosen(
    pairs: Sequence[OpenPair], size: int = 1, left_s: float = math.inf, last: str = "", seed: int = 0
) -> list[str]:
    return next_group(pairs, size, left_s, last, random.Random(seed))


def preferred(*pairs: OpenPair) -> str:
    """The pair whose verdict is expected first."""
    (name,) = chosen(pairs)
    return name


# ---- the fewest seconds to a verdict ----


def test_seconds_count_and_what_is_worth_more_may_take_as_much_longer() -> None:
    assert preferred(pair("a", cost_s=2.0), pair("b", cost_s=1.0), pair("c", cost_s=3.0)) == "b"
    assert preferred(pair("two", 2), pair("five", 5), pair("one", 1)) == "one"
    assert preferred(pair("near", 1, 5.0), pair("far", 4, 1.0)) == "far"
    assert preferred(pair("near", 1, 3.9), pair("far", 4, 1.0)) == "near"
    for left in (2, math.inf):
        assert preferred(pair("job", left, 2.9, 3.0), pair("operation", left)) == "job"
        assert preferred(pair("job", left, 3.1, 3.0), pair("operation", left)) == "operation"


def test_pairs_that_nothing_is_expected_to_decide_come_last_but_come_those_with_most_to_gain_first() -> None:
    wide = pair("wide", math.inf, 0.1)
    assert preferred(wide, pair("clear", 4, 50.0)) == "clear"
    assert preferred(wide) == "wide"
    assert preferred(pair("new", math.inf, launches=3), pair("old", math.inf, launches=8)) == "new"
    assert preferred(pair("dear", math.inf, 2.0), pair("cheap", math.inf, 1.0)) == "cheap"


# ---- the order, and the budget ----


def test_the_order_is_drawn_and_begins_with_any_but_the_last() -> None:
    pairs = [pair(name) for name in "abcd"]
    orders = Counter(tuple(chosen(pairs, size=4, last="a", seed=seed)) for seed in range(1800))
    assert len(orders) == 18
    assert all(order[0] != "a" for order in orders)
    assert min(orders.values()) > 60


def test_what_does_not_fit_is_skipped() -> None:
    pairs = [pair("near", 1, 3.0), pair("far", 4, 1.0), pair("farther", 5, 1.0)]
    assert set(chosen(pairs, size=3, left_s=2.0)) == {"far", "farther"}
    assert set(chosen(pairs, size=3, left_s=4.0)) == {"near", "far"}
    assert set(chosen(pairs, size=3, left_s=5.0)) == {"near", "far", "farther"}


def test_nothing_is_open_or_wanted() -> None:
    assert chosen([], size=4, last="a") == []
    assert chosen([pair("a")], size=0) == []


# ---- over whatever sequence ----

some_costs = st.integers(1, 40).map(lambda quarters: quarters / 4)
some_left = st.integers(1, 18).map(float) | st.just(math.inf)
some_pairs = st.lists(st.tuples(st.integers(0, 20), some_left, some_costs), max_size=12).map(
    lambda found: [OpenPair(str(index), *rest) for index, rest in enumerate(found)]
)


@exactly
@given(some_pairs, st.integers(1, 8), st.integers(0, 200).map(float) | st.just(math.inf), st.integers(0, 12).map(str))
def test_any_group(pairs: list[OpenPair], size: int, left_s: float, last: str) -> None:
    names = chosen(pairs, size, left_s, last)
    costs = {one.name: one.cost_s for one in pairs}
    fitting = [name for name in costs if costs[name] <= left_s]
    assert len(names) == len(set(names)) <= size
    assert sum(costs[name] for name in names) <= left_s
    assert bool(names) == bool(fitting)
    assert names[:1] != [last] or fitting == [last]


def measured(costs: Sequence[float], size: int, budget_s: float, seed: int) -> list[str]:
    """The pairs in the order of their launches; none of them is ever decided."""
    draw = random.Random(seed)
    launches = {str(index): 0 for index in range(len(costs))}
    spent_s, order = 0.0, [""]
    while True:
        pairs = [
            OpenPair(name, count, draw.choice([1, 3, math.inf]), costs[int(name)])
            for name, count in launches.items()
            if count < LAST
        ]
        group = next_group(pairs, size, budget_s - spent_s, order[-1], draw)
        if not group:
            return order[1:]
        for name in group:
            launches[name] += 1
            spent_s += costs[int(name)]
            order.append(name)


@exactly
@given(st.lists(some_costs, min_size=1, max_size=12), st.integers(1, 8), st.integers(0, 9))
@example([0.25, 10.0], 1, 0)
def test_without_a_budget_every_pair_gets_all_its_launches(costs: list[float], size: int, seed: int) -> None:
    assert Counter(measured(costs, size, math.inf, seed)) == {str(index): 18 for index in range(len(costs))}


@exactly
@given(st.lists(some_costs, min_size=2, max_size=12), st.integers(1, 8), st.integers(0, 9))
def test_never_twice_in_a_row_while_another_is_open(costs: list[float], size: int, seed: int) -> None:
    order = measured(costs, size, math.inf, seed)
    so_far: Counter[str] = Counter()
    for before, now in pairwise(order):
        so_far[before] += 1
        others = [str(index) for index in range(len(costs)) if str(index) != now and so_far[str(index)] < 18]
        assert before != now or not others


@exactly
@given(
    st.lists(some_costs, min_size=1, max_size=12), st.integers(1, 8), st.integers(0, 9), st.integers(0, 400).map(float)
)
def test_no_budget_is_overrun(costs: list[float], size: int, seed: int, budget_s: float) -> None:
    order = measured(costs, size, budget_s, seed)
    left_s = budget_s - sum(costs[int(name)] for name in order)
    launches = Counter(order)
    assert left_s >= 0
    assert all(launches[str(index)] == 18 for index, cost_s in enumerate(costs) if cost_s <= left_s)
