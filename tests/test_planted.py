"""The planted pairs do the same work in different amounts. What it takes is for `tipbench run` to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from harness.equal import Outputs, compare, snapshot
from harness.pair import Pair, Step
from tests.pairs.planted import PlantedInBaseline, PlantedInOptimized


@pytest.mark.parametrize("pair_class", [PlantedInOptimized, PlantedInBaseline])
def test_both_sides_compute_the_same(pair_class: type[Pair]) -> None:
    pair = pair_class(torch.device("cpu"), tiny=True)

    def outputs(build: Callable[[], Step]) -> list[Outputs]:
        kept = []
        for seed in range(3):
            torch.manual_seed(seed)
            kept.append(snapshot(build()()))
        return kept

    found = compare(pair.equal, pair.tolerance, outputs(pair.baseline), outputs(pair.optimized), [])
    assert found["worst"] == 0.0


def test_exactly_ten_percent_more_is_computed_on_the_planted_side() -> None:
    for pair, sides in (
        (PlantedInOptimized(torch.device("cpu")), (300, 330)),
        (PlantedInBaseline(torch.device("cpu")), (330, 300)),
    ):
        counts = pair.mechanism(pair.baseline()), pair.mechanism(pair.optimized())
        assert counts == sides
        assert pair.engaged(*counts)
