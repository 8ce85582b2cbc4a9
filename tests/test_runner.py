"""The schedule, with a fake worker: no process, no torch, no clock; every second is made up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pytest

from tests.made_up import info
from tipbench.engine.handle import WorkerFailed
from tipbench.engine.profiles import PROFILES, Profile
from tipbench.engine.runner import CHECK_SEEDS, measure, run, schedule, steps_a_block
from tipbench.records.record import PairInfo, Record, VariantInfo
from tipbench.tip.pair import Equal
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason
from tipbench.verdict.statistics import Looks

FULL = PROFILES["full"]

A_SIDE, B_SIDE = ProcessSettings(env=(("SIDE", "a"),)), ProcessSettings(env=(("SIDE", "b"),))


class FakeWorker:
    """Answers as a worker does, from the numbers of its machine, and notes what it is asked."""

    def __init__(self, machine: FakeMachine, settings: ProcessSettings, cache: str, launch: int | None = None) -> None:
        self.machine = machine
        self.settings = settings
        self.cache = cache
        self.launch = launch
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.ended = self.paused = False
        self.begun: list[tuple[str, dict[str, Any]]] = []

    def begin(self, command: str, **arguments: Any) -> None:
        self.begun.append((command, arguments))

    def finish(self) -> Any:
        command, arguments = self.begun.pop(0)
        return self.ask(command, **arguments)

    def ask(self, command: str, **arguments: Any) -> Any:
        assert not self.ended, "asked after its end"
        assert not self.paused, "asked while it is paused"
        self.asked.append((command, arguments))
        self.machine.asked.append((self, command, arguments))
        self.machine.before(command, arguments)
        return getattr(self, command)(**arguments)

    def ready(self) -> None:
        self.asked.append(("ready", {}))

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def end(self) -> None:
        self.ended = True

    def results(self, variant: str, seeds: list[int], file: str = "") -> None:
        pass

    def compare(self, variant: str, baseline_file: str) -> dict[str, Any]:
        return {"method": "allclose", "worst": 0.0, "tolerance": 1e-4, "seeds": CHECK_SEEDS}

    def observe(self, variant: str, seed: int) -> int:
        return 5 if variant == "baseline" else 1

    def work(self, seed: int) -> dict[str, int]:
        return {"flops": 1000}

    def engaged(self, baseline: int, optimized: int) -> dict[str, Any]:
        return {"engaged": optimized < baseline, "what": "operations"}

    def measure_memory(self, variant: str, seed: int) -> dict[str, Any]:
        return {"memory": {"tensor_peak": 100}, "one_off": {"build": 0.1, "warm_up": 0.2}}

    def build(self, variant: str, seed: int) -> dict[str, float]:
        return {"seconds": 0.1}

    def warm(self, variant: str) -> dict[str, float]:
        return {"step_s": self.machine.warm_s.get(variant, self.machine.step_s[variant]), "excess_s": 0.0}

    def block(self, variant: str, steps: int) -> dict[str, Any]:
        seconds = self.machine.seconds(variant) * steps
        return {"seconds": seconds, "steal_ticks": 0, "throttled_us": 0, "pressure_us": 0, "switches": 0}


class FakeMachine:
    """step_s: what a step of each variant takes. warm_s: what the warm-up says instead.

    spread: how far each launch's optimized side is off, in turn; before: called before each answer.
    """

    def __init__(self, step_s: Mapping[str, float], spread: float = 0.0) -> None:
        self.step_s = dict(step_s)
        self.warm_s: dict[str, float] = {}
        self.spread = spread
        self.before: Callable[[str, dict[str, Any]], None] = lambda command, arguments: None
        self.workers: list[FakeWorker] = []
        self.asked: list[tuple[FakeWorker, str, dict[str, Any]]] = []

    def start(self, info: PairInfo, settings: ProcessSettings, cache: str, launch: int | None = None) -> FakeWorker:
        self.workers.append(FakeWorker(self, settings, cache, launch))
        return self.workers[-1]

    def seconds(self, variant: str) -> float:
        off = self.spread * (1 if len(self.workers) % 2 else -1) if variant != "baseline" else 0.0
        return self.step_s[variant] * math.exp(off)

    def measure(self, about: PairInfo, profile: Profile = FULL, seed: int = 0) -> Record:
        return measure(about, self.start, profile, seed, 2, lambda what: None)

    def commands(self, command: str) -> list[dict[str, Any]]:
        return [arguments for _, asked, arguments in self.asked if asked == command]


def failing(kind: str, command: str, variant: str) -> Callable[[str, dict[str, Any]], None]:
    """A worker that fails so whenever it is asked this of this variant."""

    def before(asked: str, arguments: dict[str, Any]) -> None:
        if (asked, arguments.get("variant")) == (command, variant):
            raise WorkerFailed(Reason(f"{kind.replace(' ', '-')}.made-up", {}, f"{variant}: as told"))

    return before


def launches(machine: FakeMachine) -> Iterator[list[FakeWorker]]:
    """The workers of each launch: those asked to time blocks, from one "build baseline" to the next."""
    group: list[FakeWorker] = []
    for worker, command, arguments in machine.asked:
        if command == "build" and arguments["variant"] == "baseline":
            if group:
                yield group
            group = []
        if command == "block" and worker not in group:
            group.append(worker)
    yield group


@pytest.fixture
def machine() -> FakeMachine:
    return FakeMachine({"baseline": 0.002, "optimized": 0.001})


# ---- the schedule ----


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d", "e"]])
def test_each_round_is_a_random_order_and_its_mirror(names: list[str]) -> None:
    listed = schedule(names, 50, seed=3)
    length = 2 * len(names)
    assert len(listed) == 50 * length
    for start in range(0, len(listed), length):
        blocks = listed[start : start + length]
        assert sorted(blocks[: len(names)]) == names
        assert blocks == blocks[::-1]


def test_both_orders_of_two_come_about_equally_often() -> None:
    listed = schedule(["a", "b"], 400, seed=0)
    first = [listed[start] for start in range(0, len(listed), 4)]
    assert 150 < first.count("a") < 250


def test_the_seed_decides_the_order() -> None:
    assert schedule(["a", "b"], 20, 1) == schedule(["a", "b"], 20, 1) != schedule(["a", "b"], 20, 2)


def test_blocks_run_in_the_stored_order_with_one_shared_count_of_steps(machine: FakeMachine) -> None:
    record = machine.measure(info())
    assert {asked["steps"] for asked in machine.commands("block")} == {record.steps}
    asked = [asked["variant"] for asked in machine.commands("block")]
    stored = [name for launch in record.launches for name in launch.variant]
    # What comes before the first launch's blocks are the three of the pilot.
    assert asked == ["optimized"] * 3 + stored


# ---- steps a block ----


def test_the_faster_variants_block_lasts_long_enough(machine: FakeMachine) -> None:
    record = machine.measure(info())
    assert record.steps == 5  # of 1 ms, for 5 ms


def test_a_warm_up_that_was_too_slow_is_put_right_by_the_pilot(machine: FakeMachine) -> None:
    machine.warm_s = {"optimized": 0.0018}  # in truth 1 ms: 3 steps would last 3 ms
    record = machine.measure(info())
    assert record.steps * machine.step_s["optimized"] >= 0.005
    assert len(machine.commands("block")) == 6 + sum(len(launch.variant) for launch in record.launches)


def test_a_step_longer_than_a_block_is_a_block(machine: FakeMachine) -> None:
    machine.step_s = {"baseline": 2.0, "optimized": 1.0}
    assert machine.measure(info()).steps == 1


def test_the_pilot_gives_up_on_a_clock_that_stands_still(machine: FakeMachine) -> None:
    machine.step_s = {"baseline": 1e-9, "optimized": 1e-9}
    worker = machine.start(info(), ProcessSettings(), "")
    steps_a_block(worker, "optimized", 1e-3, 0.01)
    assert len(worker.asked) <= 15


# ---- rounds ----


def test_the_first_launch_fixes_steps_and_rounds_for_all(machine: FakeMachine) -> None:
    def slow_down(command: str, arguments: dict[str, Any]) -> None:
        if command == "warm" and len(machine.commands("warm")) > 2:
            machine.warm_s = {"baseline": 0.2, "optimized": 0.1}

    machine.before = slow_down
    record = machine.measure(info())
    assert len({len(launch.variant) for launch in record.launches}) == 1
    assert len({asked["steps"] for asked in machine.commands("block")}) == 1


@pytest.mark.parametrize(("step_s", "rounds"), [(0.001, 30), (0.1, 5)])
def test_rounds_fill_the_launch_within_their_bounds(step_s: float, rounds: int) -> None:
    machine = FakeMachine({"baseline": step_s, "optimized": step_s})
    record = machine.measure(info())
    assert len(record.launches[0].variant) == 4 * rounds
    assert record.launches[0].rounds == rounds


def test_a_macro_pair_gets_more_time(machine: FakeMachine) -> None:
    machine.step_s = {"baseline": 0.02, "optimized": 0.02}
    micro, macro = machine.measure(info()), machine.measure(info(scale="macro"))
    assert len(micro.launches[0].variant) < len(macro.launches[0].variant)


# ---- looks ----


def test_an_effect_far_above_the_noise_needs_only_the_early_look(machine: FakeMachine) -> None:
    assert len(machine.measure(info()).launches) == 4


def test_a_clear_effect_that_is_not_far_above_the_noise_needs_the_next_look() -> None:
    assert len(FakeMachine({"baseline": 0.00105, "optimized": 0.001}).measure(info()).launches) == 6


def test_no_effect_at_all_is_never_said_early() -> None:
    assert len(FakeMachine({"baseline": 0.001, "optimized": 0.001}).measure(info()).launches) == 6


@pytest.mark.parametrize(("spread", "count"), [(0.006, 9), (0.0095, 13), (0.013, 18), (0.05, 6)])
def test_an_unclear_effect_goes_on_to_the_next_looks(spread: float, count: int) -> None:
    machine = FakeMachine({"baseline": 0.001, "optimized": 0.001}, spread)
    assert len(machine.measure(info()).launches) == count


def test_a_variant_that_is_decided_leaves_the_further_launches() -> None:
    machine = FakeMachine({"baseline": 0.01, "clear": 0.005, "close": 0.01}, spread=0.013)
    record = machine.measure(info(variants=["clear", "close"]))
    assert [len(set(launch.variant)) for launch in record.launches] == [3] * 6 + [2] * 12
    assert all("close" in launch.variant for launch in record.launches)
    assert len({launch.rounds for launch in record.launches}) == 1
    assert Record.from_json(record.to_json()) == record


def test_every_launch_has_a_seed_of_its_own_from_the_runs(machine: FakeMachine) -> None:
    record = machine.measure(info(), seed=40)
    assert [launch.seed for launch in record.launches] == [40, 41, 42, 43]
    built = [asked["seed"] for asked in machine.commands("build")]
    assert built == [seed for launch in record.launches for seed in (launch.seed, launch.seed)]


def test_inputs_are_checked_on_several_seeds(machine: FakeMachine) -> None:
    machine.measure(info(), seed=40)
    assert {tuple(asked["seeds"]) for asked in machine.commands("results")} == {(40, 41, 42)}


def test_a_profile_may_stop_earlier(machine: FakeMachine) -> None:
    profile = replace(FULL, looks=Looks((2,), (0.05,)))
    assert len(machine.measure(info(), profile).launches) == 2


# ---- workers ----


def test_every_launch_has_a_fresh_process_that_both_variants_share(machine: FakeMachine) -> None:
    machine.measure(info())
    groups = list(launches(machine))
    assert [len(group) for group in groups] == [1] * 4
    assert len({id(worker) for group in groups for worker in group}) == 4


def test_a_launchs_workers_may_be_forked_and_what_is_weighed_is_a_fresh_process(machine: FakeMachine) -> None:
    machine.measure(info())
    check, *others = machine.workers
    weighers, timed = others[:2], others[2:]
    assert check.launch == 0
    assert [worker.launch for worker in weighers] == [None, None]
    assert [worker.launch for worker in timed] == [0, 1, 2, 3]


def apart() -> PairInfo:
    """Two variants with the baseline's process settings, one with its own."""
    listed = [
        VariantInfo("baseline", A_SIDE, ()),
        VariantInfo("optimized", B_SIDE, ()),
        VariantInfo("other", A_SIDE, ()),
    ]
    return replace(info(), variants=tuple(listed))


