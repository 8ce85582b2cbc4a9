"""Whole trainings that are counted: what a worker answers, and what the counts of two sides say."""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from benchmarks.jobs import lessons
from benchmarks.jobs.tuning import Tuned
from benchmarks.training import batch_size, grad_clipping, one_cycle
from tests.made_up import info, measured, run, tip, trainings
from tipbench.engine import trainings as counting
from tipbench.engine.handle import WorkerFailed, WorkerHandle
from tipbench.engine.trainings import WholeTrainings
from tipbench.records.fields import MalformedRecord, converted
from tipbench.records.record import Record, Trainings
from tipbench.report.measure import effects
from tipbench.report.results import results
from tipbench.report.trained import in_full, in_short, trained
from tipbench.suite import shipped as shipping
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.pair import Claim, Pair, variants
from tipbench.tip.reason import Reason
from tipbench.tip.training import SET_ASIDE, Trained
from tipbench.verdict.pooling import Mean
from tipbench.verdict.trainings import expected_steps, fewer_steps, go_alike, product, score_change
from tipbench.worker import checks
from tipbench.worker.failed import Failed
from tipbench.worker.guard import Guard

CPU = torch.device("cpu")

# ---- what two sides say ----


def test_failed_trainings_count_for_those_that_reach_the_target() -> None:
    sides = trainings(baseline=(100, 300), optimized=(100, None))
    assert expected_steps(sides["baseline"]) == 200
    assert expected_steps(sides["optimized"]) == 1100
    assert fewer_steps(sides["baseline"], sides["optimized"]).mean == pytest.approx(math.log(200 / 1100))


def test_sides_of_several_optimizer_steps_a_timed_step_are_compared_by_timed_steps() -> None:
    sides = trainings(baseline=(600, 600, 600), optimized=(300, 300, 300))
    small = replace(sides["baseline"], steps_timed=16)
    found = fewer_steps(small, replace(sides["optimized"], steps_timed=1))
    assert found.mean == pytest.approx(math.log(600 / 16 / 300))


@pytest.mark.parametrize(("failing", "least"), [(0.0, 0.92), (0.3, 0.90), (0.1, 0.78)])
def test_the_interval_of_few_seeds_holds_the_truth_nearly_as_often_as_it_says(failing: float, least: float) -> None:
    """Log-normal steps, a share of them failing on one side: the truth is what very many seeds come to. Of rare
    failures 16 seeds may show none, or too many."""
    chance = random.Random(3)

    def drawn(count: int) -> tuple[Trainings, Trainings]:
        level = [chance.gauss(0, 0.2) for _ in range(count)]
        before = [round(200 * math.exp(each + chance.gauss(0, 0.2))) for each in level]
        after = [
            None if chance.random() < failing else round(150 * math.exp(each + chance.gauss(0, 0.2))) for each in level
        ]
        sides = trainings(baseline=before, optimized=after)
        return sides["baseline"], sides["optimized"]

    before, after = drawn(30_000)
    truth = math.log(expected_steps(before) / expected_steps(after))
    intervals = [fewer_steps(*drawn(16)).interval() for _ in range(500)]
    assert statistics.fmean(low <= truth <= high for low, high in intervals) >= least


