"""Which pairs get the next launches: every rule of it, by examples and over long sequences."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tipbench.engine import allocation
from tipbench.engine.allocation import EVERY, OpenPair, next_group
from tipbench.verdict.rules import BOUND, MARGIN, RULES
from tipbench.verdict.statistics import Looks, half_width

LOOKS = RULES.looks

# No clock and no chance in what is tried: the same examples everywhere.
exactly = settings(derandomize=True, deadline=None)

WIDE = (-0.4, 0.4)
"""Two effects that differ by far too much for any look to decide."""


def around(mean: float, spread: float, launches: int) -> list[float]:
    """Effects of this mean and, for an even number of them, about this spread."""
    return [mean + spread * (-1) ** launch for launch in range(launches)]


def pair(
    name: str, launches: int = 2, cost_s: float = 1.0, effects: Sequence[float] | None = None, worth: float = 1.0
) -> OpenPair:
    found = around(0.5, 0.01, launches) if effects is None else effects
    return OpenPair(name, launches, {"optimized": found}, cost_s, worth)


def chosen(
    pairs: Sequence[OpenPair], size: int = 1, left_s: float = math.inf, last: str = "", seed: int = 0
) -> list[str]:
    return next_group(pairs, LOOKS, size, left_s, last, random.Random(seed))


def at_place(place: int, pairs: Sequence[OpenPair]) -> list[OpenPair]:
    """The pairs and one more, too costly for any budget, whose launches make `place` the next place of the run."""
    missing = (place - sum(one.launches for one in pairs)) % EVERY
    return [*pairs, OpenPair("filler", 4 + missing, {}, 1e9)]


def preferred(*pairs: OpenPair) -> str:
    """The pair whose verdict is expected first."""
    (name,) = chosen(at_place(0, pairs), left_s=1e6)
    return name


# ---- the fewest seconds to a verdict ----


def test_the_cheapest_of_equals() -> None:
    assert preferred(pair("a", cost_s=2.0), pair("b", cost_s=1.0), pair("c", cost_s=3.0)) == "b"


def test_the_pair_that_needs_the_fewest_further_launches() -> None:
    assert preferred(pair("two", 2), pair("five", 5), pair("four", 4)) == "five"


def test_a_pair_at_a_look_needs_one_more_launch_at_least() -> None:
    assert preferred(pair("at a look", 6, 3.0), pair("before it", 5, 2.0)) == "before it"


def test_seconds_count_and_not_launches() -> None:
    """The first look is at six: four launches of 1 s are sooner than one of 5 s."""
    assert preferred(pair("near", 5, 5.0), pair("far", 2, 1.0)) == "far"
    assert preferred(pair("near", 5, 3.9), pair("far", 2, 1.0)) == "near"


def test_what_is_worth_more_may_take_as_much_longer() -> None:
    assert preferred(pair("job", cost_s=2.9, worth=3.0), pair("operation")) == "job"
    assert preferred(pair("job", cost_s=3.1, worth=3.0), pair("operation")) == "operation"
    assert preferred(pair("job", 4, 2.9, [*WIDE] * 2, 3.0), pair("operation", 4, 1.0, [*WIDE] * 2)) == "job"
    assert preferred(pair("job", 4, 3.1, [*WIDE] * 2, 3.0), pair("operation", 4, 1.0, [*WIDE] * 2)) == "operation"


@pytest.mark.parametrize(
    ("mean", "why"),
    [(0.5, "faster"), (-0.5, "slower"), (0.0, "no difference"), (0.015, "at most 3 %"), (-0.015, "at most 3 %")],
)
def test_any_verdict_counts(mean: float, why: str) -> None:
    decided = pair("decided", 4, 2.0, around(mean, 0.001, 4))
    futile = pair("futile", 5, 1.0, [*WIDE, *WIDE, 0.0])
    assert preferred(futile, decided, pair("calm", 4, 9.0, around(mean, 0.001, 4))) == "decided", why


def test_midway_between_margin_and_bound_is_farthest_from_a_verdict() -> None:
    midway, edge = around((MARGIN + BOUND) / 2, 0.008, 4), around(MARGIN, 0.008, 4)
    assert preferred(pair("midway", 4, 1.0, midway), pair("edge", 4, 2.0, edge)) == "edge"


@pytest.mark.parametrize(("share", "name"), [(0.99, "clear"), (1.01, "near")])
def test_the_interval_that_is_expected_is_the_one_that_will_be_judged(share: float, name: str) -> None:
    """One launch of the near pair is expected to do only if the interval at six then lies beyond the margin."""
    spread = 0.01
    mean = MARGIN + share * half_width(spread, 6, LOOKS.alphas[0])
    near, clear = ([middle + step * spread for step in (-1, 1, -1, 1, 0)] for middle in (mean, 0.5))
    assert preferred(pair("near", 5, 1.0, near), pair("clear", 5, 1.5, clear)) == name


def test_of_several_variants_the_nearest_counts() -> None:
    sweep = OpenPair("sweep", 4, {"far": [*WIDE, *WIDE], "near": around(0.5, 0.01, 4)}, 2.0)
    assert preferred(pair("plain", 4, 2.1), sweep, pair("wide", 4, 1.0, [*WIDE, *WIDE])) == "sweep"


@pytest.mark.parametrize(("first", "name"), [(6, "four"), (10, "two")])
def test_the_looks_given_are_those_that_count(first: int, name: str) -> None:
    """To the first look at six it is 4 s against 3.8 s, to one at ten 8 s against 11.4 s."""
    pairs = at_place(0, [pair("two", 2, 1.0), pair("four", 4, 1.9)])
    assert next_group(pairs, Looks((first,), (0.05,)), 1, 1e6, "", random.Random(0)) == [name]


def test_two_launches_that_agree_by_chance_are_not_believed() -> None:
    """By its own spread of 0 the pair would be decided at six; by the suite's it needs more than its dearer like."""
    suite = [pair(f"wide {index}", 6, 100.0, [*WIDE] * 3) for index in range(5)]
    lucky = pair("lucky", 2, 1.0, [0.1, 0.1])
    steady = pair("steady", 4, 2.5, [1.0, 1.1, 1.0, 1.1])
    assert preferred(lucky, steady) == "lucky"
    assert preferred(*suite, lucky, steady) == "steady"


