"""Whole trainings that are counted: the table that holds them, and what the counts of two sides say."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from benchmarks.jobs import lessons
from benchmarks.jobs.tuning import Tuned
from benchmarks.training import batch_size, grad_clipping, muon, one_cycle
from tests.made_up import info, measured, restored, run, trainings, with_table
from tipbench.records.fields import MalformedRecord
from tipbench.records.trainings import read_trainings as trainings_of
from tipbench.report import render
from tipbench.report.results import results
from tipbench.report.trained import describe_trainings, steps_text
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS, load_module, pair_classes, pair_files
from tipbench.tip import counting
from tipbench.tip.pair import Equal, Pair, variants
from tipbench.tip.training import SET_ASIDE, Trained
from tipbench.verdict.statistics import Mean
from tipbench.verdict.trainings import expected_steps, fewer_steps, product, score_change

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


# ---- the table ----

MADE_UP = """
import math, torch
from tipbench.tip.counting import count
from tipbench.tip.words import *

TIP = Tip(id="made-up", title="Do so.", guide=("A1",), claim=Claim.FEWER_STEPS, mechanism=stays("none", lambda step: 0),
          evidence="made_up.toml")

class Counted(Pair):
    equal = Equal.TARGET

    def baseline(self):
        return Training(lambda: torch.rand(2), lambda seed: Trained(600, True, math.nan), 1.0, 8, settings="rate=0.1")

    def optimized(self):
        return Training(lambda: torch.rand(2), lambda seed: Trained(300, True, 2.0), 1.0, 8)

if __name__ == "__main__":
    count(Counted)
