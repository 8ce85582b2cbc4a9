"""What an advice says of the job as it is: where its time goes, what follows over many steps, how many of what."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.test_combination import with_speedup
from tipbench.advise import curves
from tipbench.advise.combination import rungs
from tipbench.advise.difference import compare_advices
from tipbench.advise.job_words import where
from tipbench.advise.surveyed import NoJob
from tipbench.given.curve import BATCH, THREADS, WORKERS, JobCurve, Point
from tipbench.given.diagnosis import diagnose
from tipbench.given.many_steps import LEAST_STEPS, run_many_steps
from tipbench.given.survey import Survey, WayHere
from tipbench.given.sweeping import sweep_of_job
from tipbench.suite.loops import combined_diff

RATES = {"flops": 1e9, "bytes": 1e8, "operations": 100.0, "peak_flops": 1e11, "peak_bytes": 1e10}


def surveyed(loading: float, forward: float, backward: float, optimizer: float, **more: Any) -> Survey:
    """A job with these milliseconds in a step. more: of its profile."""
    phases = dict(zip(("loading", "forward", "backward", "optimizer"), (loading, forward, backward, optimizer)))  # noqa: B905
    card = {name: value / 1000 for name, value in phases.items()} | RATES | more
    return Survey("train.py:job", "training", "cpu", step_s=0.1, card=card)


@pytest.mark.parametrize(
    ("survey", "word"),
    [
        (surveyed(64, 12, 24, 0), "waits for data 64 %"),
        (surveyed(31, 9, 15, 45), "the optimizer 45 %"),
        (surveyed(1, 10, 15, 0, bytes=1e7), "arithmetic (40 % of what this machine can)"),
        (surveyed(1, 20, 30, 0, bytes=5e7), "arithmetic (20 % of what this machine can)"),
        (surveyed(1, 80, 120, 0, bytes=1.2e9), "memory traffic (60 % of what this machine can)"),
        (surveyed(1, 1, 3, 0, bytes=1e12, flops=1e7), "memory traffic (100 % of what this machine can)"),
        (surveyed(1, 400, 600, 0), "many small operations"),
        (replace(surveyed(1, 4, 6, 0, busy=0.3), device="cuda"), "waits for the processor 70 %"),
        (replace(surveyed(64, 12, 24, 0), others=1.2), "disturbed"),
        (Survey("train.py:job", "command", "cpu", step_s=1.0), "not known"),
    ],
)
def test_where_the_time_goes_is_a_word(survey: Survey, word: str) -> None:
    assert str(diagnose(survey)) == word


def test_what_can_act_on_it_is_named_and_what_it_rests_on() -> None:
    ways = [WayHere("async-loading", "async-loading", "", "", first=2), WayHere("amp", "amp", "", "")]
    said = where(replace(surveyed(64, 12, 24, 0), ways=ways))
    assert said == [
        "Where the time goes: waits for data 64 %.",
        "Of a step's time: loading 64 %, the forward pass 12 %, the backward pass 24 %.",
        "Making loading free would give at most 2.78x.",
        "Tried before all others, as they can act on that: async-loading.",
    ]


def test_a_job_that_keeps_its_tensors_grows_and_one_that_does_not_stays_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tipbench.given.many_steps.perf_counter", lambda: 0.0)  # 3 s of a busy machine hold 373 steps
    held: list[torch.Tensor] = []
    seen = run_many_steps(lambda: held.append(torch.ones(1 << 17)), math.inf)  # of 512 KiB
    assert (seen["steps"], round(seen["grows"] / 2**20, 1)) == (1000, 0.5)
    held.clear()
    assert run_many_steps(lambda: torch.ones(1 << 17), math.inf)["grows"] == 0.0
    assert run_many_steps(lambda: None, -math.inf) == {}, f"fewer than {LEAST_STEPS} steps show nothing"


def test_steps_that_take_longer_and_longer_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tipbench.given.many_steps.perf_counter", lambda: now[0])

    def step() -> None:
        now[0] += 1.0 + 0.005 * now[0]

    seen = run_many_steps(step, math.inf)
    assert seen["slower"] > 2
    survey = replace(surveyed(1, 40, 60, 0), **seen)
    assert where(survey)[-1].startswith("Steps get slower: the last 25 of 200 took")


JOBS = """
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

