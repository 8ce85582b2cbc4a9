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
from tipbench.engine.runner import CHECK_SEEDS, complete, learnt, measure, run, schedule, steps_a_block
from tipbench.records.record import PairInfo, Record, VariantInfo
from tipbench.tip.pair import Equal
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason
from tipbench.verdict import rules

FULL = PROFILES["full"]

FIRST = rules.FULL
"""The first rules: a look after 4 launches is the cheapest way to the end of a pair."""

A_SIDE, B_SIDE = ProcessSettings(env=(("SIDE", "a"),)), ProcessSettings(env=(("SIDE", "b"),))


class FakeWorker:
    """Answers as a worker does, from the numbers of its machine, and notes every request."""

    def __init__(self, machine: FakeMachine, settings: ProcessSettings, cache: str, launch: int | None = None) -> None:
        self.machine = machine
        self.settings = settings
        self.cache = cache
        self.launch = launch
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.ended = self.paused = False
        self.begun: list[tuple[str, dict[str, Any]]] = []

    def begin(self, command: str, **arguments: Any) -> None:
        self.begun.append((command, arguments))

    def finish(self) -> Any:
        command, arguments = self.begun.pop(0)
        return self.ask(command, **arguments)

    def ask(self, command: str, **arguments: Any) -> Any:
        assert not self.ended, "a request after its end"
        assert not self.paused, "a request while it is paused"
        self.requests.append((command, arguments))
        self.machine.requests.append((self, command, arguments))
        self.machine.before(command, arguments)
        return getattr(self, command)(**arguments)

    def ready(self) -> None:
        self.requests.append(("ready", {}))

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

    def observe(self, variant: str, seed: int) -> Any:
        return self.machine.counts.get(variant, 5 if variant == "baseline" else 1)

    def work(self, seed: int) -> dict[str, int]:
        return {"flops": 1000}

    def engaged(self, baseline: Any, optimized: Any) -> dict[str, Any]:
        return {"engaged": optimized < baseline if isinstance(optimized, int) else None, "what": "operations"}

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
    """step_s: what a step of each variant takes. warm_s: what the warm-up says instead. counts: what is observed.

    spread: how far each launch's optimized side is off, in turn; before: called before each answer.
    """

    def __init__(self, step_s: Mapping[str, float], spread: float = 0.0) -> None:
        self.step_s = dict(step_s)
        self.warm_s: dict[str, float] = {}
        self.spread = spread
        self.counts: dict[str, Any] = {}
        self.before: Callable[[str, dict[str, Any]], None] = lambda command, arguments: None
        self.workers: list[FakeWorker] = []
        self.requests: list[tuple[FakeWorker, str, dict[str, Any]]] = []

    def start(self, info: PairInfo, settings: ProcessSettings, cache: str, launch: int | None = None) -> FakeWorker:
        self.workers.append(FakeWorker(self, settings, cache, launch))
        return self.workers[-1]

    def seconds(self, variant: str) -> float:
        off = self.spread * (1 if len(self.workers) % 2 else -1) if variant != "baseline" else 0.0
        return self.step_s[variant] * math.exp(off)

    def measure(self, about: PairInfo, profile: Profile = FULL, seed: int = 0) -> Record:
        return measure(about, self.start, profile, seed, 2, lambda what: None, FIRST)

    def commands(self, command: str) -> list[dict[str, Any]]:
        return [arguments for _, given, arguments in self.requests if given == command]


def failing(kind: str, command: str, variant: str) -> Callable[[str, dict[str, Any]], None]:
    """A worker that fails so at this command for this variant."""

    def before(given: str, arguments: dict[str, Any]) -> None:
        if (given, arguments.get("variant")) == (command, variant):
            raise WorkerFailed(Reason(f"{kind.replace(' ', '-')}.made-up", {}, f"{variant}: made up"))

    return before


def launches(machine: FakeMachine) -> Iterator[list[FakeWorker]]:
    """The workers of each launch: those that time blocks, from one "build baseline" to the next."""
    group: list[FakeWorker] = []
    for worker, command, arguments in machine.requests:
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


def three() -> FakeMachine:
    return FakeMachine({"baseline": 0.002, "optimized": 0.001, "other": 0.001})