def test_pairs_of_seeds_are_compared_not_sides() -> None:
    """Seeds that take long on both sides alike do not blur what both have in common."""
    steps = (100, 200, 400, 800, 100, 200, 400, 800)
    sides = trainings(baseline=steps, optimized=[count // 2 for count in steps])
    low, high = fewer_steps(sides["baseline"], sides["optimized"]).interval()
    assert math.log(2) - 0.02 < low < math.log(2) < high < math.log(2) + 0.02


def test_a_product_of_ratios_is_less_sure_than_each() -> None:
    found = product(Mean(0.7, 0.03, 15.0), Mean(-0.2, 0.04, 5.0))
    assert found.mean == pytest.approx(0.5)
    assert found.error == pytest.approx(0.05)
    assert 5 < found.freedom < 20


def test_scores_are_compared_training_by_training() -> None:
    """Each ends 0.01 lower; that trainings differ by much more says nothing of it. One without a score says nothing."""
    sides = trainings(baseline=(1, 1, 1, 1), optimized=(1, 1, 1, 1))
    before = replace(sides["baseline"], scores=(0.6, 0.7, 0.8, 0.9))
    found = score_change(before, replace(before, scores=(0.59, 0.691, 0.789, 0.89)))
    assert found is not None
    assert found.mean == pytest.approx(-0.01)
    assert -0.012 < found.interval()[0] < -0.01 < found.interval()[1] < -0.008
    assert score_change(before, replace(before, scores=(0.6, None, 0.8, 0.9))) is None


@pytest.mark.parametrize(
    ("steps", "score", "alike"), [(590, 0.98, True), (700, 0.98, False), (600, 0.5, False), (600, None, False)]
)
def test_a_training_goes_like_known_ones_in_steps_and_score(steps: int, score: float | None, alike: bool) -> None:
    known = trainings(baseline=(590, 600, 610, 595, 605, 600, 600, 600), optimized=(1,) * 8)["baseline"]
    further = replace(known, seeds=(9,), steps=(steps,), reached=(True,), scores=(score,))
    assert go_alike(further, known) == alike
    assert not go_alike(replace(further, batch=7), known)


# ---- those that the suite ships ----


def test_trainings_are_known_by_the_code_that_they_run(tmp_path: Path) -> None:
    file = tmp_path / "made_up.py"

    def code(text: str) -> str:
        file.write_text(text)
        shipping._names.cache_clear()
        return shipping.training_code(file, "Counted")

    text = "RATE = 0.1\ndef used():\n    'Says.'\n    return RATE\n\nclass Counted:\n    'Says.'\n    rate = used()\n"
    before = code(text)
    assert code(text.replace("'Says.'", "'Says more.'  # and more") + "def other():\n    return 1\n") == before
    assert code(text.replace("0.1", "0.2")) != before
    assert code(text.replace("return RATE", "return 2 * RATE")) != before
    suite = "from benchmarks.jobs.tuning import {}\nclass Counted:\n    rate = {}((1, 2, 3), 2)\n"
    assert code(suite.format("Tuned", "Tuned")) != code(suite.format("geometric", "geometric"))


def test_all_trainings_that_the_suite_ships_are_of_its_code_as_it_is() -> None:
    """Otherwise each run would count them itself, which takes it minutes: python -m tests.count_trainings"""
    pairs = [pair for pair in discover(BENCHMARKS, "cpu").pairs if pair.training_code]
    assert pairs
    assert [pair.name for pair in pairs if not shipping.shipped(pair)] == []


class Answering:
    """Stands for a worker whose trainings all take so many steps, or fail if that is none."""

    def __init__(self, steps: int) -> None:
        self.steps, self.counts = steps, list[int | None]()

    def ask(self, request: str, variant: str, seed: int, count: int | None) -> dict[str, Any]:
        assert request == "trained"
        self.counts.append(count)
        if self.steps == 0:
            raise WorkerFailed(Reason("step-raised", {"where": variant}, "made up"), variant)
        many = count or 3
        found = trainings(baseline=(self.steps,) * many, optimized=(1,) * many)["baseline"]
        return dict(asdict(found), seeds=list(range(seed, seed + many)))


@pytest.mark.parametrize(
    ("steps", "counts", "kept"), [(600, [1], True), (900, [1, 1, None, None], False), (0, [1, None], False)]
)
def test_shipped_trainings_count_where_one_more_goes_like_them(
    steps: int, counts: list[int | None], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = trainings(baseline=(590, 600, 610, 600), optimized=(595, 600, 605, 600))
    monkeypatch.setattr(counting, "shipped", lambda info: known)
    worker, ended = Answering(steps), list[str]()
    whole = WholeTrainings(info(), lambda variant: cast("WorkerHandle", worker), ended.append)
    if steps == 0:
        assert len(ended) == 1
        with pytest.raises(WorkerFailed):
            whole.of("baseline")
    else:
        sides = [whole.of("baseline"), whole.of("optimized")]
        assert [side is not None and side.shipped for side in sides] == [kept, kept]
    assert worker.counts == counts


def test_trainings_that_the_suite_ships_count_once_for_all_runs_of_a_machine() -> None:
    steps = (590, 640, 700, 610), (290, 330, 300, 350)
    own = trainings(baseline=steps[0], optimized=steps[1])
    shipped = {name: replace(side, shipped=True) for name, side in own.items()}

    def width(sides: dict[str, Trainings], runs: int) -> float:
        record = measured(info(tip=tip(claim=Claim.FEWER_STEPS)), {"optimized": 0.1}, trainings=sides)
        (effect,) = effects([results(run([record]))] * runs).values()
        assert effect.mean is not None
        low, high = effect.mean.interval()
        return high - low

    assert width(shipped, 3) == width(shipped, 1) == width(own, 1) > width(own, 3)


# ---- what is shown ----


def test_what_trainings_came_to_is_shown_with_the_time_that_it_takes() -> None:
    counted = trainings(baseline=(590, 600, 610), optimized=(290, 300, 310))
    record = measured(info(), {"optimized": math.log(2)}, trainings=counted)
    (row,) = results(run([record]))
    # A timed step, of two optimizer steps, takes 2 ms: 300 of them 600 ms. Of 64 samples, it is 32,000 a second.
    for part in ("600 -> 300 steps", "600 ms -> 150 ms", "32,000 -> 64,000", "0.98 -> 0.98", "2.0"):
        assert part in in_full(row), in_full(row)
    assert in_full(results(run([measured(info(), {"optimized": 0.1})]))[0]) == ""


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((300, 290, 310), "600 -> 300 steps"),
        ((None, 290, 310), "600 -> 800 steps, those of failures counted; 3 of 3 -> 2 of 3 trainings reach the target"),
        ((None, None, None), "3 of 3 -> 0 of 3 trainings reach the target"),
    ],
)
def test_failures_are_named(steps: tuple[int | None, ...], said: str) -> None:
    counted = trainings(baseline=(590, 600, 610), optimized=steps)
    (found,) = results(run([measured(info(), {"optimized": 0.1}, trainings=counted)]))
    counted_trainings = trained(found)
    assert counted_trainings is not None
    assert in_short(counted_trainings) == said


# ---- what is stored ----


@pytest.mark.parametrize(
    "change",
    [
        {"steps": (1, 2)},
        {"seeds": (7, 8, 9)},
        {"reached": (True,)},
    ],
)
def test_sides_of_other_seeds_are_refused(change: dict[str, tuple[int, ...]]) -> None:
    counted = trainings(baseline=(590, 600, 610), optimized=(1, 2, 3))
    counted["optimized"] = replace(counted["optimized"], **change)  # type: ignore[arg-type]
    record = measured(info(), {"optimized": 0.1}, trainings=counted)
    with pytest.raises(MalformedRecord, match="the same seeds"):
        Record.from_json(record.to_json())


# ---- what a worker answers ----


@pytest.mark.slow
def test_a_worker_trains_both_sides_from_the_same_seeds_that_no_tuning_used(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = batch_size.NextByte.sizes.on("S")
    watched = Guard(Path(batch_size.__file__), BENCHMARKS, "NextByte", CPU, sizes)
    monkeypatch.setattr(watched.pair_class, "trainings", 2)
    monkeypatch.setattr(sys.modules[watched.pair_class.__module__], "SAMPLES", 2048)
    threads = torch.get_num_threads()
    sides = {name: converted(checks.trained(watched, name, 5), Trainings) for name in ("baseline", "batch=256")}
    assert torch.get_num_threads() == threads
    assert len({side.seeds for side in sides.values()}) == 1
    assert not set(sides["baseline"].seeds) & set(SET_ASIDE)
    assert all(1 <= steps <= 2 * 2048 // 16 for side in sides.values() for steps in side.steps)
    one = converted(checks.trained(watched, "baseline", 5, count=1), Trainings)
    assert len(one.seeds) == 1
    again = converted(checks.trained(watched, "baseline", 5), Trainings)
    assert again == sides["baseline"], "a training depends on its seed alone"


MADE_UP = '''
"""Made up."""
import torch
from tipbench.tip.words import *

TIP = Tip(id="made-up", title="Do so.", guide=("A1",), claim=Claim.FEWER_STEPS, mechanism=stays("none", lambda step: 0))

class Counted(Pair):
    trainings = 3
    equal = Equal.TARGET

    def baseline(self):
        return Training(lambda: torch.rand(2), lambda seed: Trained(7, False, float("inf")), 1.0, 8)

    def optimized(self):
        return lambda: torch.rand(2)

    @variant
    def odd(self):
        return Training(lambda: torch.rand(2), lambda seed: 7, 1.0, 8)

class Plain(Pair):
    def baseline(self):
        return lambda: torch.rand(2)

    optimized = baseline
'''


@pytest.fixture
def made_up(tmp_path: Path) -> Callable[[str], Guard]:
    file = tmp_path / "made_up.py"
    file.write_text(MADE_UP)
    return lambda pair: Guard(file, tmp_path, pair, CPU, {})


def test_a_score_that_is_no_number_is_stored_as_none(made_up: Callable[[str], Guard]) -> None:
    found = converted(checks.trained(made_up("Counted"), "baseline", 1), Trainings)
    assert (found.scores, found.reached, found.steps) == ((None,) * 3, (False,) * 3, (7,) * 3)


def test_a_pair_without_trainings_has_none_and_one_that_forgets_them_fails(made_up: Callable[[str], Guard]) -> None:
    assert checks.trained(made_up("Plain"), "baseline", 1) is None
    with pytest.raises(Failed, match="returned no Training"):
        checks.trained(made_up("Counted"), "optimized", 1)
    with pytest.raises(Failed, match="return a Trained"):
        checks.trained(made_up("Counted"), "odd", 1)


# ---- the guides' trainings ----


@pytest.mark.parametrize("pair", [batch_size.NextByte, one_cycle.NextByte, grad_clipping.NextByteByLSTM])
def test_all_sides_take_equally_many_samples_a_timed_step(pair: type[Pair]) -> None:
    made = pair(CPU, for_test=True)
    sides = [getattr(made, each.builder)(**each.arguments) for each in variants(pair)]
    assert len({side.batch * side.steps for side in sides}) == 1
    assert len({side.target for side in sides}) == 1
    assert pair.trainings >= 8


def test_a_schedule_reaches_the_target_in_a_training_of_its_own() -> None:
    lesson = replace(lessons.NEXT_BYTE, target=math.inf)
    course = lessons.Course(lesson, 0.001, one_cycle.one_cycle, batch=2, steps=4, short=3)
    found = course.train(0, CPU)
    assert found == Trained(3, True, course.taught(0, CPU, 4).score)
    assert replace(course, short=0).train(0, CPU) == course.taught(0, CPU, 4)


@pytest.mark.parametrize("lesson", [lessons.NEXT_BYTE, lessons.CLEAN_PHOTOS], ids=["text", "photos"])
def test_a_training_goes_on_from_the_target_to_the_score(lesson: lessons.Lesson) -> None:
    course = lessons.Course(replace(lesson, target=math.inf), 0.001, batch=200, steps=6)
    found = course.train(0, CPU)
    assert (found.reached, found.steps) == (True, 2), "held-out data are looked at after 400 samples"
    assert math.isfinite(found.score)
    never = replace(course, lesson=replace(lesson, target=0.0), longest=8).train(0, CPU)
    assert never == Trained(8, False, found.score), "the score is that of the same step, reached or not"


def test_gradients_are_clipped_before_the_step() -> None:
    course = lessons.Course(lessons.CLEAN_PHOTOS_PLAIN, 1.0, batch=2, steps=1, max_norm=0.01)
    model = lessons.CLEAN_PHOTOS_PLAIN.network()
    before = [weight.detach().clone() for weight in model.parameters()]
    next(course.optimizer_steps(model, 1, CPU))
    moved = [now.detach() - then for now, then in zip(model.parameters(), before, strict=True)]
    assert torch.stack([part.norm() for part in moved]).norm().item() == pytest.approx(0.01, rel=1e-3)


TUNED = {
    "batch-size": batch_size.RATES.values(),
    "grad-clipping": [
        tuned
        for pair in (grad_clipping.NextByteByLSTM, grad_clipping.DenoiserTraining)
        for tuned in (pair.rate, pair.rate_clipped)
    ],
    "one-cycle": [tuned for pair in (one_cycle.NextByte,) for tuned in (*pair.rates.values(), *pair.lengths.values())],
}


@pytest.mark.parametrize("tip", TUNED)
def test_what_was_tuned_is_not_on_the_edge_of_what_was_tried(tip: str) -> None:
    assert TUNED[tip]
    for tuned in TUNED[tip]:
        assert tuned.is_inside, tuned


def test_the_edge_of_what_was_tried_is_no_choice() -> None:
    for chosen, is_inside in ((0.1, False), (0.2, True), (0.25, False), (0.4, False)):
        assert Tuned((0.1, 0.2, 0.4), chosen).is_inside == is_inside


def test_each_size_of_a_batch_has_a_rate_that_was_tuned() -> None:
    assert set(batch_size.RATES) == {batch_size.SMALL, *batch_size.LARGER}
