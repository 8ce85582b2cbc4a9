"""What is read off a block. No duration is asserted: where seconds matter, the clock is made up."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.made_up import files
from tipbench.worker import clock
from tipbench.worker.clock import EMPTYING_BYTES, Card, emptying_l2, seconds_to_finish, time_block, warm_up
from tipbench.worker.disturbance import counters

CPU = torch.device("cpu")

Ticking = Callable[[Iterator[float]], Callable[[], None]]


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    """A clock that moves during a step alone; `ticking(durations)` is a step that takes these seconds in turn."""
    now = 0.0
    monkeypatch.setattr(clock, "perf_counter", lambda: now)

    def stepping(durations: Iterator[float]) -> Callable[[], None]:
        def step() -> None:
            nonlocal now
            now += next(durations)

        return step

    return stepping


# ---- what disturbs a block ----


def test_counters_are_read_from_proc_and_the_cgroup(tmp_path: Path) -> None:
    texts = {
        "proc/stat": "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n",
        "proc/pressure/cpu": "some avg10=1.00 avg60=0.50 avg300=0.10 total=123456\nfull avg10=0.00 total=7\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 1\nnr_throttled 2\nthrottled_usec 3000\n",
        "proc/self/cgroup": "0::/\n",
    }
    found = counters(files(tmp_path, texts))
    assert found == {"steal_ticks": 80, "throttled_us": 3000, "pressure_us": 123456}


@pytest.mark.parametrize("text", [None, "", "cpu\n", "cpu  1 2 3\n", "cpu  a b c d e f g h i\n", "intr 1 2 3\n"])
def test_what_the_platform_withholds_is_minus_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    withheld = {"steal_ticks": -1, "throttled_us": -1, "pressure_us": -1}
    found = counters(files(tmp_path, {} if text is None else {"proc/stat": text}))
    assert {**found, **withheld} == found
    monkeypatch.setattr(clock, "counters", lambda: found)
    block = time_block(lambda: None, 1, CPU, lambda: None)
    assert {**block, **withheld} == block


# ---- what a GPU's driver reports; no GPU is needed, as the driver is made up ----


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    """Card "ab-12" of a driver that refuses to tell power."""
    import pynvml

    def refuse(_: object) -> int:
        raise pynvml.NVMLError_NoPermission

    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: {"GPU-ab-12": 7}[uuid],
        "nvmlDeviceGetClockInfo": lambda _, kind: {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[kind],
        "nvmlDeviceGetTemperature": lambda _, sensor: {pynvml.NVML_TEMPERATURE_GPU: 41}[sensor],
        "nvmlDeviceGetPowerUsage": refuse,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: pynvml.nvmlClocksEventReasonSwPowerCap,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(uuid="ab-12"))
    return Card(CPU)


def test_a_card_is_read_and_what_its_driver_refuses_is_never_a_zero(card: Card) -> None:
    known = {"sm_mhz": 1980, "memory_mhz": 3201, "celsius": 41, "milliwatts": -1, "clock_events": 4}
    assert card.read() == known


def test_a_driver_that_does_not_know_the_card_reports_nothing(
    card: Card, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pynvml

    def unknown_to_it(uuid: str) -> int:
        raise pynvml.NVMLError_NotFound

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", unknown_to_it)
    unknown = Card(CPU)
    assert set(unknown.read().values()) == {-1}
    assert unknown.read().keys() == card.read().keys()
    assert capsys.readouterr() == ("", "")


# ---- a block ----


def test_a_block_is_an_untimed_step_but_after_one_of_its_kind_then_begin_then_the_timed_steps() -> None:
    happened: list[str] = []
    step, begin, before = (partial(happened.append, name) for name in ("step", "begin", "before"))
    block = time_block(step, 3, CPU, begin)
    assert happened == ["step", "begin", "step", "step", "step"]
    assert block.keys() == {"seconds", "steal_ticks", "throttled_us", "pressure_us"}
    happened.clear()
    time_block(step, 2, CPU, begin, before, again=True)
    assert happened == ["begin", "before", "step", "before", "step"]


def test_only_the_steps_after_begin_are_timed_without_what_is_done_before_each(ticking: Ticking) -> None:
    step = ticking(iter([1000.0, 0.5, 0.25, 1.0]))
    assert time_block(step, 3, CPU, lambda: None)["seconds"] == 1.75
    step, before = ticking(repeat(0.25)), ticking(repeat(1000.0))
    assert time_block(step, 4, CPU, lambda: None, before)["seconds"] == 1.0
    assert warm_up(step, CPU, before) == {"step_s": 0.25, "excess_s": 0.0}


def test_seconds_last_until_the_device_has_done_its_work(ticking: Ticking, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a GPU only hand over its work: without waiting they would look as short as that."""
    monkeypatch.setattr(clock, "_synchronize", lambda device: ticking(iter([2.0]))())
    step = ticking(repeat(0.25))
    assert seconds_to_finish(step, 4, torch.device("cuda")) == 3.0
    assert seconds_to_finish(step, 4, torch.device("cuda"), before=lambda: None) == 4 * 2.25
    assert seconds_to_finish(step, 4, CPU) == 1.0