# ---- the schedule ----


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c", "d", "e"]])
def test_each_round_is_a_random_order_and_its_mirror(names: list[str]) -> None:
    listed = schedule(names, 400, seed=3)
    length = 2 * len(names)
    rounds = [listed[start : start + length] for start in range(0, len(listed), length)]
    assert len(rounds) == 400
    for blocks in rounds:
        assert sorted(blocks[: len(names)]) == names
        assert blocks == blocks[::-1]
    first = sum(blocks[0] == "a" for blocks in rounds)
    assert 300 / len(names) < first < 500 / len(names), "every order comes about equally often"
    assert listed == schedule(names, 400, seed=3) != schedule(names, 400, seed=4)


def test_blocks_run_in_the_stored_order_with_one_shared_count_of_steps(machine: FakeMachine) -> None:
    record = machine.measure(info())
    assert {words["steps"] for words in machine.commands("block")} == {record.steps}
    timed = [words["variant"] for words in machine.commands("block")]
    stored = [name for launch in record.launches for name in launch.variant]
    # What comes before the first launch's blocks are the three of the pilot.
    assert timed == ["optimized"] * 3 + stored


# ---- steps a block ----


@pytest.mark.parametrize(("step_s", "steps"), [(0.001, 5), (1.0, 1)])
def test_the_faster_variants_block_lasts_long_enough(step_s: float, steps: int) -> None:
    """That is 5 ms; a step that is longer is a block by itself."""
    assert FakeMachine({"baseline": 2 * step_s, "optimized": step_s}).measure(info()).steps == steps


def test_a_warm_up_that_was_too_slow_is_put_right_by_the_pilot(machine: FakeMachine) -> None:
    machine.warm_s = {"optimized": 0.0018}  # in truth 1 ms: 3 steps would last 3 ms
    record = machine.measure(info())
    assert record.steps * machine.step_s["optimized"] >= 0.005
    assert len(machine.commands("block")) == 6 + sum(len(launch.variant) for launch in record.launches)


def test_the_pilot_gives_up_on_a_clock_that_never_moves(machine: FakeMachine) -> None:
    machine.step_s = {"baseline": 1e-9, "optimized": 1e-9}
    worker = machine.start(info(), ProcessSettings(), "")
    steps_a_block(worker, "optimized", 1e-3, 0.01)
    assert len(worker.requests) <= 15


# ---- rounds ----


def test_the_first_launch_fixes_steps_and_rounds_for_all(machine: FakeMachine) -> None:
    def slow_down(command: str, arguments: dict[str, Any]) -> None:
        if command == "warm" and len(machine.commands("warm")) > 2:
            machine.warm_s = {"baseline": 0.2, "optimized": 0.1}

    machine.before = slow_down
    record = machine.measure(info())
    assert len({len(launch.variant) for launch in record.launches}) == 1
    assert len({words["steps"] for words in machine.commands("block")}) == 1


@pytest.mark.parametrize(
    ("step_s", "scale", "rounds"), [(0.001, "micro", 30), (0.02, "micro", 6), (0.02, "macro", 9), (0.1, "micro", 5)]
)
def test_rounds_fill_the_launch_within_their_bounds_and_macro_pairs_get_more_time(
    step_s: float, scale: str, rounds: int
) -> None:
    record = FakeMachine({"baseline": step_s, "optimized": step_s}).measure(info(scale=scale))
    assert (record.launches[0].rounds, len(record.launches[0].variant)) == (rounds, 4 * rounds)


# ---- looks ----


@pytest.mark.parametrize(
    ("baseline_s", "spread", "count"),
    [
        (0.002, 0.0, 4),  # far above the noise: the early look is enough
        (0.00105, 0.0, 6),  # clear, but not far above it
        (0.001, 0.0, 6),  # that there is no effect at all is never said early
        *((0.001, spread, count) for spread, count in ((0.006, 9), (0.0095, 13), (0.013, 18))),
        (0.001, 0.05, 6),  # hardly to be decided by all of them
    ],
)
def test_launches_go_on_to_the_look_that_decides(baseline_s: float, spread: float, count: int) -> None:
    machine = FakeMachine({"baseline": baseline_s, "optimized": 0.001}, spread)
    assert len(machine.measure(info()).launches) == count


