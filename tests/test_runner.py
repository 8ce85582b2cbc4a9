"""What is measured when, with a fake worker: no process, no torch, no clock; every second is made up."""

from __future__ import annotations

import math
import random
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from itertools import count, islice, pairwise, permutations
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests.made_up import info, measured, restored, tip
from tipbench.engine import launch as launching
from tipbench.engine import runner
from tipbench.engine.checks import CHECK_SEEDS, CHECKS, Served
from tipbench.engine.handle import WorkerFailed
from tipbench.engine.launch import TRIED, rounds_enough, rounds_of
from tipbench.engine.limits import LIMITS, Limits
from tipbench.engine.order import complete, first_of_tips, headline_variants, is_answered
from tipbench.engine.plan import Plan
from tipbench.engine.run import card_room
from tipbench.engine.runner import measure, run
from tipbench.machine.activity import Usage
from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.records.record import Launch, PairInfo, Record, VariantInfo
from tipbench.tip.pair import CONTROL, Claim, Equal
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason
from tipbench.verdict import rules
from tipbench.verdict.rules import MARGIN
from tipbench.verdict.steady import LEAST_STRETCHES, works_ahead
from tipbench.verdict.verdict import judge

FIRST = rules.RULES
"""A look after 4 launches is the cheapest way to the end of a pair."""

PLAN = Plan(LIMITS, FIRST, seed=0, cores=2)

A_SIDE, B_SIDE = ProcessSettings(env=(("SIDE", "a"),)), ProcessSettings(env=(("SIDE", "b"),))

ENOUGH_S = 60.0
"""Seconds after which a thread that waits in vain gives up."""


class FakeWorker:
    """Answers as a worker does, from the numbers of its machine, and notes every request."""

    def __init__(
        self, machine: FakeMachine, pair: str, settings: ProcessSettings, cache: str, served: Served | None
    ) -> None:
        self.machine = machine
        self.pair = pair
        self.settings = settings
        self.cache = cache
        self.served = served
        self.seed = 0
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.ended = self.paused = False
        self.gone = threading.Event()
        self.begun: list[tuple[str, dict[str, Any]]] = []

    def begin(self, command: str, **arguments: Any) -> None:
        self.begun.append((command, arguments))

    def finish(self) -> Any:
        command, arguments = self.begun.pop(0)
        return self.ask(command, **arguments)

    def ask(self, command: str, **arguments: Any) -> Any:
        if self.gone.is_set():
            raise WorkerFailed(Reason("killed.made-up", {}, "it has been ended"))
        assert not self.paused, "a request while it is paused"
        self.requests.append((command, arguments))
        self.machine.requests.append((self, command, arguments))
        self.machine.now += self.machine.cost_s.get(command, 0.0)
        self.machine.before(self, command, arguments)
        return getattr(self, command)(**arguments)

    def ready(self) -> None:
        self.requests.append(("ready", {}))
        self.machine.now += self.machine.cost_s.get("ready", 0.0)
        self.machine.before(self, "ready", {})

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def kill(self) -> None:
        self.gone.set()

    def end(self) -> None:
        self.gone.set()
        self.ended = True

    def hang(self) -> None:
        """Do not answer before somebody ends it."""
        assert self.gone.wait(ENOUGH_S)
        raise WorkerFailed(Reason("killed.made-up", {}, "it has been ended"))

    def results(self, variant: str, seeds: list[int], file: str = "") -> None:
        pass

    def compare(self, variant: str, baseline_file: str) -> dict[str, Any]:
        return {"method": "allclose", "worst": 0.0, "tolerance": 1e-4, "seeds": CHECK_SEEDS}

    def observe(self, variant: str, seed: int) -> Any:
        return self.machine.counts.get(variant, 5 if variant == "baseline" else 1)

    def engaged(self, baseline: Any, optimized: Any) -> dict[str, Any]:
        return {"engaged": optimized < baseline if isinstance(optimized, int) else None, "what": "operations"}

    def live_tensors(self, variant: str, seed: int) -> dict[str, int]:
        return {"tensor_peak": 100}

    def measure_memory(self, variant: str, seed: int) -> dict[str, Any]:
        return {"memory": {"resident_peak": 200}, "one_off": {"build": 0.1, "warm_up": 0.2}}

    def job_card(self, seed: int) -> dict[str, float]:
        return {"flops": 1000}

    def build(self, variant: str, seed: int, first: bool) -> dict[str, float]:
        self.seed = seed
        return {"seconds": 0.1}

    def warm(self, variant: str) -> dict[str, Any]:
        return {
            "step_s": self.machine.warm_s.get(variant, self.machine.step_s[variant]),
            "excess_s": 0.0,
            **self.machine.helpers,
            "card_bytes": self.machine.card_bytes.get(self.pair, 0),
        }

    def stretch(self, variant: str, steps: int, seconds: float) -> list[float]:
        return [self.machine.alone_s[variant] * steps] * 4

    def block(self, variant: str, steps: int, again: bool = False) -> dict[str, Any]:
        seconds = self.machine.seconds(variant, self.seed, steps)
        return {"seconds": seconds, "steal_ticks": 0, "throttled_us": 0, "pressure_us": 0}


class FakeMachine:
    """step_s: what a step of each variant takes. warm_s: what the warm-up says instead. alone_s: what a step takes
    alone. helpers: whether processes have threads or children of their own. counts: what is observed.

    spread: how far each launch's optimized side is off, in turn. before: called before each answer. now: seconds on
    its clock, which moves by cost_s with each command.
    """

    def __init__(self, step_s: Mapping[str, float], spread: float = 0.0) -> None:
        self.step_s = dict(step_s)
        self.warm_s: dict[str, float] = {}
        self.alone_s: dict[str, float] = {}
        self.helpers = {"threads": False, "children": False}
        self.card_bytes: dict[str, int] = {}
        self.spread = spread
        self.counts: dict[str, Any] = {}
        self.before: Callable[[FakeWorker, str, dict[str, Any]], None] = lambda worker, command, arguments: None
        self.now = 0.0
        self.cost_s: dict[str, float] = {}
        self.workers: list[FakeWorker] = []
        self.requests: list[tuple[FakeWorker, str, dict[str, Any]]] = []

    def start(self, info: PairInfo, settings: ProcessSettings, cache: str, served: Served | None) -> FakeWorker:
        worker = FakeWorker(self, info.pair, settings, cache, served)
        self.workers.append(worker)
        return worker

    def seconds(self, variant: str, seed: int, steps: int) -> float:
        off = self.spread * (1 if seed % 2 else -1) if variant != "baseline" else 0.0
        return self.step_s[variant] * math.exp(off) * steps

    def measure(self, about: PairInfo, plan: Plan = PLAN) -> Record:
        return measure(about, self.start, plan)

    def run(self, pairs: Sequence[PairInfo], plan: Plan = PLAN, **more: Any) -> Generator[Record, None, None]:
        return run(pairs, self.start, plan, lambda what: None, **more)

    def commands(self, command: str) -> list[dict[str, Any]]:
        return [arguments for _, given, arguments in self.requests if given == command]

    @property
    def running(self) -> set[FakeWorker]:
        """Those that have the machine's cores."""
        return {worker for worker in self.workers if not worker.ended and not worker.paused}