def test_its_own_spread_counts_more_the_more_launches_it_has() -> None:
    """Within a suite that spreads far the calm pair is believed after five launches: one more decides it."""
    suite = [pair(f"wide {index}", 6, 100.0, [*WIDE] * 3) for index in range(5)]
    assert (
        preferred(*suite, pair("early", 2, 1.0, [0.5] * 2), pair("calm", 5, 3.0, [0.5, 0.5, 0.5, 0.5, 0.5])) == "calm"
    )


def test_a_pair_that_no_look_would_decide_comes_last_but_comes() -> None:
    wide = pair("wide", 4, 0.1, [*WIDE, *WIDE])
    assert preferred(wide, pair("clear", 4, 50.0)) == "clear"
    assert preferred(wide) == "wide"


def test_of_such_pairs_the_one_with_most_to_gain() -> None:
    assert preferred(pair("new", 3, 1.0, [*WIDE, 0.0]), pair("old", 9, 1.0, [*WIDE] * 4)) == "new"
    assert preferred(pair("dear", 4, 2.0, [*WIDE] * 2), pair("cheap", 4, 1.0, [*WIDE] * 2)) == "cheap"


def test_launches_that_do_not_count_are_no_failure() -> None:
    """Quarantined launches leave a variant without effects."""
    assert preferred(pair("none count", 3, 1.0, []), pair("one counts", 3, 2.0, [0.5])) == "one counts"
    assert preferred(OpenPair("no variant", 3, {}, 1.0)) == "no variant"


@pytest.mark.parametrize("cost_s", [0.0, math.inf])
def test_any_cost_is_no_failure(cost_s: float) -> None:
    pairs = [pair("a", 2, cost_s), pair("b", 3, cost_s, []), pair("c", 0, cost_s)]
    assert set(chosen(pairs, size=3)) == {"a", "b", "c"}


# ---- every fourth place ----

CLEAR = [pair(f"clear {index}", 6, 1.0, around(0.5, 0.01, 6)) for index in range(12)]
NEEDY = [pair(f"needy {index}", 2, 1.0, WIDE) for index in range(12)]


@pytest.mark.parametrize("size", [4, 8, 12])
def test_one_launch_of_every_four_goes_to_a_pair_that_would_starve(size: int) -> None:
    names = chosen([*CLEAR, *NEEDY], size=size)
    assert sum(name.startswith("needy") for name in names) == size / 4


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10])
def test_so_it_is_over_groups_of_any_size(size: int) -> None:
    """The place in the run is known by the launches of all open pairs."""
    groups = [chosen(at_place(size * index, [*CLEAR, *NEEDY]), size, 1e6) for index in range(12)]
    assert sum(name.startswith("needy") for group in groups for name in group) == 12 * size / 4