@pytest.mark.parametrize(
    ("spread", "count"), [(0.0, 6), (0.006, 6), (0.02, 8), (0.025, 10), (0.03, 12), (0.04, 16), (0.3, 6)]
)
def test_by_the_rules_of_new_runs_any_launch_from_the_sixth_may_be_the_last(spread: float, count: int) -> None:
    machine = FakeMachine({"baseline": 0.001, "optimized": 0.001}, spread)
    record = measure(info(), machine.start, FULL, 0, 2, lambda what: None)
    assert len(record.launches) == count


def test_a_variant_that_is_decided_leaves_the_further_launches() -> None:
    machine = FakeMachine({"baseline": 0.01, "clear": 0.005, "close": 0.01}, spread=0.013)
    record = machine.measure(info(variants=["clear", "close"]))
    assert [len(set(launch.variant)) for launch in record.launches] == [3] * 6 + [2] * 12
    assert all("close" in launch.variant for launch in record.launches)
    assert len({launch.rounds for launch in record.launches}) == 1
    assert Record.from_json(record.to_json()) == record


def test_every_launch_has_a_seed_of_its_own_from_the_runs_and_the_check_several(machine: FakeMachine) -> None:
    record = machine.measure(info(), seed=40)
    assert [launch.seed for launch in record.launches] == [40, 41, 42, 43]
    built = [words["seed"] for words in machine.commands("build")]
    assert built == [seed for launch in record.launches for seed in (launch.seed, launch.seed)]
    assert {tuple(words["seeds"]) for words in machine.commands("results")} == {(40, 41, 42)}


# ---- workers ----


def test_every_launch_has_a_process_that_both_variants_share_and_memory_fresh_ones(machine: FakeMachine) -> None:
    machine.measure(info())
    groups = list(launches(machine))
    assert [len(group) for group in groups] == [1] * 4
    assert len({id(worker) for group in groups for worker in group}) == 4
    assert [worker.launch for worker in machine.workers] == [0, None, None, 0, 1, 2, 3], "None: not to be forked"
    assert all(worker.ended for worker in machine.workers)


def apart() -> PairInfo:
    """Two variants with the baseline's process settings, one with its own."""
    listed = [
        VariantInfo("baseline", A_SIDE, ()),
        VariantInfo("optimized", B_SIDE, ()),
        VariantInfo("other", A_SIDE, ()),
    ]
    return replace(info(), variants=tuple(listed))


def test_own_settings_are_an_own_process_in_the_same_launch_and_still_interleave() -> None:
    machine = three()
    record = machine.measure(apart())
    for group in launches(machine):
        assert {worker.settings for worker in group} == {A_SIDE, B_SIDE}
        assert [worker.launch for worker in group] == [None, None], "neither is forked"
    timed = [worker.settings for worker, command, _ in machine.requests if command == "block"]
    changes = sum(before != after for before, after in pairwise(timed))
    assert changes > len(record.launches) * 2
    for worker in machine.workers:
        assert all(
            (worker.settings == B_SIDE) == (arguments["variant"] == "optimized")
            for command, arguments in worker.requests
            if command in ("build", "warm", "block", "measure_memory", "observe")
        )


def test_while_a_block_runs_the_launchs_other_processes_are_paused() -> None:
    machine = three()
    running: list[int] = []

    def before(command: str, arguments: dict[str, Any]) -> None:
        if command == "block":
            running.append(sum(not worker.ended and not worker.paused for worker in machine.workers))

    machine.before = before
    machine.measure(apart())
    pilot = 3
    assert set(running[pilot:]) == {1}
    assert not any(worker.paused for worker in machine.workers)


def test_memory_is_measured_in_a_fresh_process_each_with_an_empty_compile_cache(machine: FakeMachine) -> None:
    found = machine.measure(info()).variants
    fresh = [worker for worker in machine.workers if worker.requests[-1][0] == "measure_memory"]
    assert [worker.requests for worker in fresh] == [
        [("ready", {}), ("measure_memory", {"variant": "baseline", "seed": 0})],
        [("ready", {}), ("measure_memory", {"variant": "optimized", "seed": 0})],
    ]
    assert len({worker.cache for worker in fresh}) == 2
    warm = {worker.cache for worker in machine.workers if worker not in fresh}
    assert len(warm) == 1
    assert not warm & {worker.cache for worker in fresh}
    assert found["optimized"].memory == found["baseline"].memory == {"tensor_peak": 100}
    assert found["optimized"].one_off == {"build": 0.1, "warm_up": 0.2}
    assert found["optimized"].equal["worst"] == 0.0


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("command", ["results", "observe", "compare", "measure_memory", "build", "warm", "block"])
def test_all_workers_are_ended_whatever_happens(error: type[BaseException], command: str) -> None:
    machine = three()

    def before(given: str, arguments: dict[str, Any]) -> None:
        if (given, arguments.get("variant")) == (command, "optimized"):
            raise error

    machine.before = before
    with pytest.raises(error):
        machine.measure(apart())
    assert machine.workers
    assert all(worker.ended for worker in machine.workers)


