"""`tipbench compare` of a fleet's folder: kinds against each other, and slow nodes."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import MACHINE, info, measured, run, stored, tip
from tipbench.cli import main
from tipbench.compare import slow
from tipbench.compare.stored import read_run
from tipbench.fleet import plan as plans
from tipbench.fleet.comparison import read
from tipbench.fleet.progress import RESULTS, End, folder_of, keep_end
from tipbench.records.record import Record
from tipbench.tip.reason import Reason

OTHER = {**MACHINE, "cpu": "Intel Xeon", "microarchitecture": "sapphirerapids", "name": "intel-xeon-2c-24g"}


def records(gain: float, control_s: float = 0.02, job_s: float = 0.5, failed: str = "") -> list[Record]:
    control = tip("control", title="Identical code on both sides", guide=())
    one_core = info("SmallOperations", tip=control, file="benchmarks/control.py")
    job = info("Training", tip=tip("pays", title="Do what pays."), scale="macro", task="training")
    made = [
        measured(one_core, {"optimized": 0.0}, baseline_s=control_s),
        measured(job, {"optimized": gain}, baseline_s=job_s),
    ]
    if failed:
        made[1] = Record(job, "failed", Reason("error.crashed", {}, failed))
    return made


def node(folder: Path, name: str, machine: Mapping[str, Any], of: list[Record], day: int = 1) -> Path:
    """One finished run of a node of a fleet."""
    id = f"{random.Random(f'{name} {day}').getrandbits(64):016x}"
    began = f"2026-03-{day:02}T09:30:00+00:00"
    file = stored(folder_of(folder, name) / RESULTS, run(of, id=id, started=began, machine=dict(machine)))
    keep_end(folder, name, End(0))
    return file


def planned(folder: Path, **kinds: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    made = {name: plans.PlannedKind("2 cores", nodes, len(nodes), "tipbench") for name, nodes in kinds.items()}
    plan = plans.FleetPlan("0" * 8, "all", plans.NodeOptions(), {"suite": "0.1.0"}, made)
    (folder / "plan.toml").write_text(plans.as_toml(plan))


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Nine nodes of one kind, of which fat3 has slow cores and fat7 fails; and two of another kind, on which the tip
    costs."""
    folder = tmp_path / "fleet"
    fat, thin = [f"fat{number}" for number in range(1, 10)], ["thin1", "thin2"]
    planned(folder, a=fat, b=thin)
    for number, name in enumerate(fat):
        control_s = 0.02 * (1.3 if name == "fat3" else 1 + 0.001 * number)
        gain = 0.3 + 0.002 * number
        node(folder, name, MACHINE, records(gain, control_s, 0.5, "segmentation fault" if name == "fat7" else ""))
    for name in thin:
        node(folder, name, OTHER, records(-0.2))
    return folder


def test_a_fleet_says_what_pays_where_and_which_nodes_are_slow(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(fleet)]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# PyTorch tuning tips on 11 nodes of 2 kinds of machine")
    assert "| Do what pays.: Training on a CPU | reverses | **use it** 1.4x (1.3-1.4) | **don't** 0.82x |" in page
    assert "| one core | 9 | -0.5 % to +29 % | **fat3** +29 %, suspected;" in page
    assert f"`tipbench fleet run {fleet} --again fat3`." in page