def test_own_surroundings_are_an_own_process_in_the_same_launch_and_still_interleave() -> None:
    machine = FakeMachine({"baseline": 0.002, "optimized": 0.001, "other": 0.001})
    record = machine.measure(apart())
    for group in launches(machine):
        assert {worker.settings for worker in group} == {A_SIDE, B_SIDE}
        assert len(group) == 2
    timed = [worker.settings for worker, command, _ in machine.asked if command == "block"]
    changes = sum(before != after for before, after in pairwise(timed))
    assert changes > len(record.launches) * 2
    for worker in machine.workers:
        assert all(
            (worker.settings == B_SIDE) == (arguments["variant"] == "optimized")
            for command, arguments in worker.asked
            if command in ("build", "warm", "block", "measure_memory", "observe")
        )


def test_with_own_surroundings_no_side_is_forked() -> None:
    machine = FakeMachine({"baseline": 0.002, "optimized": 0.001, "other": 0.001})
    machine.measure(apart())
    assert {worker.launch for group in launches(machine) for worker in group} == {None}


def test_while_a_block_runs_the_launchs_other_processes_stand_still() -> None:
    machine = FakeMachine({"baseline": 0.002, "optimized": 0.001, "other": 0.001})
    running: list[int] = []

    def before(command: str, arguments: dict[str, Any]) -> None:
        if command == "block":
            running.append(sum(not worker.ended and not worker.paused for worker in machine.workers))

    machine.before = before
    machine.measure(apart())
    pilot = 3
    assert set(running[pilot:]) == {1}
    assert not any(worker.paused for worker in machine.workers)