# ---- on a GPU, with made-up events ----


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is given to a made-up GPU, in order; work of n takes n milliseconds."""
    done: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing
            self.after = -1

        def record(self) -> None:
            self.after = len(done)
            done.append("event")

        def elapsed_time(self, end: Event) -> float:
            assert done[-1] == "wait", "events are read after the device has been waited for"
            return float(sum(int(work) for work in done[self.after : end.after] if work.isdigit()))

    monkeypatch.setattr(clock, "_Event", Event)
    monkeypatch.setattr(clock, "_synchronize_cuda", lambda: done.append("wait"))
    monkeypatch.setattr(clock, "_synchronize", lambda device: done.append("wait"))
    return done


def test_steps_that_follow_each_other_are_between_two_events(queued: list[str]) -> None:
    timed = time_block(lambda: queued.append("3"), 2, torch.device("cuda"), lambda: queued.append("begin"))
    assert queued == ["3", "wait", "begin", "event", "3", "3", "event", "wait"]
    assert timed["seconds"] == pytest.approx(0.006)


def test_steps_with_something_before_each_are_each_between_two_events(queued: list[str]) -> None:
    step, begin, before = (partial(queued.append, name) for name in ("3", "begin", "before"))
    timed = time_block(step, 2, torch.device("cuda"), begin, before)
    assert queued == ["before", "3", "wait", "begin", *["before", "event", "3", "event"] * 2, "wait"]
    assert timed["seconds"] == pytest.approx(0.006)


@pytest.mark.parametrize("before", [None, lambda: None])
def test_the_card_is_read_when_all_steps_are_enqueued_and_before_they_are_waited_for(
    queued: list[str], card: Card, monkeypatch: pytest.MonkeyPatch, before: Callable[[], None] | None
) -> None:
    read = card.read

    def reading() -> dict[str, int]:
        queued.append("read")
        return read()

    monkeypatch.setattr(card, "read", reading)
    timed = time_block(lambda: queued.append("3"), 2, torch.device("cuda"), lambda: None, before, card)
    assert queued[-3:] == ["event", "read", "wait"]
    assert timed["gpu"] == read()


def test_the_cache_is_emptied_by_reading() -> None:
    """What were written instead would have to be written back while the next step is timed."""
    empty = emptying_l2(CPU)
    with Operations() as done:
        empty()
    assert done.names == ["aten.sum.IntList_out"]
    assert done.read == EMPTYING_BYTES
    assert done.written <= 4


class Operations(TorchDispatchMode):
    """The operations called, and the bytes of what they read and wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.read = self.written = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        self.read += sum(arg.nbytes for arg in args if isinstance(arg, torch.Tensor))
        out = func(*args, **(kwargs or {}))
        self.written += out.nbytes
        return out


# ---- Python's garbage collector ----


def test_the_garbage_collector_waits_outside_the_clock() -> None:
    seen: list[bool] = []
    time_block(lambda: seen.append(gc.isenabled()), 2, CPU, lambda: None)
    assert seen == [True, False, False]
    assert gc.isenabled()
    with pytest.raises(StopIteration):
        time_block(iter([None]).__next__, 2, CPU, lambda: None)
    assert gc.isenabled(), "also after a step that raises"
    gc.disable()
    try:
        time_block(lambda: None, 2, CPU, lambda: None)
        assert not gc.isenabled(), "one that was off stays off"
    finally:
        gc.enable()


# ---- warm-up ----


@pytest.mark.parametrize(
    ("durations", "limit", "best", "left"),
    [
        # Compiling 2 s, autotuning 1 s and 0.5 s, then warm: two more that bring nothing new, and the end.
        ([2.0, 1.0, 0.5, 0.25, 0.25, 0.25], 60.0, 0.25, 0),
        ([1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25], 60.0, 0.25, 0),  # a plateau of one chunk is no end
        ([1.0, 127 / 128, 126 / 128], 60.0, 126 / 128, 0),  # noise below 2 % is no new best
        ([16.0, 8.0, 4.0, 2.0, 1.0], 10.0, 4.0, 2),  # the first step may compile, and does not count
    ],
)
def test_warm_up_ends_when_timings_stop_falling_or_at_its_limit(
    ticking: Ticking, durations: list[float], limit: float, best: float, left: int
) -> None:
    steps = iter(durations)
    found = warm_up(ticking(steps), CPU, limit=limit)
    assert found["step_s"] == best
    assert len(list(steps)) == left
    if not left:
        assert found["excess_s"] == pytest.approx(sum(durations) - best * len(durations))


def test_ranks_take_the_same_number_of_steps_whatever_their_own_timings(ticking: Ticking) -> None:
    for own in (0.25, 0.5):
        steps, slowest = iter([own] * 9), iter([2.0, 1.0, 0.5, 0.5, 0.5])
        assert warm_up(ticking(steps), CPU, slowest=lambda _, next_of=slowest: next(next_of))["step_s"] == 0.5  # type: ignore[misc]
        assert len(list(steps)) == 4
