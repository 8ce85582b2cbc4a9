"""The planted pairs do the same work in different amounts. What it takes is for the engine to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tipbench.calibrate import planted
from tipbench.suite.files import pair_classes
from tipbench.tip.pair import Pair, Step
from tipbench.worker.memory import tensor_peak
from tipbench.worker.outputs import Outputs, compare, snapshot

CALIBRATION = pair_classes(planted)

MIB = 1 << 20


@pytest.mark.parametrize("pair_class", CALIBRATION)
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


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("Nothing", (200, 200)),
        *((f"InBaseline{extra}", (200 + extra, 200)) for extra in (1, 2, 3, 4, 6, 10, 20)),
        *((f"InOptimized{extra}", (200, 200 + extra)) for extra in (1, 2, 3, 4, 6, 10, 20)),
    ],
)
def test_the_calibrations_pairs_compute_exactly_so_many_sines(name: str, sides: tuple[int, int]) -> None:
    pair = getattr(planted, name)(torch.device("cpu"))
    counts = pair.mechanism(pair.baseline()), pair.mechanism(pair.optimized())
    assert counts == sides
    assert pair.engaged(*counts)


@pytest.mark.parametrize(("drawn", "sides"), [(-10, (210, 200)), (0, (200, 200)), (10, (200, 210))])
def test_what_is_drawn_falls_on_one_side_or_on_none(
    monkeypatch: pytest.MonkeyPatch, drawn: int, sides: tuple[int, int]
) -> None:
    monkeypatch.setattr(planted, "DRAWN", drawn)
    pair = planted.AtRandom(torch.device("cpu"))
    counts = pair.mechanism(pair.baseline()), pair.mechanism(pair.optimized())
    assert counts == sides
    assert pair.engaged(*counts)


@pytest.mark.parametrize("pair_class", [planted.Held, planted.Transient])
def test_the_memory_held_is_exactly_what_was_planted(pair_class: type[Pair]) -> None:
    pair = pair_class(torch.device("cpu"), for_test=True)
    before, after = tensor_peak(pair.baseline), tensor_peak(pair.optimized)
    assert before is not None
    assert after is not None
    assert after - before == 8 * MIB
    assert pair.engaged(pair.mechanism(pair.baseline()), pair.mechanism(pair.optimized()))


def test_a_leak_keeps_what_each_step_allocates_and_the_baseline_nothing() -> None:
    pair = planted.Leak(torch.device("cpu"), for_test=True)
    counts = pair.mechanism(pair.baseline()), pair.mechanism(pair.optimized())
    assert counts == (1, 3)  # MiB, over three steps
    assert pair.engaged(*counts)


def test_a_leak_has_an_end() -> None:
    pair = planted.Leak(torch.device("cpu"), for_test=True)
    pair.size["most"] = 1
    assert pair.mechanism(pair.optimized()) == 2  # one kept, and the next made before it goes