def test_memory_is_weighed_in_a_fresh_process_each_with_an_empty_compile_cache(machine: FakeMachine) -> None:
    machine.measure(info())
    weighers = [worker for worker in machine.workers if worker.asked[-1][0] == "measure_memory"]
    assert [worker.asked for worker in weighers] == [
        [("ready", {}), ("measure_memory", {"variant": "baseline", "seed": 0})],
        [("ready", {}), ("measure_memory", {"variant": "optimized", "seed": 0})],
    ]
    assert len({worker.cache for worker in weighers}) == 2
    warm = {worker.cache for worker in machine.workers if worker not in weighers}
    assert len(warm) == 1
    assert not warm & {worker.cache for worker in weighers}


def test_all_workers_are_ended(machine: FakeMachine) -> None:
    machine.measure(info())
    assert len(machine.workers) == 1 + 2 + 4
    assert all(worker.ended for worker in machine.workers)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("command", ["results", "observe", "compare", "measure_memory", "build", "warm", "block"])
def test_all_workers_are_ended_whatever_happens(error: type[BaseException], command: str) -> None:
    machine = FakeMachine({"baseline": 0.002, "optimized": 0.001, "other": 0.001})

    def before(asked: str, arguments: dict[str, Any]) -> None:
        if (asked, arguments.get("variant")) == (command, "optimized"):
            raise error

    machine.before = before
    with pytest.raises(error):
        machine.measure(apart())
    assert machine.workers
    assert all(worker.ended for worker in machine.workers)