def failing(
    kind: str, command: str, variant: str = "", pair: str = "", served: int | None = None
) -> Callable[[FakeWorker, str, dict[str, Any]], None]:
    """A worker that fails so at this command: for any variant or this one, of any pair or this one, in any launch or
    this one."""

    def before(worker: FakeWorker, given: str, arguments: dict[str, Any]) -> None:
        side = arguments.get("variant", worker.cache)  # a process for a side's memory has a cache of its name
        is_meant = given == command and side.endswith(variant) and worker.pair.endswith(pair)
        if is_meant and served in (None, worker.served):
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


@pytest.fixture(autouse=True)
def four_launches_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tipbench.verdict.verdict.enough", lambda kind, launches, effect: len(launches) >= 4)


@pytest.fixture(autouse=True)
def unknown_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other programs take is not read, which takes milliseconds for each of thousands of launches."""
    monkeypatch.setattr(Usage, "now", classmethod(lambda cls: cls(0.0, None, 0.0)))


@pytest.fixture
def machine() -> FakeMachine:
    return FakeMachine({"baseline": 0.002, "optimized": 0.001})


@pytest.fixture
def clock(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is what the machine's clock says. A launch takes 2 s to prepare."""
    machine.cost_s = {"results": 1.0, "ready": 1.0, "build": 1.0, "block": 0.01}
    for module in (runner, launching):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: machine.now))


def three() -> FakeMachine:
    return FakeMachine({"baseline": 0.002, "optimized": 0.001, "other": 0.001})


def close(spread: float = 0.018) -> FakeMachine:
    """One on which a pair takes 2 launches; with a spread of 0.1 more than a few."""
    return FakeMachine({"baseline": 0.001, "optimized": 0.001}, spread)


PAIRS = [info(name, tip=tip(name.lower())) for name in ("First", "Second", "Third", "Fourth")]
"""Each of another tip."""


# ---- the schedule of a launch ----


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c", "d", "e"]])
def test_each_round_is_a_random_order_and_its_mirror(names: list[str]) -> None:
    rounds = list(islice(rounds_of(names, seed=3), 400))
    for blocks in rounds:
        assert sorted(blocks[: len(names)]) == names
        assert blocks == blocks[::-1]
    first = sum(blocks[0] == "a" for blocks in rounds)
    assert 300 / len(names) < first < 500 / len(names), "every order comes about equally often"
    assert rounds == list(islice(rounds_of(names, seed=3), 400)) != list(islice(rounds_of(names, seed=4), 400))