"""


@pytest.mark.slow
def test_trainings_are_counted_into_a_table_that_reports_of_the_folder_use(tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    file = tmp_path / "pairs/made_up.py"
    file.write_text(MADE_UP)
    (missing,) = discover(file.parent, "cpu").broken
    assert "made_up.toml" in missing.reason
    env = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent)}
    subprocess.run([sys.executable, str(file), "--seeds", "3"], env=env, check=True)
    (pair,) = discover(file.parent, "cpu").pairs
    made = run([measured(pair, {"optimized": 0.1})], options={"folder": str(file.parent)})
    (row,) = results(made)
    assert "600 -> 300 steps" in describe_trainings(row)
    (shown,) = json.loads(render(made, [], "json"))["pairs"]
    assert shown["trainings"] == {"sentence": describe_trainings(row), "table": "made_up.toml"}
    assert row.trainings is not None
    assert [side.scores for side in row.trainings] == [(None,) * 3, (2.0,) * 3]
    assert not set(row.trainings[0].seeds) & set(SET_ASIDE)
    file.write_text(MADE_UP.replace("Trained(300", "Trained(200"))
    (of_other_code,) = results(run([measured(pair, {"optimized": 0.1})], options={"folder": str(file.parent)}))
    assert of_other_code.trainings is None, "the table is of what is trained now"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("steps = [7, 8]", "steps = [7]"), "Pair.baseline: one of each number is expected"),
        (("seeds = [1, 2]", ""), "Pair.baseline.seeds: expected `array`"),
        (("batch = 8", 'batch = "8"'), "Pair.baseline.batch: expected `int`"),
    ],
)
def test_a_table_that_was_damaged_by_hand_says_where(change: tuple[str, str], fault: str, tmp_path: Path) -> None:
    text = (
        "counted = 2026-11-27\nseeds = [1, 2]\n[Pair.baseline]\ntarget = 1.0\nlower_is_better = true\nbatch = 8\n"
        "steps_timed = 1\nsteps = [7, 8]\nreached = [true, true]\nscores = [1.0, nan]\n"
    )
    tables = [tmp_path / "right.toml", tmp_path / "wrong.toml"]
    for table, words in zip(tables, (text, text.replace(*change)), strict=True):
        table.write_text(words)
    assert trainings_of(tables[0])["Pair"]["baseline"].counted == "2026-11-27"
    with pytest.raises(MalformedRecord, match=re.escape(f"wrong.toml: {fault}")):
        trainings_of(tables[1])


def test_trainings_in_files_of_earlier_versions_are_passed_over() -> None:
    stored = asdict(measured(info(), {"optimized": 0.1}))
    before = {**stored["variants"], "baseline": {**stored["variants"]["baseline"], "trainings": {"seeds": [1, 2]}}}
    old = {**stored, "variants": before, "info": {**stored["info"], "training_code": "5a47b82907416d9b"}}
    assert restored(old) == restored(stored)


# ---- what is shown ----


def test_what_trainings_came_to_is_shown_with_the_time_that_it_takes() -> None:
    counted = trainings(baseline=(590, 600, 610), optimized=(290, 300, 310))
    rows = results(run([measured(info(), {"optimized": math.log(2)})]))
    (row,) = with_table(rows, counted)
    # A timed step, of two optimizer steps, takes 2 ms: 300 of them 600 ms. Of 64 samples, it is 32,000 a second.
    when = "3 trainings of each side, counted on 2026-11-27, not on this machine (made_up.toml)"
    for part in (when, "600 -> 300 steps", "600 ms -> 150 ms", "32,000 -> 64,000", "0.98 -> 0.98", "2.0"):
        assert part in describe_trainings(row), describe_trainings(row)
    assert describe_trainings(rows[0]) == ""


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((300, 290, 310), "600 -> 300 steps"),
        ((None, 290, 310), "600 -> 800 steps, failures counted; 3 of 3 -> 2 of 3 trainings reach it"),
        ((None, None, None), "3 of 3 -> 0 of 3 trainings reach the target"),
    ],
)
def test_failures_are_named(steps: tuple[int | None, ...], said: str) -> None:
    counted = trainings(baseline=(590, 600, 610), optimized=steps)
    assert steps_text((counted["baseline"], counted["optimized"])) == said


# ---- the guides' trainings ----

WITH_TABLES = [
    pytest.param(file, pair, marks=pytest.mark.slow if file.parent.name == "modern" else ())
    for file in pair_files(BENCHMARKS)
    if file.with_suffix(".toml").exists()
    for pair in pair_classes(load_module(file, BENCHMARKS))
    if pair.equal is Equal.TARGET
]


@pytest.mark.parametrize(("file", "pair"), WITH_TABLES)
def test_the_table_is_of_the_settings_that_the_pair_has_now(file: Path, pair: type[Pair]) -> None:
    """Otherwise count anew: python -m benchmarks.training.one_cycle"""
    table = tomllib.loads(file.with_suffix(".toml").read_text())
    for side in variants(pair):
        with torch.compiler.set_stance("force_eager"):  # nothing is compiled for what is not run
            now = counting.settings_of(counting.build_side(pair, side.name))
        assert {name: table[pair.__name__][side.name][name] for name in now} == now
    assert not set(table["seeds"]) & set(SET_ASIDE)


def test_a_training_depends_on_its_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_size, "SAMPLES", 64)
    first, other, again = counting.count_side(batch_size.NextByte, "batch=64", (5, 6, 5))["scores"]
    assert first == again != other


@pytest.mark.parametrize("pair", [batch_size.NextByte, one_cycle.NextByte, muon.NextByte])
def test_all_sides_take_equally_many_samples_a_timed_step(pair: type[Pair]) -> None:
    made = pair(CPU, for_test=True)
    sides = [getattr(made, each.builder)(**each.arguments) for each in variants(pair)]
    assert len({side.batch * side.steps for side in sides}) == 1
    assert len({side.target for side in sides}) == 1


def test_a_schedule_reaches_the_target_in_a_training_of_its_own() -> None:
    lesson = replace(lessons.NEXT_BYTE, target=math.inf)
    course = lessons.Course(lesson, 0.001, one_cycle.one_cycle, batch=2, steps=4, short=3)
    found = course.train(0, CPU)
    assert found == Trained(3, True, course.taught(0, CPU, 4).score)
    assert replace(course, short=0).train(0, CPU) == course.taught(0, CPU, 4)


@pytest.mark.parametrize("lesson", [lessons.NEXT_BYTE, lessons.CLEAN_PHOTOS], ids=["text", "photos"])
def test_a_training_goes_on_from_target_to_score(lesson: lessons.Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons, "LOOK", 20)
    course = lessons.Course(replace(lesson, target=math.inf), 0.001, batch=10, steps=6)
    found = course.train(0, CPU)
    assert (found.reached, found.steps) == (True, 2), "held-out data are looked at after 20 samples"
    assert math.isfinite(found.score)
    never = replace(course, lesson=replace(lesson, target=0.0), longest=8).train(0, CPU)
    assert never == Trained(8, False, found.score), "the score is that of the same step, reached or not"


TUNED = {
    "batch-size": batch_size.RATES.values(),
    "grad-clipping": [
        tuned
        for pair in (grad_clipping.NextByteByLSTM, grad_clipping.DenoiserTraining)
        for tuned in (pair.rate, pair.rate_clipped)
    ],
    "muon": muon.RATES.values(),
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