# ---- failures ----


def test_where_all_variants_fail_the_check_nothing_more_is_asked(machine: FakeMachine) -> None:
    machine.before = failing("different results", "compare", "optimized")
    assert machine.measure(info()).outcome == "failed"
    assert machine.commands("measure_memory") == machine.commands("build") == []


@pytest.mark.parametrize("command", ["results", "compare", "observe", "measure_memory"])
def test_a_variant_that_fails_is_dropped_and_the_rest_is_measured(command: str) -> None:
    machine = FakeMachine({"baseline": 0.002, "optimized": 0.001, "other": 0.001})
    machine.before = failing("crashed", command, "optimized")
    record = machine.measure(info(variants=("optimized", "other")))
    assert record.outcome == "measured"
    assert (record.variants["optimized"].outcome, record.variants["optimized"].kind) == ("failed", "crashed")
    assert record.variants["optimized"].reason == "optimized: as told"
    assert record.variants["other"].outcome == "measured"
    assert {name for launch in record.launches for name in launch.variant} == {"baseline", "other"}
    assert all(worker.ended for worker in machine.workers)


def test_after_a_failure_the_next_variant_gets_a_fresh_worker() -> None:
    machine = FakeMachine({"baseline": 0.002, "optimized": 0.001, "other": 0.001})
    machine.before = failing("step raised", "results", "optimized")
    machine.measure(info(variants=("optimized", "other")))
    first, second, *_ = machine.workers
    assert ("results", "optimized") in [(command, asked.get("variant")) for command, asked in first.asked]
    assert [asked["variant"] for command, asked in second.asked if command == "results"] == ["other"]


