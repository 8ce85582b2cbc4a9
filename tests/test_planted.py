"""The pairs of known truth do the same work in different amounts. What it takes is for the engine to find."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from tests.planted import memory, planted
from tipbench.suite.files import pair_classes
from tipbench.tip.pair import Pair, Step
from tipbench.worker.memory import tensor_peaks
from tipbench.worker.outputs import Outputs, compare, snapshot

SINES = [pair for pair in pair_classes(planted) if pair is not planted.AtRandom]


def counted(pair: Pair) -> tuple[int, int]:
    """The mechanism's counts of both sides, which must be engaged."""
    counts = pair.mechanism.count(pair.baseline()), pair.mechanism.count(pair.optimized())
    assert pair.mechanism.shows(*counts)
    return counts


@pytest.mark.parametrize("pair_class", [*pair_classes(planted), *pair_classes(memory)])
def test_both_sides_compute_the_same(pair_class: type[Pair]) -> None:
    pair = pair_class(torch.device("cpu"), for_test=True)

    def outputs(build: Callable[[], Step]) -> list[Outputs]:
        kept = []
        for seed in range(3):
            torch.manual_seed(seed)
            kept.append(snapshot(build()()))
        return kept

    found = compare(pair.equal, pair.tolerance, outputs(pair.baseline), outputs(pair.optimized), [])
    assert found["worst"] == 0.0


@pytest.mark.parametrize("pair_class", SINES)
def test_the_truth_is_the_ratio_of_the_sines_that_the_sides_compute(pair_class: type[Pair]) -> None:
    baseline, optimized = counted(pair_class(torch.device("cpu")))
    assert pair_class.truth == {"optimized": baseline / optimized}


def test_every_amount_is_planted_as_often_on_one_side_as_on_the_other() -> None:
    truths = [math.log(pair.truth["optimized"]) for pair in SINES]
    assert sorted(round(100 * math.expm1(abs(one)), 6) for one in truths) == [0, 0.5, 1, 1.5, 2, 3, 5, 5, 10]
    assert sum(one > 0 for one in truths) == sum(one < 0 for one in truths) == 4


@pytest.mark.parametrize(("drawn", "sides"), [(-10, (210, 200)), (0, (200, 200)), (10, (200, 210))])
def test_what_is_drawn_is_on_one_or_none(monkeypatch: pytest.MonkeyPatch, drawn: int, sides: tuple[int, int]) -> None:
    monkeypatch.setattr(planted, "DRAWN", drawn)
    assert counted(planted.AtRandom(torch.device("cpu"))) == sides
    assert planted.AtRandom.truth == {}


@pytest.mark.parametrize("pair_class", pair_classes(memory))
def test_the_memory_taken_is_exactly_what_was_planted(pair_class: type[Pair]) -> None:
    pair = pair_class(torch.device("cpu"), for_test=True)
    before, after = (tensor_peaks(side)["tensor_peak"] for side in (pair.baseline, pair.optimized))
    assert before is not None
    assert after is not None
    assert after - before == pair.size["live_mib"] << 20
    counted(pair)


def test_a_leak_has_an_end() -> None:
    pair = memory.Leak(torch.device("cpu"), for_test=True)
    pair.size["most"] = 1
    assert pair.mechanism.count(pair.optimized()) == 2  # one kept, and the next made before it goes