# ---- failures ----


@pytest.mark.parametrize("command", ["results", "compare", "observe", "measure_memory"])
def test_a_variant_that_fails_is_dropped_and_the_rest_is_measured(command: str) -> None:
    machine = three()
    machine.before = failing("crashed", command, "optimized")
    record = machine.measure(info(variants=("optimized", "other")))
    assert record.outcome == "measured"
    assert (record.variants["optimized"].outcome, record.variants["optimized"].kind) == ("failed", "crashed")
    assert record.variants["optimized"].reason == "optimized: made up"
    assert record.variants["other"].outcome == "measured"
    assert {name for launch in record.launches for name in launch.variant} == {"baseline", "other"}
    assert all(worker.ended for worker in machine.workers)


def test_after_a_failure_the_next_variant_gets_a_fresh_worker() -> None:
    machine = three()
    machine.before = failing("step raised", "results", "optimized")
    machine.measure(info(variants=("optimized", "other")))
    first, second, *_ = machine.workers
    assert ("results", "optimized") in [(command, words.get("variant")) for command, words in first.requests]
    assert [words["variant"] for command, words in second.requests if command == "results"] == ["other"]


def test_a_variant_that_does_not_engage_is_failed() -> None:
    machine = FakeMachine({"baseline": 0.002, "optimized": 0.001, "idle": 0.001})
    machine.counts = {"optimized": 1, "idle": 5}
    record = machine.measure(info(variants=("optimized", "idle")))
    assert (record.variants["idle"].kind, record.variants["idle"].reason) == ("not engaged", "idle: operations: 5 -> 5")
    engaged = {"what": "operations", "baseline": 5, "optimized": 1, "engaged": True}
    assert record.variants["optimized"].mechanism == engaged


def test_a_variant_whose_mechanism_cannot_be_seen_is_measured_all_the_same(machine: FakeMachine) -> None:
    unseen = {"unseen": "no CUPTI"}
    machine.counts = {"baseline": unseen, "optimized": unseen}
    record = machine.measure(info())
    assert record.outcome == record.variants["optimized"].outcome == "measured"
    blind = {"what": "operations", "baseline": unseen, "optimized": unseen, "engaged": None}
    assert record.variants["optimized"].mechanism == blind


@pytest.mark.parametrize("command", ["results", "observe", "measure_memory", "build", "warm", "block"])
def test_a_baseline_that_fails_fails_the_record(machine: FakeMachine, command: str) -> None:
    machine.before = failing("killed", command, "baseline")
    record = machine.measure(info())
    assert (record.outcome, record.kind, record.reason) == ("failed", "killed", "baseline: made up")
    assert record.remedy == "fix made_up.py, line 12, then `tipbench run made-up.Pair`"
    assert all(worker.ended for worker in machine.workers)


@pytest.mark.parametrize("lacking", [(), ("other",)])
def test_where_every_variant_that_can_run_fails_the_record_says_why(
    machine: FakeMachine, lacking: tuple[str, ...]
) -> None:
    machine.before = failing("different results", "compare", "optimized")
    record = machine.measure(without(*lacking) if lacking else info())
    assert (record.outcome, record.kind) == ("failed", "different results")
    assert record.variants["optimized"].kind == "different results"
    assert not record.launches
    assert machine.commands("measure_memory") == machine.commands("build") == [], "nothing is measured of unequal work"


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
    found = dict(run([info("First"), info("Second")], machine.start, FULL, 0, 2, lambda *_: None, rules=FIRST))
    assert [(record.info.pair, record.outcome) for record in found.values()] == [
        ("First", "failed"),
        ("Second", "measured"),
    ]