def test_blocks_run_in_the_stored_order_with_the_count_of_steps_of_the_first_launch(machine: FakeMachine) -> None:
    def slow_down(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if command == "warm" and len(machine.commands("warm")) > 2:
            machine.step_s = {"baseline": 0.2, "optimized": 0.1}

    machine.before = slow_down
    record = machine.measure(info())
    stored = [name for launch in record.launches for name in launch.variant]
    timed = machine.commands("block")[-len(stored) :]  # what comes before settles how many steps a block has
    assert [words["variant"] for words in timed] == stored
    assert {words["steps"] for words in timed} == {record.steps}


def test_a_launch_tells_how_many_cores_others_kept_busy(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {launch.others for launch in machine.measure(info()).launches} == {-1.0}
    moments = (float(number) for number in count())
    monkeypatch.setattr(Usage, "now", classmethod(lambda cls: cls(now := next(moments), 1.5 * now, 0.5 * now)))
    assert {launch.others for launch in machine.measure(info()).launches} == {1.0}


# ---- each side alone ----


def test_sides_without_threads_or_children_are_not_timed_alone(machine: FakeMachine) -> None:
    assert [launch.stretches for launch in machine.measure(info()).launches] == [{}] * 4
    assert not machine.commands("stretch")


def test_sides_with_threads_are_timed_alone_in_the_first_launch(machine: FakeMachine) -> None:
    """For as long as the blocks of both sides, each in a fresh process."""
    machine.alone_s, machine.helpers["threads"] = machine.step_s, True
    record = machine.measure(info())
    first, *others = record.launches
    assert [set(launch.stretches) for launch in (first, *others)] == [{"baseline", "optimized"}, *[set()] * len(others)]
    lasting = [(worker, words["seconds"]) for worker, command, words in machine.requests if command == "stretch"]
    assert [seconds for _, seconds in lasting] == [pytest.approx(sum(first.seconds))] * 2
    assert all("block" not in dict(worker.requests) for worker, _ in lasting)
    assert len({id(worker) for worker, _ in lasting}) == 2
    assert all(worker.ended for worker, _ in lasting)


@pytest.mark.parametrize("side", ["baseline", "optimized"])
def test_a_side_that_is_slower_alone_is_looked_at_again_and_fails_by_name(machine: FakeMachine, side: str) -> None:
    machine.alone_s, machine.helpers["threads"] = {**machine.step_s, side: 1.2 * machine.step_s[side]}, True
    record = machine.measure(info())
    assert (record.outcome, record.kind) == ("failed", "works ahead")
    assert record.reason.startswith(f"{side}: works ahead between blocks")
    assert len(machine.commands("stretch")) == 2 * LEAST_STRETCHES


def test_pairs_that_load_in_worker_processes_are_judged_by_each_side_alone(machine: FakeMachine) -> None:
    """What lay ready for a block is not counted, and such a pair does not fail."""
    machine.alone_s, machine.helpers["children"] = {"baseline": 0.03, "optimized": 0.015}, True
    record = machine.measure(info())
    (judged,) = judge(record, PLAN.rules, PLAN.cores)
    assert judged.verdict == "faster"
    assert judged.speedup == pytest.approx(2.0)
    assert {launch.by_stretch for launch in record.launches} == {True}
    assert {launch.rounds for launch in record.launches} == {1}
    alone = [(worker, words["seconds"]) for worker, command, words in machine.requests if command == "stretch"]
    assert {seconds for _, seconds in alone} == {PLAN.limits.longest_s}
    assert len({id(worker) for worker, _ in alone}) == len(alone) == 2 * len(record.launches)
    built = [worker for worker, command, _ in machine.requests if command == "build"]
    assert len(built) == 2 * len(record.launches) + 2, "from the second launch on each side is built once"


def test_launches_of_a_pair_are_judged_alike_whoever_made_the_first(machine: FakeMachine) -> None:
    """As in a run of an earlier version that is resumed."""
    complete_record = machine.measure(info())
    begun = {complete_record.name: replace(complete_record, launches=complete_record.launches[:1])}
    machine.alone_s, machine.helpers["children"] = machine.step_s, True
    *_, record = machine.run([info()], begun=begun)
    assert len(record.launches) > 1
    assert {launch.by_stretch for launch in record.launches} == {False}


@pytest.mark.parametrize(
    ("ratios", "fails"),
    [((1.2, 1.2), False), ((1.2, 1.2, 1.2, 1.0), False), ((1.09,) * 5, False), ((1.2, 1.21, 1.22, 1.21), True)],
)
def test_a_side_fails_if_all_of_its_interval_is_above_a_tenth(ratios: Sequence[float], fails: bool) -> None:
    """The end of each stretch counts, when what lay ready at its beginning is used up."""
    launches = [replace(launch_of(0.0), stretches={"optimized": (0.1, ratio, ratio)}) for ratio in ratios]
    assert (works_ahead(launches, "optimized") is not None) is fails


# ---- steps a block ----


@pytest.mark.parametrize(("step_s", "steps"), [(0.001, 5), (1.0, 1)])
def test_the_faster_variants_block_lasts_long_enough(step_s: float, steps: int) -> None:
    """That is 5 ms; a step that is longer is a block by itself."""
    assert FakeMachine({"baseline": 2 * step_s, "optimized": step_s}).measure(info()).steps == steps


@pytest.mark.parametrize("said", [{"optimized": 0.0018}, {"optimized": 0.0002}, {"baseline": 0.0001}])
def test_what_the_warm_up_said_beside_others_is_put_right_alone(machine: FakeMachine, said: dict[str, float]) -> None:
    """It may even have called the slower side the faster one."""
    machine.warm_s = said
    assert machine.measure(info()).steps == 5


def test_a_clock_that_never_moves_does_not_hold_it_up(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "seconds", lambda variant, seed, steps: 0.004)
    record = machine.measure(info())
    assert record.outcome == "measured"
    assert len(machine.commands("block")) - sum(len(launch.variant) for launch in record.launches) <= 20


# ---- rounds ----


@pytest.mark.parametrize(
    ("spread", "prepare_s", "round_s", "rounds"),
    [
        (0.0, 10.0, 0.02, 10),  # rounds that agree: the least
        (0.03, 0.4, 0.1, 20),  # (0.03 / 0.003) x sqrt(0.4 / 0.1)
        (0.03, 0.9, 0.05, 40),  # dearer to prepare: more out of each
        (0.045, 0.4, 0.05, 40),  # rounds that differ by more: more of them
        (1.0, 10.0, 0.01, 40),  # never more than the most
        (1.0, 10.0, 0.5, 4),  # nor than there is time for: 2 s
        (0.0, 10.0, 2.0, 1),  # not even the least, where those take longer
    ],
)
def test_rounds_follow_from_their_spread_and_from_what_a_launch_costs(
    spread: float, prepare_s: float, round_s: float, rounds: int
) -> None:
    assert LIMITS.rounds_for(spread, prepare_s, round_s) == rounds


@pytest.mark.usefixtures("clock")
def test_a_launch_has_the_rounds_that_its_profile_finds_after_the_first_ones(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spike in one of them is no spread."""
    monkeypatch.setattr(Limits, "rounds_for", rounds_for := Mock(return_value=7))
    seconds, blocks = machine.seconds, count()
    pilot = 5

    def with_a_spike(variant: str, seed: int, steps: int) -> float:
        return seconds(variant, seed, steps) * (100 if next(blocks) == pilot + 6 else 1)

    machine.seconds = with_a_spike  # type: ignore[method-assign]
    record = machine.measure(info(), replace(PLAN, limits=Limits((5, 40), 6.0)))
    assert record.launches[0].rounds == 7
    (asked,) = rounds_for.call_args_list
    assert asked.args == pytest.approx((0.0, 2.0, 0.04)), "by the clock, which moves by 10 ms a block"
    stored = sum(len(launch.variant) for launch in record.launches)
    assert len(machine.commands("block")) == pilot + stored, "no block of the first rounds is thrown away"


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("block_s", "rounds"), [(1.0, TRIED), (20.0, 1)])
def test_a_launch_of_very_long_rounds_has_those_it_tried(machine: FakeMachine, block_s: float, rounds: int) -> None:
    """Or one, where that takes several times as long as all may."""
    machine.cost_s["block"] = block_s
    assert {launch.rounds for launch in machine.measure(info()).launches} == {rounds}


def launch_of(*effects: float) -> Launch:
    """Of a round for each effect."""
    seconds = [("baseline", 1.0), ("optimized", 0.0), ("optimized", 0.0), ("baseline", 1.0)]
    nothing = {"steal_ticks": 0, "throttled_us": 0, "pressure_us": 0}
    return Launch.of_blocks(
        0,
        len(effects),
        [
            {"variant": name, "seconds": own or math.exp(-effect), **nothing}
            for effect in effects
            for name, own in seconds
        ],
    )


@pytest.mark.parametrize(
    ("middle", "rounds"),
    [
        (MARGIN, 30),  # at a margin: as many as the first launch has
        (0.5 * MARGIN, 30),  # between the margins too
        (MARGIN + 0.2, 9),  # noise of 0.06 / sqrt(9) is a tenth of 0.2
        (-MARGIN - 0.2, 9),
        (MARGIN + 0.3, 4),
        (MARGIN + 0.7, 2),  # one would do, but of rounds as long as these two are the fewest
        (MARGIN + 0.02, 898),
    ],
)
def test_a_further_launch_needs_fewer_rounds_the_farther_the_effect_is_from_margins(middle: float, rounds: int) -> None:
    far = 0.0599 * 0.6745  # the median deviation of a standard deviation of 0.0599
    noisy = [middle, *[middle - far] * 19, *[middle + far] * 18, 5.0]
    assert rounds_enough([launch_of(*noisy[:30]), launch_of(*noisy[30:])], "optimized", 30) == rounds


def test_of_short_rounds_five_are_the_fewest() -> None:
    long = launch_of(0.69, 0.7, 0.71)
    short = replace(long, seconds=tuple(each / 100 for each in long.seconds))
    assert [rounds_enough([launch], "optimized", 9) for launch in (long, short)] == [2, 5]


def test_only_further_launches_have_fewer_rounds_and_the_nearest_variant_chooses(machine: FakeMachine) -> None:
    assert [launch.rounds for launch in machine.measure(info()).launches] == [10, 5, 5, 5]
    both = FakeMachine({"baseline": 0.01, "clear": 0.005, "null": 0.01})
    record = both.measure(info(variants=["clear", "null"]))
    assert {launch.rounds for launch in record.launches if "null" in launch.variant} == {10}


def test_what_six_launches_do_not_decide_has_as_many_rounds_as_may_be(machine: FakeMachine) -> None:
    """The first launch met a calm moment, and chose few."""
    drawn = random.Random(0)
    machine.seconds = lambda variant, seed, steps: (  # type: ignore[method-assign]
        0.01 * steps * math.exp(drawn.gauss(0.0, 0.15 if seed else 0.0))
    )
    found = machine.measure(info())
    rounds = [launch.rounds for launch in found.launches]
    assert (set(rounds[:6]), set(rounds[6:])) == ({10}, {40})


@pytest.mark.parametrize(("step_s", "long"), [(0.019, False), (0.02, True)])
def test_between_two_blocks_of_a_side_no_untimed_step_is_made_where_steps_are_long(step_s: float, long: bool) -> None:
    machine = FakeMachine({"baseline": step_s, "optimized": step_s})
    machine.measure(info())
    for group in launches(machine):
        blocks = [arguments for worker in group for command, arguments in worker.requests if command == "block"]
        alike = [False, *(before["variant"] == now["variant"] for before, now in pairwise(blocks))]
        assert [words["again"] for words in blocks] == [long and same for same in alike]
        assert any(alike)


# ---- which are timed ----


@pytest.mark.parametrize(("spread", "count"), [(0.0, 4), (0.05, 12), (0.2, 18)])
def test_every_launch_may_be_the_last(spread: float, count: int) -> None:
    machine = FakeMachine({"baseline": 0.001, "optimized": 0.001}, spread)
    assert len(machine.measure(info()).launches) == count


@pytest.mark.parametrize("scale", ["macro", "micro"])
def test_of_a_whole_job_what_the_answer_is_about_is_timed_first(scale: str) -> None:
    machine = FakeMachine({"baseline": 0.1, "optimized": 0.1, "clear": 0.05, "close": 0.1}, spread=0.018)
    about = info("Several", ["clear", "optimized", "close"], scale=scale, worded="optimized")
    record = machine.measure(about)
    timed = [set(launch.variant) - {"baseline"} for launch in record.launches]
    if scale == "micro":
        assert timed[0] == {"clear", "optimized", "close"}
    else:
        count = timed.index({"clear", "close"})
        assert timed == [*[{"optimized"}] * count, {"clear", "close"}, *[{"clear"}] * 3]
    assert is_answered(record, FIRST, 2)
    close = "inconclusive" if scale == "macro" else "at most 3 %"
    assert {judged.verdict for judged in judge(record, FIRST, 2)} == {"faster", close}, "a job within 5 % is done"
    assert restored(asdict(record)) == record


@pytest.mark.usefixtures("clock")
def test_a_new_pair_does_not_wait_for_ways_that_no_answer_is_about(machine: FakeMachine) -> None:
    machine.step_s["other"] = 0.002
    sides = {"scale": "macro", "worded": "optimized"}
    pairs = [info(name, ["optimized", "other"], tip=tip(name), **sides) for name in ("First", "Second", "Third")]
    records = list(machine.run(pairs))
    begun = next(place for place, record in enumerate(records) if record.info.pair == "Third")
    timed = [{name for launch in record.launches for name in launch.variant} for record in records]
    assert "other" not in set().union(*timed[:begun])
    assert "other" in timed[-1]


@pytest.mark.usefixtures("clock")
def test_all_sides_of_tips_followed_together_are_timed_from_the_start(machine: FakeMachine) -> None:
    machine.step_s["other"] = 0.002
    *_, last = machine.run([info("Together", ["optimized", "other"], scale="macro")])
    assert set(last.launches[0].variant) == {"baseline", "optimized", "other"}


@pytest.mark.parametrize(
    ("gain", "claim", "asked"), [(0.3, Claim.FASTER, 1), (-0.3, Claim.FASTER, 2), (-0.3, Claim.LEANER, 1)]
)
def test_where_the_way_that_is_asked_for_costs_the_others_are_too(gain: float, claim: Claim, asked: int) -> None:
    about = info("Several", ["optimized", "other"], scale="macro", worded="optimized", tip=tip("a", claim=claim))
    assert len(headline_variants(measured(about, {"optimized": gain, "other": 0.0}), FIRST, 2)) == asked


@pytest.mark.parametrize(("device", "first"), [("cpu", "amp"), ("cuda", "precision")])
def test_on_a_card_comes_first_what_its_owners_ask(device: str, first: str) -> None:
    pairs = [info("Job", tip=tip(name), scale="macro", device=device) for name in ("x", "precision", "amp")]
    assert first_of_tips(pairs)[0].tip.id == first


def test_further_ways_of_a_whole_job_are_checked_when_they_are_due() -> None:
    machine = FakeMachine({"baseline": 0.1, "optimized": 0.05, "other": 0.05}, spread=0.018)
    about = info("Several", ["optimized", "other"], scale="macro", worded="optimized")
    records = list(machine.run([about]))
    checks = [{*record.variants} - {"baseline"} for record in records]
    assert checks[0] == {"optimized"}
    assert checks[-1] == {"optimized", "other"}
    first = next(place for place, names in enumerate(checks) if "other" in names)
    assert judge(records[first], FIRST, 2)[0].verdict == "faster", "what the answer is about is decided before"
    assert complete(records[-1], FIRST, 2)

    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if command == "results" and arguments["variant"] == "baseline" and machine.commands("block"):
            raise WorkerFailed(Reason("killed", {"doing": "made up"}), "baseline")

    machine = FakeMachine({"baseline": 0.1, "optimized": 0.05, "other": 0.05})
    machine.before = before
    (*_, record) = machine.run([about])
    assert [variant.outcome for variant in record.variants.values()] == ["measured", "measured", "failed"]


def test_further_ways_are_timed_where_the_one_that_is_asked_for_cannot_be() -> None:
    machine = FakeMachine({"baseline": 0.1, "optimized": 0.1, "other": 0.05})
    machine.before = failing("error", "results", "optimized")
    record = machine.measure(info("Several", ["optimized", "other"], scale="macro", worded="optimized"))
    assert [set(launch.variant) for launch in record.launches] == [{"baseline", "other"}] * 4


def test_sides_that_come_later_are_timed_alone_in_their_first_launch() -> None:
    machine = FakeMachine({"baseline": 0.1, "optimized": 0.05, "other": 0.05})
    machine.alone_s, machine.helpers["threads"] = machine.step_s, True
    record = machine.measure(info("Several", ["optimized", "other"], scale="macro", worded="optimized"))
    looked = [set(launch.stretches) for launch in record.launches]
    assert looked == [{"baseline", "optimized"}, *[set()] * 3, {"baseline", "other"}, *[set()] * 3]


def test_a_variant_that_is_decided_leaves_the_further_launches() -> None:
    machine = FakeMachine({"baseline": 0.01, "clear": 0.005, "close": 0.01}, spread=0.3)
    record = machine.measure(info(variants=["clear", "close"]))
    assert [len(set(launch.variant)) for launch in record.launches] == [3] * 4 + [2] * 14
    assert all("close" in launch.variant for launch in record.launches)
    assert restored(asdict(record)) == record


def test_every_launch_has_a_seed_of_its_own_from_the_runs_and_the_check_several(machine: FakeMachine) -> None:
    record = machine.measure(info(), replace(PLAN, seed=40))
    assert [launch.seed for launch in record.launches] == [40, 41, 42, 43]
    built = [words["seed"] for words in machine.commands("build")]
    assert built == [seed for launch in record.launches for seed in (launch.seed, launch.seed)]
    assert {tuple(words["seeds"]) for words in machine.commands("results")} == {(40, 41)}


@pytest.mark.parametrize("variants", [("optimized",), ("optimized", "other")])
def test_sides_are_built_and_warmed_up_in_a_drawn_order_and_next_in_its_reverse(variants: tuple[str, ...]) -> None:
    """Of two identical sides the one that was built last was the faster one."""
    machine = FakeMachine(dict.fromkeys(("baseline", *variants), 0.01), spread=0.04)
    begun: set[tuple[str, ...]] = set()
    for seed in range(0, 400, 40):
        machine.requests.clear()
        record = machine.measure(info(variants=list(variants)), replace(PLAN, seed=seed))
        built, warmed = ([words["variant"] for words in machine.commands(name)] for name in ("build", "warm"))
        assert built == warmed
        count = 1 + len(variants)
        orders = [tuple(built[at : at + count]) for at in range(0, len(built), count)]
        assert len(orders) == len(record.launches) >= 4
        assert orders[1::2] == [order[::-1] for order in orders[0::2]][: len(orders) // 2]
        begun |= set(orders)
    assert begun == set(permutations(("baseline", *variants)))


def test_a_job_that_pairs_share_has_one_card(machine: FakeMachine) -> None:
    shared = {"job": "TrainGPT", "scale": "macro"}
    larger = info("Larger", **shared, sizes={"batch": 64})
    pairs = [info("First", **shared), info("Second", **shared), larger, info("Micro")]
    found = {record.info.pair: record for record in machine.run(pairs)}
    cards = [[launch.card for launch in record.launches] for record in found.values()]
    assert sum(bool(card) for listed in cards for card in listed) == 2
    assert all(not card for listed in cards for card in listed[1:]), "it belongs to a first launch"
    assert found["Larger"].launches[0].card == {"flops": 1000}
    assert not found["Micro"].launches[0].card


# ---- the order of a run ----


@pytest.mark.parametrize(("budget_s", "checked"), [(math.inf, 4), (runner.SHORT_S, 3)])
def test_several_pairs_are_checked_before_any_is_launched_fewer_in_a_short_run(budget_s: float, checked: int) -> None:
    machine = close()
    list(machine.run(PAIRS, replace(PLAN, at_once=3, budget_s=budget_s)))
    commands = [command for _, command, _ in machine.requests]
    assert commands[: commands.index("build")].count("compare") == checked


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_whole_job_of_each_tip_has_a_number_before_other_pairs_are_checked(at_once: int) -> None:
    nowhere = info("Nowhere", tip=tip("other"), scale="macro", why=Reason("needs.cuda", {"wanted": 1}))
    whole = info("Whole", tip=tip("other"), scale="macro")
    pairs = [info("Alone"), info("Another"), info("Operation", tip=tip("other")), nowhere, whole]
    records = [one for one in close().run(pairs, replace(PLAN, at_once=at_once)) if one.outcome == "measured"]
    learnt = [(record.info.pair, len(record.launches)) for record in records]
    places = [learnt.index(place) for place in (("Alone", 0), ("Whole", 1), ("Another", 0), ("Operation", 0))]
    assert places == sorted(places), "the tip of the second has no whole job"
    begin = places[-1]
    done = {record.info.pair for record in records[:begin] if is_answered(record, FIRST, 2)}
    assert done == {"Alone", "Whole", "Another"}


def test_pairs_are_checked_at_the_same_time(machine: FakeMachine) -> None:
    both = threading.Barrier(2)

    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if (command, arguments.get("variant")) == ("observe", "baseline"):
            both.wait(ENOUGH_S)

    machine.before = before
    found = {record.name: record for record in machine.run(PAIRS[:2], replace(PLAN, at_once=2))}
    assert [record.outcome for record in found.values()] == ["measured"] * 2


@pytest.mark.parametrize("at_once", [1, 3])
def test_one_off_costs_are_measured_where_claimed_and_last_where_a_tip_pays(machine: FakeMachine, at_once: int) -> None:
    sooner = replace(info("Sooner"), tip=tip(claim=Claim.SOONER))
    plan = replace(PLAN, at_once=at_once)
    learnt = [
        (record.info.pair, bool(record.variants["optimized"].one_off)) for record in machine.run([*PAIRS, sooner], plan)
    ]
    assert next(pair for pair, is_measured in learnt if is_measured) == "Sooner"
    assert {pair for pair, is_measured in learnt if is_measured} == {"Sooner", *(pair.pair for pair in PAIRS)}
    machine.step_s["optimized"] = machine.step_s["baseline"]
    assert not any(record.variants["optimized"].one_off for record in machine.run(PAIRS, plan)), "nothing pays"


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("of", [tip(CONTROL), tip("grad-none", status="default now (since torch 2.0)")])
def test_what_no_answer_waits_for_waits_for_the_answers(machine: FakeMachine, of: dict[str, Any]) -> None:
    machine.step_s["optimized"], machine.spread = machine.step_s["baseline"], 0.1
    control = info("Control", tip=of, scale="macro")
    others = [info(name, tip=tip(name.lower()), scale="macro") for name in ("First", "Second", "Third")]
    launches: dict[str, int] = {}
    waiting, then = {other.name for other in others}, 0
    for record in machine.run([control, *others]):
        launches[record.name] = len(record.launches)
        if record.name in waiting and is_answered(record, FIRST, 2):
            waiting.remove(record.name)
            then = then or (0 if waiting else launches[control.name])
    assert then < min(launches.values()), launches


@pytest.mark.usefixtures("clock")
def test_a_first_whole_job_is_answered_before_a_second_one_of_its_tip_that_costs_less(machine: FakeMachine) -> None:
    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        machine.now += 1.0 if (command, worker.pair) == ("build", "Other") else 0.0

    machine.step_s["optimized"], machine.spread, machine.before = machine.step_s["baseline"], 0.006, before
    first = measured(info("First", scale="macro"), {"optimized": 0.3})
    second, other = info("Second", scale="macro"), info("Other", scale="macro", tip=tip("other"))
    found: list[str] = []
    for record in machine.run([first.info, second, other, info("Operation")], begun={first.name: first}):
        if record.info != first.info and is_answered(record, FIRST, 2) and record.info.pair not in found:
            found.append(record.info.pair)
    assert found == ["Other", "Second", "Operation"]


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_no_pair_is_launched_twice_in_a_row_while_another_is_open(at_once: int, seed: int) -> None:
    plan = replace(PLAN, at_once=at_once, seed=seed)
    open_pairs: dict[str, Record] = {}
    last = ""
    for record in close().run(PAIRS, plan):
        before = open_pairs.pop(record.name, record)
        if len(record.launches) > len(before.launches):
            assert record.name != last or not open_pairs
        if not is_answered(record, FIRST, 2):
            open_pairs[record.name] = record
        last = record.name if record.launches else ""
    assert not open_pairs


@pytest.mark.parametrize(("at_once", "room", "prepared"), [(1, math.inf, 1), (3, math.inf, 4), (3, 1.0, 1)])
def test_the_next_launches_of_several_pairs_are_prepared_together_where_there_is_room(
    at_once: int, room: float, prepared: int
) -> None:
    machine, together = close(), set()

    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if command == "block":
            together.add(len({each.pair for each in machine.workers if not each.ended}))

    machine.before = before
    list(machine.run(PAIRS, replace(PLAN, at_once=at_once, room=room)))
    assert max(together) == prepared


def test_on_a_card_launches_are_prepared_together_once_it_is_known_that_they_fit() -> None:
    """Memory passes are not: a card's free memory is the same for all."""
    machine, together = close(spread=0.1), []
    leaner = [replace(each, tip=replace(each.tip, claim=Claim.LEANER)) for each in PAIRS]
    machine.card_bytes = {info.pair: 10 for info in PAIRS}

    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if command in ("block", "measure_memory"):
            together.append((command, len({each.pair for each in machine.workers if not each.ended})))

    machine.before = before
    list(machine.run(leaner, replace(PLAN, at_once=3, card_room=35.0)))
    launches, memory = ([count for what, count in together if what == of] for of in ("block", "measure_memory"))
    assert (launches[0], max(launches), max(memory)) == (1, 3, 1)  # before the first nothing is known


def test_a_further_way_that_finds_the_card_full_beside_others_is_checked_again_by_itself() -> None:
    machine = FakeMachine({"baseline": 0.1, "optimized": 0.05, "other": 0.05})
    sides = {"scale": "macro", "worded": "optimized"}
    pairs = [info(name, ["optimized", "other"], tip=tip(name), **sides) for name in ("First", "Second")]
    machine.card_bytes = {each.pair: 10 for each in pairs}
    full: list[str] = []

    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if (command, arguments.get("variant")) == ("observe", "other") and not full:
            full.append(worker.pair)
            raise WorkerFailed(Reason("out-of-memory", {}, "CUDA out of memory"), "other")

    def outcomes() -> set[str]:
        full.clear()
        found = {each.name: each for each in machine.run(pairs, replace(PLAN, at_once=2, card_room=100.0))}
        return {way.outcome for record in found.values() for way in record.variants.values()}

    machine.before = before
    # Whether both are due at a time depends on the clock; one that is checked by itself from the first fails.
    assert any(outcomes() == {"measured"} and full for _ in range(5))


@pytest.mark.parametrize("command", ["observe", "warm", "block"])
def test_who_finds_the_card_full_beside_others_is_tried_again_by_itself(command: str) -> None:
    machine = close(spread=0.1)
    full: list[FakeWorker] = []
    machine.card_bytes = {info.pair: 10 for info in PAIRS}

    def before(worker: FakeWorker, given: str, arguments: dict[str, Any]) -> None:
        beside = {each.pair for each in machine.workers if not each.ended}
        if given == command and worker.pair == PAIRS[0].pair and not full and (given == "observe" or len(beside) > 1):
            full.append(worker)
            raise WorkerFailed(Reason("out-of-memory", {}, "CUDA out of memory"))

    machine.before = before
    found = {record.name: record for record in machine.run(PAIRS, replace(PLAN, at_once=4, card_room=100.0))}
    assert len(full) == 1
    assert {record.outcome for record in found.values()} == {"measured"}
    assert {variant.outcome for record in found.values() for variant in record.variants.values()} == {"measured"}
    assert len({len(record.launches) for record in found.values()}) == 1


@pytest.mark.parametrize(
    ("cards", "room"),
    [
        ([{"memory_bytes": 16 << 30, "compute_mode": "default", "mig": False}], 8 << 30),
        ([{"memory_bytes": 16 << 30, "compute_mode": "default", "mig": UNAVAILABLE}], 8 << 30),
        ([{"memory_bytes": 16 << 30, "compute_mode": "exclusive_process", "mig": False}], 0),
        ([{"memory_bytes": 16 << 30, "compute_mode": "default", "mig": True}], 0),
        ([{"memory_bytes": DENIED, "compute_mode": "default", "mig": False}], 0),
        ([], 0),
        (UNAVAILABLE, 0),
    ],
)
def test_half_of_the_smallest_card_is_for_launches_where_it_is_known_and_shared(cards: Any, room: int) -> None:
    assert card_room(cards) == room


# ---- workers ----


def test_every_launch_has_a_process_that_both_variants_share_and_memory_fresh_ones(machine: FakeMachine) -> None:
    machine.measure(info())
    groups = list(launches(machine))
    assert [len(group) for group in groups] == [1] * 4
    assert len({id(worker) for group in groups for worker in group}) == 4
    assert [worker.served for worker in machine.workers] == [CHECKS, 0, 1, 2, 3, None, None]
    assert all(worker.ended for worker in machine.workers)


def apart(name: str = "Pair") -> PairInfo:
    """Two variants with the baseline's process settings, one with its own."""
    listed = [
        VariantInfo("baseline", A_SIDE, ()),
        VariantInfo("optimized", B_SIDE, ()),
        VariantInfo("other", A_SIDE, ()),
    ]
    return replace(info(name), variants=tuple(listed))


def test_own_settings_are_an_own_process_in_the_same_launch_and_still_interleave() -> None:
    machine = three()
    record = machine.measure(apart())
    for group in launches(machine):
        assert {worker.settings for worker in group} == {A_SIDE, B_SIDE}
        assert [worker.served for worker in group] == [None, None], "neither is forked"
    timed = [worker.settings for worker, command, _ in machine.requests if command == "block"]
    changes = sum(before != after for before, after in pairwise(timed))
    assert changes > len(record.launches) * 2
    for worker in machine.workers:
        assert all(
            (worker.settings == B_SIDE) == (arguments["variant"] == "optimized")
            for command, arguments in worker.requests
            if command in ("build", "warm", "block", "measure_memory", "observe")
        )


@pytest.mark.parametrize("at_once", [1, 3])
def test_while_anything_is_measured_nothing_else_runs(at_once: int) -> None:
    """Neither the other processes of its launch, nor what is prepared of other pairs."""
    machine = three()
    others: list[tuple[str, str]] = []

    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if command in ("block", "measure_memory"):
            assert worker in machine.running
            others.extend((command, each.pair) for each in machine.running - {worker})

    machine.before = before
    list(machine.run([apart("First"), apart("Second"), info("Third", ["optimized", "other"])],
                     replace(PLAN, at_once=at_once)))  # fmt: skip
    assert machine.commands("block")
    assert not others
    assert all(worker.ended for worker in machine.workers)


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
    assert found["optimized"].memory == found["baseline"].memory == {"tensor_peak": 100, "resident_peak": 200}
    assert found["optimized"].one_off == {"build": 0.1, "warm_up": 0.2}
    assert found["optimized"].equal["worst"] == 0.0


# ---- interrupted ----


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("command", ["results", "observe", "compare", "measure_memory", "build", "warm", "block"])
def test_all_workers_are_ended_whatever_happens(error: type[BaseException], command: str, at_once: int) -> None:
    machine = three()

    def before(worker: FakeWorker, given: str, arguments: dict[str, Any]) -> None:
        if (given, arguments.get("variant"), worker.pair) == (command, "optimized", "Second"):
            raise error

    machine.before = before
    with pytest.raises(error):
        list(machine.run([apart(name) for name in ("First", "Second", "Third")], replace(PLAN, at_once=at_once)))
    assert machine.workers
    assert all(worker.ended for worker in machine.workers)


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Interrupts the main thread once, from another one."""
    arrived = threading.Event()

    def interrupted(*_: object) -> None:
        if not arrived.is_set():
            arrived.set()
            raise KeyboardInterrupt

    def interrupt() -> None:
        # Python does not see one that comes just as a thread goes to sleep.
        while not arrived.wait(0.02):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupted)
    yield interrupt
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("command", ["results", "ready", "build", "warm"])
def test_ctrl_c_ends_workers_that_threads_await(machine: FakeMachine, command: str, ctrl_c: Callable[[], None]) -> None:
    def before(worker: FakeWorker, given: str, arguments: dict[str, Any]) -> None:
        if given == command and worker.pair != "First":
            ctrl_c()
            worker.hang()

    machine.before = before
    with pytest.raises(KeyboardInterrupt), closing(machine.run(PAIRS, replace(PLAN, at_once=2))) as records:
        list(records)
    assert all(worker.ended for worker in machine.workers)


def test_whoever_stops_listening_ends_what_is_still_being_checked(machine: FakeMachine) -> None:
    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if worker.pair == "Second":
            worker.hang()

    machine.before = before
    with closing(machine.run(PAIRS[:2], replace(PLAN, at_once=2))) as records:
        assert next(records).info.pair == "First"
    assert machine.workers
    assert all(worker.ended for worker in machine.workers)


# ---- failures ----


@pytest.mark.parametrize(
    "command", ["results", "compare", "observe", "build", "warm", "block", "ready", "measure_memory"]
)
def test_a_variant_that_fails_is_dropped_and_the_rest_is_measured(command: str) -> None:
    machine = three()
    machine.before = failing("crashed", command, "optimized")
    record = machine.measure(info(variants=("optimized", "other")))
    assert record.outcome == "measured"
    assert (record.variants["optimized"].outcome, record.variants["optimized"].kind) == ("failed", "crashed")
    assert record.variants["optimized"].reason == "optimized: made up"
    assert record.variants["other"].outcome == "measured"
    assert record.variants["other"].memory
    with_it = 4 if command in ("ready", "measure_memory") else 0  # launches come before these
    assert ["optimized" in launch.variant for launch in record.launches] == [True] * with_it + [False] * (4 - with_it)
    assert all({"baseline", "other"} <= set(launch.variant) for launch in record.launches)
    assert restored(asdict(record)) == record
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
def test_where_all_variants_that_can_run_fail_it_is_said_why(machine: FakeMachine, lacking: tuple[str, ...]) -> None:
    machine.before = failing("different results", "compare", "optimized")
    record = machine.measure(without(*lacking) if lacking else info())
    assert (record.outcome, record.kind) == ("failed", "different results")
    assert record.variants["optimized"].kind == "different results"
    assert not record.launches
    assert machine.commands("measure_memory") == machine.commands("build") == [], "nothing is measured of unequal work"


def test_a_failure_in_a_later_launch_leaves_no_half_measured_record(machine: FakeMachine) -> None:
    machine.before = failing("hang", "block", served=2)
    record = machine.measure(info())
    assert (record.outcome, record.kind, record.launches) == ("failed", "hang", ())
    restored(asdict(record))


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("command", ["results", "ready", "build", "warm", "block", "measure_memory"])
def test_a_pair_that_fails_fails_alone(machine: FakeMachine, command: str, at_once: int) -> None:
    machine.before = failing("crashed", command, pair="Second")
    found = {record.info.pair: record for record in machine.run(PAIRS, replace(PLAN, at_once=at_once))}
    assert {name: record.outcome for name, record in found.items()} == {
        **dict.fromkeys(("First", "Third", "Fourth"), "measured"),
        "Second": "failed",
    }
    assert [name for name, record in found.items() if not complete(record, FIRST, 2)] == ["Second"], (
        "may be tried again"
    )
    assert all(worker.ended for worker in machine.workers)


def test_a_file_that_could_not_be_imported_is_told_and_starts_nothing(machine: FakeMachine) -> None:
    broken = Record(info("First"), "failed", Reason("import-error.made-up", {}, "no such module"))
    assert list(machine.run([info("First")], broken={broken.name: broken})) == [broken]
    assert not machine.workers


# ---- what is learnt, and gone on with ----


def test_what_is_learnt_is_yielded_as_soon_as_it_is_known(machine: FakeMachine) -> None:
    found = list(machine.run([info()]))
    assert [(len(record.launches), bool(record.variants["optimized"].one_off)) for record in found] == [
        *((count, False) for count in range(5)),
        (4, True),
    ]
    assert [is_answered(record, FIRST, 2) for record in found] == [False] * 4 + [True] * 2
    assert [complete(record, FIRST, 2) for record in found] == [False] * 5 + [True]


@pytest.mark.parametrize("begun", range(5))
def test_a_pair_that_was_interrupted_is_gone_on_with(machine: FakeMachine, begun: int) -> None:
    """With no launch, with some, and with all of them but without its memory."""
    found = list(machine.run([info()]))
    before = found[begun]
    machine.requests.clear()
    further = list(machine.run([info()], begun={before.name: before}))
    assert [replace(record, wall_s=0.0) for record in further] == [
        replace(record, wall_s=0.0) for record in found[begun + 1 :]
    ]
    assert not machine.commands("results")
    assert len(machine.commands("build")) == 2 * (4 - len(before.launches))


@pytest.mark.parametrize(("kind", "tried"), [("killed", True), ("step raised", True), ("not engaged", False)])
def test_what_need_not_fail_again_is_tried_again_by_a_resumed_run(kind: str, tried: bool) -> None:
    machine, about = three(), info(variants=("optimized", "other"))
    machine.before = failing(kind, "results", "optimized")
    before = machine.measure(about)
    machine.before = lambda worker, command, arguments: None
    *_, after = [before, *machine.run([about], begun={about.name: before})]
    assert after.variants["optimized"].outcome == ("measured" if tried else "failed")
    assert sum("optimized" in launch.variant for launch in after.launches) == (4 if tried else 0)
    assert after.launches[: len(before.launches)] == before.launches
    assert restored(asdict(after)) == after


@pytest.mark.parametrize(("kind", "tried"), [("hang", True), ("different results", False)])
def test_a_pair_that_need_not_fail_again_is_measured_when_resumed(machine: FakeMachine, kind: str, tried: bool) -> None:
    machine.before = failing(kind, "block", "baseline")
    before = machine.measure(PAIRS[0])
    machine.before = lambda worker, command, arguments: None
    *_, after = [before, *machine.run(PAIRS[:1], begun={} if complete(before, FIRST, 2) else {before.name: before})]
    assert before.outcome == "failed"
    assert complete(before, FIRST, 2) != tried
    assert after.outcome == "measured"


def test_a_pair_that_has_changed_since_it_was_interrupted_begins_anew(machine: FakeMachine) -> None:
    *_, third, whole = machine.run([info()])
    machine.requests.clear()
    anew = list(machine.run([info(sizes={"elements": 7})], begun={third.name: third}))
    assert machine.commands("results")
    assert [len(record.launches) for record in anew] == [0, 1, 2, 3, 4, 4]
    assert anew[-1].launches == whole.launches


# ---- the time of a run ----


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_check_that_is_not_over_in_time_is_ended_and_its_pair_left_open(machine: FakeMachine, at_once: int) -> None:
    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if worker.pair == "Second":
            machine.now = 100.0
            worker.hang()

    machine.before = before
    learnt = list(machine.run(PAIRS[:2], replace(PLAN, at_once=at_once, budget_s=50.0)))
    assert "Second" not in {record.info.pair for record in learnt}
    assert all(worker.ended for worker in machine.workers)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("budget_s", [0.5, 9.0, 15.0, 22.0, 33.0, 50.0])
def test_nothing_is_begun_once_the_time_is_up(machine: FakeMachine, budget_s: float) -> None:
    started = []

    def start(info: PairInfo, settings: ProcessSettings, cache: str, served: Served | None) -> FakeWorker:
        started.append(machine.now)
        return machine.start(info, settings, cache, served)

    found = {record.name: record for record in run(PAIRS, start, replace(PLAN, budget_s=budget_s), lambda what: None)}
    assert max(started, default=0.0) <= budget_s
    assert not all(pair.name in found and complete(found[pair.name], FIRST, 2) for pair in PAIRS)
    assert all(worker.ended for worker in machine.workers)
    for record in found.values():
        assert restored(asdict(record)) == record


@pytest.mark.usefixtures("clock")
def test_a_launch_that_is_not_expected_to_end_in_time_is_not_begun(machine: FakeMachine) -> None:
    machine.cost_s |= {"build": 50.0, "block": 1e-6}
    *_, record = machine.run([info()], replace(PLAN, budget_s=260.0))
    assert (len(record.launches), machine.now < 260.0) == (2, True), "a third takes 100 s"


@pytest.mark.usefixtures("clock")
def test_a_launch_that_is_not_prepared_in_time_is_dropped(machine: FakeMachine) -> None:
    def before(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        if command == "build" and worker.served == 1:
            machine.now += 1000.0

    machine.before = before
    *_, record = machine.run([info()], replace(PLAN, budget_s=60.0))
    assert (record.outcome, len(record.launches)) == ("measured", 1)
    assert not record.variants["optimized"].one_off
    assert all(worker.ended for worker in machine.workers)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("budget_s", "starts"), [(25.0, False), (35.0, True)])
def test_a_resumed_run_launches_nothing_too_long(machine: FakeMachine, budget_s: float, starts: bool) -> None:
    """What is stored took 90 s: checks and two launches."""
    _, _, third, *_ = machine.run([info()])
    machine.requests.clear()
    list(machine.run([info()], replace(PLAN, budget_s=budget_s), begun={third.name: replace(third, wall_s=90.0)}))
    assert bool(machine.commands("build")) == starts


@pytest.mark.usefixtures("clock")
def test_pairs_that_are_not_checked_in_time_are_not_told_of_but_skipped_ones_are(machine: FakeMachine) -> None:
    """A check takes 2 s, and there are 3."""
    nowhere = info("Nowhere", why=WHY)
    found = {record.info.pair: record for record in machine.run([*PAIRS, nowhere], replace(PLAN, budget_s=3.0))}
    assert {name: record.outcome for name, record in found.items()} == {"First": "measured", "Nowhere": "skipped"}
    assert not any(record.launches for record in found.values())


@pytest.mark.usefixtures("clock")
def test_without_a_budget_every_pair_is_measured_to_its_end_and_its_time_is_shared_out(machine: FakeMachine) -> None:
    found = {record.name: record for record in machine.run(PAIRS)}
    assert all(complete(record, FIRST, 2) for record in found.values())
    assert sum(record.wall_s for record in found.values()) == pytest.approx(machine.now, abs=0.1)


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


def test_what_a_gpu_reports_is_kept_in_the_blocks_order(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    block, clock = FakeWorker.block, count(1000)

    def with_a_card(worker: FakeWorker, variant: str, steps: int, again: bool) -> dict[str, Any]:
        return {**block(worker, variant, steps), "gpu": {"sm_mhz": next(clock), "celsius": 40}}

    monkeypatch.setattr(FakeWorker, "block", with_a_card)
    for launch in machine.measure(info()).launches:
        first, blocks = launch.gpu["sm_mhz"][0], len(launch.variant)
        assert launch.gpu == {"sm_mhz": tuple(range(first, first + blocks)), "celsius": (40,) * blocks}
