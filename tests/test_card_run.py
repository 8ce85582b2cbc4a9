"""Eight minutes of a card, simulated: a run's own schedule on a made-up clock, with what checks and launches took on an
H200. What each tip brings is made up too, so this says how many tips have an answer, and not which."""

from __future__ import annotations

import threading
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from tests.test_runner import FakeMachine, FakeWorker
from tipbench.engine import launch as launching
from tipbench.engine import runner
from tipbench.engine.checks import Served
from tipbench.engine.launcher import compiles
from tipbench.engine.limits import LIMITS
from tipbench.engine.plan import Plan
from tipbench.engine.run import MOST_ON_CARD
from tipbench.machine.activity import Usage
from tipbench.records.record import PairInfo, Record
from tipbench.suite.describe import info
from tipbench.suite.files import BENCHMARKS, load_module, pair_classes, pair_files
from tipbench.tip.pair import CONTROL, NO_TIPS
from tipbench.tip.process import ProcessSettings
from tipbench.verdict.rules import RULES
from tipbench.verdict.verdict import judge

BUDGET_S = 480.0

CHECK_S, PREPARE_S = (
    {"operation": 9.3, "job": 37.5, "compiled": 64.8},
    {"operation": 14.0, "job": 32.0, "compiled": 74.0},
)
MEASURE_S = {"operation": 3.0, "job": 3.0, "compiled": 5.0}
"""Seconds that a pair's check, preparing a launch of it, and measuring that take: medians of 9 pairs in two runs of
2026-11-27 on an H200 (torch 2.11, 16 cores, the largest sizes). Four pairs at a time kept 4 of its cores busy, so more
are expected to take no longer."""


def costs_like(about: PairInfo) -> str:
    return "operation" if about.scale == "micro" else "compiled" if compiles(about) else "job"


def test_eight_minutes_of_a_card_answer_twenty_tips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda card: (9, 0))
    pairs = [
        info(pair, module.TIP, file, BENCHMARKS.parent, "cuda", "L")
        for file in pair_files(BENCHMARKS)
        for module in [load_module(file, BENCHMARKS)]
        for pair in pair_classes(module)
    ]
    monkeypatch.setattr(Usage, "now", classmethod(lambda cls: cls(0.0, None, 0.0)))  # what runs beside this test
    machine = FakeMachine({}, spread=0.003)
    machine.step_s = defaultdict(lambda: 0.020 / 1.25, baseline=0.020)
    for module in (runner, launching):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: machine.now))
    about, one_at_a_time = dict[FakeWorker, PairInfo](), threading.Lock()

    def start(pair: PairInfo, settings: ProcessSettings, cache: str, served: Served | None) -> FakeWorker:
        worker = machine.start(pair, settings, cache, served)
        about[worker] = pair
        return worker

    def passes(worker: FakeWorker, command: str, arguments: dict[str, Any]) -> None:
        kind, beside_others = costs_like(about[worker]), {"observe": CHECK_S, "build": PREPARE_S}
        if command in beside_others and arguments["variant"] == "baseline":
            with one_at_a_time:
                machine.now += beside_others[command][kind] / MOST_ON_CARD + MEASURE_S[kind] * (command == "build")

    machine.before, machine.cost_s = passes, {"block": 0.02, "measure_memory": 14.5}
    plan = Plan(LIMITS, RULES, seed=0, cores=16, at_once=MOST_ON_CARD, card_room=70e9, budget_s=BUDGET_S)
    records = dict[str, Record]()
    for record in runner.run(pairs, start, plan, lambda what: None):
        records[record.name] = record
        if record.launches and machine.now <= BUDGET_S:
            print(f"{machine.now:.0f} s: {record.name}")
    answered = {
        record.info.tip.id
        for record in records.values()
        if record.launches and any(judged.verdict == "faster" for judged in judge(record, RULES, 16))
    } - {CONTROL, *NO_TIPS}
    print(len(answered), sorted(answered))
    assert len(answered) >= 20
    assert machine.now <= 1.1 * BUDGET_S