def test_a_second_run_confirms_or_clears_a_suspect(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node(fleet, "fat3", MACHINE, records(0.3, 0.026), day=2)
    assert main(["compare", str(fleet)]) == 0
    assert "**fat3** +29 %, in two runs;" in capsys.readouterr().out
    node(fleet, "fat3", MACHINE, records(0.3, 0.02), day=3)
    assert main(["compare", str(fleet)]) == 0
    assert "**fat3** +" not in capsys.readouterr().out


def test_nodes_that_are_not_done_are_left_out_with_a_note(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep_end(fleet, "fat1", End(2, "torch 1.0 is installed there"))
    (fleet / "nodes" / "fat2" / "end.json").write_text("{")
    next((fleet / "nodes" / "thin1").rglob("*.jsonl")).write_text("")
    assert main(["compare", str(fleet)]) == 0
    page = capsys.readouterr().out
    assert "8 nodes of 2 kinds" in page
    assert "fat1: not done: torch 1.0 is installed there" in page
    assert "fat2: not done" in page
    assert "of thin1 is empty" in page
    for folder in (fleet / "nodes").iterdir():
        shutil.rmtree(folder)
    assert main(["compare", str(fleet)]) == 2
    assert "no node of" in capsys.readouterr().err


def test_nodes_of_other_hardware_are_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the plan calls them; the page names the fields that differ, and the nodes."""
    folder = tmp_path / "fleet"
    planned(folder, a=["n1", "n2", "n3"])
    for name in ("n1", "n2"):
        node(folder, name, MACHINE, records(0.3))
    node(folder, "n3", {**MACHINE, "memory_bytes": MACHINE["memory_bytes"] // 2}, records(0.3))  # type: ignore[operator]
    assert main(["compare", str(folder)]) == 0
    page = capsys.readouterr().out
    assert (
        "amd-epyc-zen4-2c-24g #1**: AMD EPYC, 2 cores, 23.5 GiB, torch 2.15.0, python 3.11.7; 2 nodes (n1, n2);" in page
    )
    assert "1 node (n3);" in page
    assert "#2 | **other hardware** | memory_bytes 23.5 GiB / 11.8 GiB |" in page


def test_runs_of_another_suite_are_not_comparable(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = replace(run(records(0.3), id="ab" * 8, started="2026-03-05T09:30:00+00:00"), suite="0.2.0")
    stored(folder_of(fleet, "fat9") / RESULTS, odd)
    assert main(["compare", str(fleet)]) == 0
    page = capsys.readouterr().out
    assert "1 run cannot be compared with the first one" in page
    assert "| **not comparable** | suite 0.1.0 / 0.2.0" in page


def test_what_the_nodes_of_a_kind_say_is_pooled(tmp_path: Path) -> None:
    """One is off by chance: its interval is not the kind's."""
    folder = tmp_path / "fleet"
    planned(folder, a=["n1", "n2", "n3"])
    for name, gain in (("n1", 0.1), ("n2", 0.3), ("n3", 0.2)):
        node(folder, name, MACHINE, records(gain))
    comparison, _ = read(folder)
    (kind,) = comparison.runs
    training = next(row for row in kind.results if row.pair == "Training")
    assert training.speedup is not None
    assert 0.19 < math.log(training.speedup) < 0.21
    assert training.low is not None
    assert math.log(training.low) < 0.15
    node(folder, "n1", MACHINE, records(0.1, failed="crash"), day=2)
    node(folder, "n2", MACHINE, records(0.3, failed="crash"), day=2)
    (kind,) = read(folder)[0].runs
    alone = next(row for row in kind.results if row.pair == "Training")
    assert alone.mean == read_run(next((folder_of(folder, "n3") / RESULTS).rglob("*.jsonl"))).results[1].mean


# ---- the statistics ------------------------------------------------------------------------------------


def made_up(nodes: int, deviation: float, seed: int, slow_by: float = 0.0) -> slow.SlowPart:
    numbers = random.Random(seed)
    effects = {f"n{number}": numbers.gauss(0.0, deviation) for number in range(nodes)}
    effects["n0"] += math.log1p(slow_by)
    return slow.slow_part("one core", effects, {name: [] for name in effects})


def test_of_kinds_without_a_slow_node_hardly_any_is_accused() -> None:
    for nodes, most in ((8, 0.04), (20, 0.03), (100, 0.03)):
        accused = sum(bool(made_up(nodes, 0.02, seed).slow) for seed in range(400))
        assert accused <= most * 400, (nodes, accused)


def test_a_slow_node_is_suspected_and_of_few_nodes_none() -> None:
    assert [each.node for each in made_up(20, 0.01, 1, slow_by=0.3).slow] == ["n0"]
    few = made_up(7, 0.01, 1, slow_by=0.3)
    assert (few.slow, few.smallest) == ((), math.inf)
    assert made_up(20, 0.0, 1, slow_by=0.02).slow == (), "3 % at least"