def test_a_variant_that_does_not_engage_is_failed(machine: FakeMachine) -> None:
    machine.step_s["idle"] = 0.001

    class Idle(FakeWorker):
        def observe(self, variant: str, seed: int) -> int:
            return 1 if variant == "optimized" else 5

    def start(info: PairInfo, settings: ProcessSettings, cache: str, launch: int | None = None) -> FakeWorker:
        machine.workers.append(Idle(machine, settings, cache))
        return machine.workers[-1]

    record = measure(info(variants=("optimized", "idle")), start, FULL, 0, 2, lambda what: None)
    assert (record.variants["idle"].kind, record.variants["idle"].reason) == ("not engaged", "idle: operations: 5 -> 5")
    assert record.variants["optimized"].mechanism == {
        "what": "operations",
        "baseline": 5,
        "optimized": 1,
        "engaged": True,
    }


def test_a_variant_whose_mechanism_cannot_be_seen_is_measured_all_the_same(machine: FakeMachine) -> None:
    class Blind(FakeWorker):
        def observe(self, variant: str, seed: int) -> Any:
            return {"unseen": "no CUPTI"}

        def engaged(self, baseline: Any, optimized: Any) -> dict[str, Any]:
            return {"engaged": None, "what": "kernels"}

    def start(info: PairInfo, settings: ProcessSettings, cache: str, launch: int | None = None) -> FakeWorker:
        machine.workers.append(Blind(machine, settings, cache))
        return machine.workers[-1]

    record = measure(info(), start, FULL, 0, 2, lambda what: None)
    assert record.outcome == record.variants["optimized"].outcome == "measured"
    unseen = {"unseen": "no CUPTI"}
    assert record.variants["optimized"].mechanism == {
        "what": "kernels",
        "baseline": unseen,
        "optimized": unseen,
        "engaged": None,
    }


@pytest.mark.parametrize("command", ["results", "observe", "measure_memory", "build", "warm", "block"])
def test_a_baseline_that_fails_fails_the_record(machine: FakeMachine, command: str) -> None:
    machine.before = failing("killed", command, "baseline")
    record = machine.measure(info())
    assert (record.outcome, record.kind, record.reason) == ("failed", "killed", "baseline: as told")
    assert record.remedy == "fix made_up.py, line 12, then `tipbench run made-up.Pair`"
    assert all(worker.ended for worker in machine.workers)


def test_where_every_variant_fails_the_record_says_why(machine: FakeMachine) -> None:
    machine.before = failing("different results", "compare", "optimized")
    record = machine.measure(info())
    assert (record.outcome, record.kind) == ("failed", "different results")
    assert record.variants["optimized"].kind == "different results"
    assert not record.launches
    assert "build" not in [command for _, command, _ in machine.asked], "no time is measured of unequal work"


def test_a_failure_in_a_later_launch_leaves_no_half_measured_record(machine: FakeMachine) -> None:
    def before(command: str, arguments: dict[str, Any]) -> None:
        if command == "block" and len(machine.workers) == 6:
            raise WorkerFailed(Reason("hang.made-up", {}, "optimized: no answer"))

    machine.before = before
    record = machine.measure(info())
    assert (record.outcome, record.kind) == ("failed", "hang")
    Record.from_json(record.to_json())


def test_the_next_pair_is_measured_after_a_failed_one(machine: FakeMachine) -> None:
    def before(command: str, arguments: dict[str, Any]) -> None:
        if len(machine.workers) == 1:
            raise WorkerFailed(Reason("crashed.made-up", {}, "SIGSEGV"))

    machine.before = before
    records = list(run([info("First"), info("Second")], machine.start, FULL, 0, 2, lambda *told: None))
    assert [(record.info.pair, record.outcome) for record in records] == [("First", "failed"), ("Second", "measured")]