def test_a_launch_takes_more_off_the_younger_and_the_cheaper() -> None:
    def gains_most(*pairs: OpenPair) -> str:
        (name,) = chosen(at_place(EVERY - 1, pairs), left_s=1e6)
        return name

    assert gains_most(pair("young", 3, 1.0, [*WIDE, 0.0]), pair("old", 5)) == "young"
    assert gains_most(pair("dear", 3, 9.0), pair("cheap", 3, 1.0, [*WIDE, 0.0])) == "cheap"
    assert gains_most(pair("young", 2, 3.0), pair("cheap", 10, 1.0)) == "young"


# ---- the order, and the budget ----


def test_the_order_is_drawn_and_begins_with_any_but_the_last() -> None:
    pairs = [pair(name) for name in "abcd"]
    orders = Counter(tuple(chosen(pairs, size=4, last="a", seed=seed)) for seed in range(1800))
    assert len(orders) == 18
    assert all(order[0] != "a" for order in orders)
    assert min(orders.values()) > 60


def test_the_same_draw_gives_the_same_group() -> None:
    pairs = [pair(f"{index}", 2, index + 1) for index in range(20)]
    assert chosen(pairs, size=10, seed=3) == chosen(pairs, size=10, seed=3)


def test_a_group_of_one_leaves_the_last_out() -> None:
    assert chosen([pair("a"), pair("b", cost_s=50.0)], last="a") == ["b"]
    assert chosen([pair("a", 0), pair("b", 6)], last="a") == ["b"]


def test_the_only_pair_is_launched_again() -> None:
    assert chosen([pair("a")], last="a") == ["a"]
    assert chosen([pair("a")], size=4, last="a") == ["a"]


def test_it_is_launched_again_where_no_other_fits() -> None:
    assert chosen([pair("a"), pair("b", cost_s=50.0)], left_s=10.0, last="a") == ["a"]


def test_another_comes_first_where_both_do_not_fit() -> None:
    assert chosen([pair("a", 5, 5.0), pair("b", 2, 3.0)], size=2, left_s=6.0, last="a") == ["b"]


def test_what_does_not_fit_is_skipped() -> None:
    pairs = [pair("near", 5, 3.0), pair("far", 2, 1.0), pair("farther", 1, 1.0)]
    assert set(chosen(pairs, size=3, left_s=2.0)) == {"far", "farther"}
    assert set(chosen(pairs, size=3, left_s=4.0)) == {"near", "far"}
    assert set(chosen(pairs, size=3, left_s=5.0)) == {"near", "far", "farther"}


@pytest.mark.parametrize("left_s", [0.0, -1.0, 0.9])
def test_nothing_fits(left_s: float) -> None:
    assert chosen([pair("a"), pair("b")], size=2, left_s=left_s) == []


def test_nothing_is_open_or_wanted() -> None:
    assert chosen([], size=4, last="a") == []
    assert chosen([pair("a")], size=0) == []


# ---- over whatever sequence ----

some_costs = st.integers(1, 40).map(lambda quarters: quarters / 4)
some_effects = st.lists(st.floats(-0.2, 0.2), max_size=20)
some_pairs = st.lists(
    st.tuples(st.integers(0, 20), st.dictionaries(st.sampled_from(["x", "y"]), some_effects), some_costs), max_size=12
).map(lambda found: [OpenPair(str(index), *rest) for index, rest in enumerate(found)])


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


def measured(
    costs: Sequence[float], size: int, budget_s: float, seed: int, truths: Mapping[str, float] | None = None
) -> list[str]:
    """The pairs in the order of their launches, each once before any is preferred, as a run does it; none of them is
    ever decided before its last look."""
    draw = random.Random(seed)
    effects: dict[str, list[float]] = {str(index): [] for index in range(len(costs))}
    spent_s, order = 0.0, [""]
    while True:
        pairs = [
            OpenPair(name, len(found), {"optimized": found}, costs[int(name)])
            for name, found in effects.items()
            if len(found) < LOOKS.launches[-1]
        ]
        new = [pair for pair in pairs if not pair.launches and spent_s + pair.cost_s <= budget_s]
        group = next_group(new or pairs, LOOKS, size, budget_s - spent_s, order[-1], draw)
        if not group:
            return order[1:]
        for name in group:
            effects[name].append((truths or {}).get(name, 0.0) + draw.gauss(0, 0.05))
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


@pytest.mark.parametrize("size", [1, 2, 4, 10])
def test_nobody_starves(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty pairs that are always about to be decided, and ten that the rule of seconds would never choose."""
    about_to_be = {str(index): 0.8 for index in range(30)}

    def least() -> int:
        launches = Counter(measured([1.0] * 40, size, 400.0, seed=1, truths=about_to_be))
        return min(launches[str(index)] for index in range(30, 40))

    assert least() >= 3
    monkeypatch.setattr(allocation, "EVERY", 10**9)
    assert least() == 1
