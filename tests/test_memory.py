"""Planted memory is found: exactly where tensors are counted, about where the kernel counts pages."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tipbench.worker import memory
from tipbench.worker.memory import STEPS, least_tensor_peaks, process_peaks, tensor_peaks

MIB = 1 << 20
CPU = torch.device("cpu")


def planted() -> None:
    torch.empty(64 * MIB, dtype=torch.uint8)


def test_the_peak_of_live_tensors_is_exact() -> None:
    def one_after_another() -> None:
        for _ in range(5):
            planted()

    before = torch.empty(8 * MIB, dtype=torch.uint8)
    assert set(tensor_peaks(lambda: lambda: None).values()) == {0}, "tensors of before do not count"
    assert set(tensor_peaks(lambda: planted).values()) == {64 * MIB}
    assert set(tensor_peaks(lambda: one_after_another).values()) == {64 * MIB}
    assert before.numel()


def test_tensors_that_live_at_once_are_added() -> None:
    def build() -> Callable[[], None]:
        kept = torch.empty(3 * MIB, dtype=torch.uint8)

        def step() -> None:
            both = torch.empty(MIB, dtype=torch.uint8), torch.empty(MIB, dtype=torch.uint8)
            assert kept.numel()
            del both

        return step

    assert tensor_peaks(build) == {"tensor_peak": 5 * MIB, "steady_peak": 5 * MIB}


def test_what_another_thread_releases_does_not_count_where_it_does_so_at_times() -> None:
    by_another_thread = [True, False, True, False, True]

    def build() -> Callable[[], None]:
        held = [torch.empty(3 * MIB, dtype=torch.uint8)]
        if by_another_thread.pop(0):
            thread = threading.Thread(target=held.clear)
            thread.start()
            thread.join()
        held.clear()
        return planted

    assert tensor_peaks(build)["steady_peak"] == 67 * MIB, "the profiler has not seen it"
    assert tensor_peaks(build)["steady_peak"] == 64 * MIB
    assert least_tensor_peaks(build, 3) == {"tensor_peak": 64 * MIB, "steady_peak": 64 * MIB}


def test_what_only_the_build_or_a_first_step_needs_is_not_in_the_steady_state() -> None:
    def build() -> Callable[[], None]:
        planted()
        steps = iter((8, 1, 2))
        kept = torch.empty(3 * MIB, dtype=torch.uint8)

        def step() -> None:
            torch.empty(next(steps) * MIB, dtype=torch.uint8)
            assert kept.numel()

        return step

    assert tensor_peaks(build) == {"tensor_peak": 64 * MIB, "steady_peak": 5 * MIB}


def test_what_the_third_step_still_adds_is_seen() -> None:
    kept: list[torch.Tensor] = []
    grown = tensor_peaks(lambda: lambda: kept.append(torch.empty(MIB, dtype=torch.uint8)))
    assert set(grown.values()) == {STEPS * MIB}
    assert len(kept) == STEPS


def test_a_step_that_profiles_itself_has_no_tensor_peak_and_other_errors_are_not_hidden() -> None:
    def profiles() -> None:
        with profile(activities=[ProfilerActivity.CPU]):
            torch.ones(1)

    def raises() -> None:
        raise RuntimeError("mine")

    assert tensor_peaks(lambda: profiles) == {}
    with pytest.raises(RuntimeError, match="mine"):
        tensor_peaks(lambda: raises)


def touched(size: int) -> mmap.mmap:
    # Mapped afresh: a tensor may get pages that earlier tests have left in the heap, and leave
    # them there.
    pages = mmap.mmap(-1, size)
    for first in range(0, size, mmap.PAGESIZE):
        pages[first] = 1
    return pages


def test_the_resident_peak_holds_what_a_step_touched_and_let_go() -> None:
    idle = process_peaks(lambda: None, CPU)["resident_peak"]
    busy = process_peaks(lambda: touched(64 * MIB).close(), CPU)["resident_peak"]
    # Other tests' pages may be let go meanwhile, so this is no exact count.
    assert 48 * MIB < busy - idle < 96 * MIB


def test_the_resident_peak_forgets_what_came_before() -> None:
    with touched(256 * MIB):
        high = process_peaks(lambda: None, CPU)["resident_peak"]
    assert high - process_peaks(lambda: None, CPU)["resident_peak"] > 200 * MIB


def test_the_trees_share_is_of_the_order_of_the_process() -> None:
    found = process_peaks(lambda: None, CPU)
    assert found.keys() == {"resident_peak", "tree"}
    assert 0 < found["tree"] < 2 * found["resident_peak"]


def test_a_platform_that_withholds_it_leaves_the_key_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_reset_resident_peak", lambda: False)
    monkeypatch.setattr(memory, "_tree_bytes", lambda: None)
    steps: list[Path] = []
    assert process_peaks(lambda: steps.append(Path()), CPU) == {}
    assert len(steps) == STEPS


def test_a_profiler_that_already_watches_is_left_alone() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as watching:
        assert tensor_peaks(lambda: lambda: torch.ones(10)) == {}
        torch.ones(10)
    assert any(event.key == "aten::ones" for event in watching.key_averages())