# ---- needs ----


def test_a_pair_whose_need_is_not_met_starts_nothing(machine: FakeMachine) -> None:
    record = machine.measure(info(why=Reason("needs.own", {}, "1 NUMA node; needs 2", "a larger machine")))
    assert (record.outcome, record.reason, record.remedy) == ("skipped", "1 NUMA node; needs 2", "a larger machine")
    assert not machine.workers


def without(*names: str) -> PairInfo:
    about = info(variants=("optimized", "other"))
    reason, remedy = "libjemalloc not found", "run `make native`"
    return replace(
        about,
        variants=tuple(
            replace(variant, why=Reason("needs.own", {}, reason, remedy)) if variant.name in names else variant
            for variant in about.variants
        ),
    )


def test_a_variant_whose_need_is_not_met_is_skipped_alone(machine: FakeMachine) -> None:
    record = machine.measure(without("other"))
    assert record.outcome == "measured"
    assert (record.variants["other"].outcome, record.variants["other"].remedy) == ("skipped", "run `make native`")
    assert "other" not in {arguments.get("variant") for _, _, arguments in machine.asked}


@pytest.mark.parametrize("names", [("baseline",), ("optimized", "other")])
def test_without_a_baseline_or_any_other_variant_the_pair_is_skipped(
    machine: FakeMachine, names: tuple[str, ...]
) -> None:
    record = machine.measure(without(*names))
    assert (record.outcome, record.reason) == ("skipped", "libjemalloc not found")
    assert not machine.workers


def test_the_only_runnable_variant_failing_fails_the_record(machine: FakeMachine) -> None:
    machine.before = failing("no output", "results", "optimized")
    record = machine.measure(without("other"))
    assert (record.outcome, record.kind) == ("failed", "no output")


# ---- the rest ----


@pytest.mark.parametrize("equal", [Equal.REFERENCE, Equal.LOSSY])
def test_a_pair_with_a_reference_is_compared_with_it(machine: FakeMachine, equal: Equal) -> None:
    machine.measure(info(equal=str(equal)))
    asked = [arguments["variant"] for arguments in machine.commands("results")]
    assert asked == ["baseline", "reference", "optimized"]


def test_an_exact_pair_needs_no_reference(machine: FakeMachine) -> None:
    machine.measure(info(equal=str(Equal.CLOSE)))
    assert "reference" not in [arguments["variant"] for arguments in machine.commands("results")]


def test_what_was_found_out_is_recorded(machine: FakeMachine) -> None:
    found = machine.measure(info()).variants
    assert found["optimized"].equal["worst"] == 0.0
    assert found["optimized"].memory == found["baseline"].memory == {"tensor_peak": 100}
    assert found["optimized"].one_off == {"build": 0.1, "warm_up": 0.2}


def test_what_a_gpu_tells_of_each_block_is_kept_in_the_blocks_order(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, clock = FakeWorker.block, count(1000)

    def with_a_card(worker: FakeWorker, variant: str, steps: int) -> dict[str, Any]:
        return {**block(worker, variant, steps), "gpu": {"sm_mhz": next(clock), "celsius": 40}}

    monkeypatch.setattr(FakeWorker, "block", with_a_card)
    record = machine.measure(info())
    for launch in record.launches:
        first = launch.gpu["sm_mhz"][0]
        assert launch.gpu == {
            "sm_mhz": tuple(range(first, first + len(launch.variant))),
            "celsius": (40,) * len(launch.variant),
        }


def test_progress_is_told_before_each_pass_and_never_within_one(machine: FakeMachine) -> None:
    told: list[tuple[str, str]] = []
    machine.before = lambda command, arguments: told.append(("asked", command))
    measure(info(), machine.start, FULL, 0, 2, lambda what: told.append(("told", what)))
    assert [what for who, what in told if who == "told"] == ["check", "memory", *(f"launch {n}" for n in range(1, 5))]
    for (who, _), (_, command) in pairwise(told):
        if who == "told":
            assert command in ("results", "measure_memory", "build")