def test_what_is_learnt_is_yielded_as_soon_as_it_is_known(machine: FakeMachine) -> None:
    found = list(learnt(info(), machine.start, FULL, 0, 2, lambda what: None, rules=FIRST))
    assert [len(record.launches) for record in found] == list(range(len(found[-1].launches) + 1))
    assert found[0].variants["optimized"].memory
    assert [complete(record, FIRST, 2) for record in found] == [False] * (len(found) - 1) + [True]


def test_a_pair_that_was_interrupted_is_gone_on_with_unless_it_has_changed(machine: FakeMachine) -> None:
    *_, third, whole = list(learnt(info(), machine.start, FULL, 0, 2, lambda what: None, rules=FIRST))
    machine.requests.clear()
    assert list(learnt(info(), machine.start, FULL, 0, 2, lambda what: None, third, FIRST)) == [
        replace(whole, wall_s=pytest.approx(third.wall_s, abs=60))  # type: ignore[arg-type]
    ]
    assert not machine.commands("results")
    assert {request["seed"] for request in machine.commands("build")} == {whole.launches[-1].seed}
    anew = list(learnt(info(sizes={"elements": 7}), machine.start, FULL, 0, 2, lambda what: None, third, FIRST))
    assert machine.commands("results")
    assert [len(record.launches) for record in anew] == list(range(len(whole.launches) + 1))


# ---- needs ----


WHY = Reason("needs.own", {}, "libjemalloc not found", "run `make native`")


def without(*names: str) -> PairInfo:
    about = info(variants=("optimized", "other"))
    variants = (replace(variant, why=WHY) if variant.name in names else variant for variant in about.variants)
    return replace(about, variants=tuple(variants))


@pytest.mark.parametrize("about", [info(why=WHY), without("baseline"), without("optimized", "other")])
def test_a_pair_that_cannot_run_is_skipped_and_starts_nothing(machine: FakeMachine, about: PairInfo) -> None:
    record = machine.measure(about)
    assert (record.outcome, record.reason, record.remedy) == ("skipped", WHY.text, WHY.fix)
    assert not machine.workers


def test_a_variant_whose_need_is_not_met_is_skipped_alone(machine: FakeMachine) -> None:
    record = machine.measure(without("other"))
    assert (record.outcome, record.variants["other"].outcome, record.variants["other"].why) == (
        "measured",
        "skipped",
        WHY,
    )
    assert "other" not in {arguments.get("variant") for _, _, arguments in machine.requests}


# ---- the rest ----


@pytest.mark.parametrize("equal", [Equal.REFERENCE, Equal.LOSSY, Equal.CLOSE])
def test_a_pair_with_a_reference_is_compared_with_it(machine: FakeMachine, equal: Equal) -> None:
    machine.measure(info(equal=str(equal)))
    checked = [arguments["variant"] for arguments in machine.commands("results")]
    assert checked == ["baseline", *["reference"] * (equal is not Equal.CLOSE), "optimized"]


def test_what_a_gpu_reports_of_each_block_is_kept_in_the_blocks_order(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, clock = FakeWorker.block, count(1000)

    def with_a_card(worker: FakeWorker, variant: str, steps: int) -> dict[str, Any]:
        return {**block(worker, variant, steps), "gpu": {"sm_mhz": next(clock), "celsius": 40}}

    monkeypatch.setattr(FakeWorker, "block", with_a_card)
    for launch in machine.measure(info()).launches:
        first, blocks = launch.gpu["sm_mhz"][0], len(launch.variant)
        assert launch.gpu == {"sm_mhz": tuple(range(first, first + blocks)), "celsius": (40,) * blocks}


def test_progress_is_shown_before_each_pass_and_never_within_one(machine: FakeMachine) -> None:
    happened: list[tuple[str, str]] = []
    machine.before = lambda command, arguments: happened.append(("worker", command))
    measure(info(), machine.start, FULL, 0, 2, lambda what: happened.append(("shown", what)), FIRST)
    shown = [what for who, what in happened if who == "shown"]
    assert shown == ["check", "memory", *(f"launch {n}" for n in range(1, 5))]
    for (who, _), (_, command) in pairwise(happened):
        if who == "shown":
            assert command in ("results", "measure_memory", "build")