def training(**loading):
    model = nn.Linear(4, 2)
    data = TensorDataset(torch.randn(24, 4), torch.randint(2, (24,)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return model, DataLoader(data, **loading or dict(batch_size=8, shuffle=True)), nn.CrossEntropyLoss(), optimizer

def inference():
    return nn.Linear(4, 2), torch.randn(8, 4)

def sampled():
    data = TensorDataset(torch.randn(24, 4), torch.randint(2, (24,)))
    return training(sampler=BatchSampler(RandomSampler(data), 8, False), batch_size=None)

def step():
    return lambda: None
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    file = tmp_path / "jobs_to_sweep.py"
    file.write_text(JOBS)
    return file


def test_a_sweep_times_each_value_with_its_samples(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tipbench.given.sweeping.available_cores", lambda: 1)
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    batch = sweep_of_job(f"{jobs}:training", BATCH, 0.1)
    assert [point.value for point in batch.points] == [8, 16]
    assert batch.points[0].samples == 8
    assert batch.ended == "the data set has 24 samples"
    assert all(point.memory > 0 for point in batch.points)
    repeated = sweep_of_job(f"{jobs}:inference", BATCH, 0.1)
    assert [point.value for point in repeated.points] == [8, 16, 32]
    assert [point.value for point in sweep_of_job(f"{jobs}:training", THREADS, 0.1).points] == [1]
    assert sweep_of_job(f"{jobs}:sampled", BATCH, 0.1).ended == "a sampler of the job's own makes the batches"
    assert sweep_of_job(f"{jobs}:inference", WORKERS, 0.1).ended == "the batches do not come from a DataLoader"


@pytest.mark.slow
def test_a_sweep_of_workers_has_each_number_and_the_memory_of_all(jobs: Path, tmp_path: Path) -> None:
    """In a process of its own: that of these tests gives back gigabytes meanwhile."""
    answer, words = tmp_path / "answer.json", ("-P", "-m", "tipbench.given.answering")
    subprocess.run([sys.executable, *words, f"{jobs}:training", str(answer), WORKERS, "4.0"], check=True)
    points = json.loads(answer.read_text())["points"]
    assert [point["value"] for point in points][:3] == [0, 1, 2]
    assert points[2]["memory"] > points[0]["memory"]


def curve_of(*rates: float) -> JobCurve:
    return JobCurve(WORKERS, [Point(2**number // 2, 1.0, rate) for number, rate in enumerate(rates)])


def test_the_knee_is_the_least_value_within_two_percent_of_the_best() -> None:
    assert curves.lines(curve_of(100, 190, 380, 384)) == [
        "workers  samples a second  a step  memory of all processes",
        "0        100               1.00 s",
        "1        190               1.00 s",
        "2 *      380               1.00 s",
        "4        384               1.00 s",
        "workers: 2 is within 2 % of the best (4), 3.80x the rate of 0.",
    ]
    assert curves.summary_of(JobCurve(BATCH, ended="the data end")).endswith("the data end")


def test_a_value_whose_passes_differ_is_as_good_as_the_best_if_it_is_that_near() -> None:
    curve = curve_of(50, 92, 100)
    for changes, knee in (
        ((-0.1, -0.1, -0.1), "2 is the best"),
        ((0.0, 0.1, -0.1), "1 is within 10 % of the best (2)"),
    ):
        points = [replace(point, change=change) for point, change in zip(curve.points, changes, strict=True)]
        assert curves.summary_of(replace(curve, points=points)).startswith(f"workers: {knee}")


def test_the_number_of_workers_that_is_tried_is_the_knee_of_the_sweep() -> None:
    names = ["async-loading", "async-loading/1", "async-loading/2", "async-loading/kept", "amp"]
    survey = replace(surveyed(64, 12, 24, 0), ways=[WayHere("x", name, "", "") for name in names])

    def tried(*sweeps: JobCurve) -> list[str]:
        return [way.name for way in curves.choose_workers(survey, sweeps).ways]

    assert tried(curve_of(100, 190, 380, 384)) == ["async-loading/2", "async-loading/kept", "amp"]
    assert tried() == tried(curve_of(100, 99)) == ["async-loading", "async-loading/kept", "amp"]


def test_members_are_added_by_what_they_bring_alone() -> None:
    alone = {name: with_speedup(gain) for name, gain in (("a", 0.1), ("b", 0.5), ("c", 0.3), ("d", 0.2))}
    assert [(name, side) for name, side, _ in rungs(("a", "b", "c", "d"), alone)] == [
        ("b", "of these b"),
        ("c", "of these b + c"),
        ("d", "without a"),
        ("a", "baseline"),
    ]


def test_the_lines_of_several_changes_are_one_diff_of_the_loop() -> None:
    texts = [
        "loader = DataLoader(data, **arguments | dict(num_workers=2, persistent_workers=True))",
        "for group in optimizer.param_groups: group.update(fused=True, foreach=False)",
        "model.compile()",
    ]
    diff = combined_diff(texts, "training").splitlines()
    assert [line for line in diff if line[0] in "+-"] == [
        "-loader = DataLoader(data, **arguments)",
        "+loader = DataLoader(data, **arguments | dict(num_workers=2, persistent_workers=True))",
        "+for group in optimizer.param_groups:",
        "+    group.update(fused=True, foreach=False)",
        "+model.compile()",
    ]


def stored(file: Path, steps: list[float], machine: str = "m", **phases: float) -> Path:
    file.write_text(json.dumps({"job": "train.py:job", "machine": machine, "launch_step_s": steps, "phases": phases}))
    return file


def test_two_advices_say_whether_the_job_got_slower_and_where(tmp_path: Path) -> None:
    before = stored(tmp_path / "a.json", [0.050, 0.051, 0.049, 0.050], forward=0.02, backward=0.03)
    after = stored(tmp_path / "b.json", [0.060, 0.061, 0.059, 0.060], forward=0.03, backward=0.03)
    first, *parts = compare_advices(before, after)
    assert first.startswith("train.py:job: a step took 50.0 ms, and takes 60.0 ms: slower, 0.83x [0.8")
    assert parts == ["  the forward pass: 20.0 ms -> 30.0 ms", "  the backward pass: 30.0 ms -> 30.0 ms"]
    assert "no difference is certain" in compare_advices(before, stored(after, [0.050, 0.052, 0.048]))[0]
    with pytest.raises(NoJob, match="has 1 launch of the job: give it a longer --budget"):
        compare_advices(before, stored(after, [0.05]))
    with pytest.raises(NoJob, match="the two are of m and of other"):
        compare_advices(before, stored(after, [0.05] * 4, "other"))
