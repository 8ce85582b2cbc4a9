"""`tipbench fleet` on a real Slurm: which nodes are measured, what goes on after whatever ends a job, and what is said.

The nodes share this machine's cores, so nothing is timed. What goes wrong is tried in `test_fleet_failures.py`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from tests.slurm_cluster import Cluster, begun, ended, real, replaced, wait_for
from tests.slurm_cluster import fleet as fleet  # fixtures
from tests.slurm_cluster import four as four
from tests.slurm_cluster import slurm as slurm
from tests.tiny import put_in_front
from tipbench import __version__
from tipbench.cli import main
from tipbench.fleet import plan as plans
from tipbench.fleet import progress
from tipbench.fleet.node import NODE_VARIABLES, _other_versions
from tipbench.fleet.slurm import SlurmNode

pytestmark = pytest.mark.slow


def test_a_plan_has_the_kinds_of_machine_and_says_what_they_cost(
    slurm: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fleet"
    assert main(["fleet", "plan", str(folder), "--budget", "30m"]) == 0
    said = capsys.readouterr().out
    assert "2 kinds, 3 nodes: 1.5 node-hours" in said
    made = plans.read(folder)
    assert [(kind.nodes, kind.want) for kind in made.kind.values()] == [(["a1", "a2", "a3"], 2), (["b1"], 1)]
    assert made.partition == "low"
    assert made.measure.budget_minutes == 30
    assert main(["fleet", "plan", str(folder)]) == 2
    assert "is there already: edit it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--partition", "fast"], "partition 'fast' has no nodes; there are gone, high, low"),
        (["--budget", "2h"], "Take --budget 40m, or another --partition"),
        (["--budget", "0"], "plan.toml: measure.budget_minutes: expected `float` > 0.0"),
        (["--nodes", "n1,../n2"], "plan.toml: kind[...]: '../n2' is no name of a node"),
    ],
)
def test_a_plan_that_could_never_run_is_refused(
    slurm: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["fleet", "plan", str(tmp_path / "fleet"), *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "fleet").exists()


def test_each_job_gets_a_node_of_its_own_also_where_others_are_busy(slurm: Cluster, fleet: Path) -> None:
    """By constraint alone, three jobs all ran on the one node that was free."""
    slurm.occupy("a1", "low")
    slurm.until("R", "squeue", "-h", "-w", "a1", "-o", "%t")
    assert main(["fleet", "run", str(fleet)]) == 0
    wait_for(fleet, 3)
    assert set(begun(fleet)) == {"a2", "a3", "b1"}
    ids = slurm.call("squeue", "-h", "-w", "a1", "-o", "%i").split()
    slurm.call("scancel", *ids)
    wait_for(fleet, 4)
    assert all(len(times) == 1 for times in begun(fleet).values())
    ended(fleet, slurm)
    assert main(["fleet", "status", str(fleet)]) == 0


def test_what_is_done_or_in_flight_is_left_so(slurm: Cluster, fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "run", str(fleet), "--at-once", "2"]) == 0
    assert capsys.readouterr().out.count("submitted job") == 2
    assert main(["fleet", "run", str(fleet), "--at-once", "2"]) == 0
    assert capsys.readouterr().out == ""
    wait_for(fleet, 2)
    ended(fleet, slurm)
    assert main(["fleet", "run", str(fleet)]) == 0
    assert capsys.readouterr().out.count("submitted job") == 2
    slurm.until_empty()
    assert main(["fleet", "status", str(fleet)]) == 0
    assert "all is done" in capsys.readouterr().out
    assert sorted(begun(fleet)) == ["a1", "a2", "a3", "b1"]


def test_a_preempted_job_is_requeued_by_slurm(slurm: Cluster, fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replaced(fleet, want=1)
    assert main(["fleet", "run", str(fleet)]) == 0
    wait_for(fleet, 2)
    (first,) = set(begun(fleet)) - {"b1"}
    job = begun(fleet)[first][0].split()[0]
    above = slurm.occupy(first, "high")
    slurm.until("PENDING", "squeue", "-h", "-j", job, "-o", "%T")
    slurm.until("RUNNING", "squeue", "-h", "-j", above, "-o", "%T")
    capsys.readouterr()
    assert main(["fleet", "status", str(fleet)]) == 1
    assert f"{first}: stopped: nothing stored yet" in capsys.readouterr().out
    slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now")
    wait_for(fleet, 3)
    (second,) = set(begun(fleet)) - {"b1", first}
    assert begun(fleet)[second] == [f"{job} 1"]
    slurm.call("scancel", above)
    ended(fleet, slurm)
    assert main(["fleet", "status", str(fleet)]) == 0


def test_a_person_s_cancel_and_a_cancelled_fleet_are_gone_on_with(
    slurm: Cluster, fleet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "run", str(fleet)]) == 0
    wait_for(fleet, 4)
    copy = shutil.copytree(fleet, fleet.with_name("copy"))
    assert main(["fleet", "cancel", str(copy)]) == 0
    assert "0 jobs cancelled" in capsys.readouterr().out, "they are the original's"
    slurm.call("scancel", begun(fleet)["b1"][0].split()[0])
    assert main(["fleet", "cancel", str(fleet)]) == 0
    assert "goes on with it" in capsys.readouterr().out
    slurm.until_empty()
    assert main(["fleet", "status", str(fleet)]) == 1
    said = capsys.readouterr().out
    assert said.count("stopped") == 4
    assert "4 nodes missing" in said
    (fleet / "go").touch()
    assert main(["fleet", "run", str(fleet)]) == 0
    slurm.until_empty()
    assert main(["fleet", "status", str(fleet)]) == 0
    assert all(len(times) == 2 for times in begun(fleet).values())


def test_a_done_node_alone_is_measured_again(slurm: Cluster, fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "run", str(fleet)]) == 0
    ended(fleet, slurm)
    assert main(["fleet", "run", str(fleet), "--again", "a2", "b1"]) == 0
    slurm.until_empty()
    assert {node: len(times) for node, times in begun(fleet).items()} == {"a1": 1, "a2": 2, "a3": 1, "b1": 2}
    capsys.readouterr()
    assert main(["fleet", "run", str(fleet), "--again", "c1"]) == 2
    assert "has no node of that name" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["run", "cancel"])
def test_two_cannot_submit_for_one_folder_at_once(fleet: Path, capsys: pytest.CaptureFixture[str], action: str) -> None:
    """Nor would a cancelled job stay so while another submits."""
    from tipbench.fleet.command import only_here

    with only_here(fleet):
        assert main(["fleet", action, str(fleet)]) == 2
    assert "is submitting: wait for its end" in capsys.readouterr().err


def test_damaged_files_of_a_fleet(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = fleet / "nodes" / "a1"
    here.mkdir()
    for damaged in (b"", b"{", b'{"code": "0"}', b"\xff"):
        (here / "end.json").write_bytes(damaged)
        assert main(["fleet", "status", str(fleet)]) == 1
        assert "a1: stopped: nothing stored yet" in capsys.readouterr().out
    plan = (fleet / "plan.toml").read_text()
    for text, said in (
        (plan.replace("fleet =", "format = 1\nfleet ="), "unknown field `format`"),
        (plan.replace("want = 3", 'want = "3"'), "want: expected `int`"),
        (plan + "}", "is not TOML"),
        (plan.replace('["b1"]', '["../b1"]'), "'../b1' is no name of a node"),
        (plan.replace("want = 3", "wants = 3"), "want"),
        (plan.replace("want = 3", "want = -1"), "want: expected `int` >= 0"),
        (plan.replace("torch =", "touch ="), "versions: invalid enum value 'touch'"),
        *((plan.replace("= 5.0", f"= {odd}"), "budget_minutes: expected `float`") for odd in ("nan", "inf", "-1")),
    ):
        (fleet / "plan.toml").write_text(text)
        assert main(["fleet", "run", str(fleet)]) == 2
        assert said in capsys.readouterr().err


# ---- the real thing --------------------------------------------------------------------------------


def test_a_killed_job_resumes_on_its_node_and_a_fleet_is_compared(
    slurm: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fleet"
    names = ["control.Pointwise", "control.SmallOperations"]
    assert main(["fleet", "plan", str(folder), "--budget", "1m", "--per-kind", "1", "--names", *names]) == 0
    real(folder, tmp_path)
    assert main(["fleet", "run", str(folder)]) == 0
    deadline = time.monotonic() + 120
    while len(files := [file for node in ("a1", "a2", "a3", "b1") for file in progress.runs_of(folder, node)]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    (job,) = set(slurm.call("squeue", "-h", "-w", "b1", "-o", "%i").split())
    slurm.call("scancel", "--signal=KILL", "--full", job)
    slurm.until_gone(job)
    assert progress.end_of(folder, "b1") is None
    assert main(["fleet", "run", str(folder)]) == 0
    slurm.until_empty()
    capsys.readouterr()
    assert main(["fleet", "status", str(folder)]) == 0, capsys.readouterr().out
    assert sorted(files) == sorted((folder / "nodes").rglob("*.jsonl")), "the same run went on"
    assert main(["fleet", "run", str(folder), "--again", "b1"]) == 0
    slurm.until_empty()
    assert len(progress.runs_of(folder, "b1")) == 2
    capsys.readouterr()
    assert main(["compare", str(folder)]) == 0
    assert "# PyTorch tuning tips on 2 nodes of 1 kind of machine" in capsys.readouterr().out


def test_a_node_with_other_versions_is_refused_once_and_for_all(
    slurm: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fleet"
    assert main(["fleet", "plan", str(folder), "--budget", "1m", "--per-kind", "1"]) == 0
    real(folder, tmp_path)
    replaced(folder, torch="1.0")
    assert main(["fleet", "run", str(folder)]) == 0
    slurm.until_empty()
    capsys.readouterr()
    assert main(["fleet", "status", str(folder)]) == 1
    said = capsys.readouterr().out
    assert said.count("failed: torch ") == 2
    assert "and the plan is of torch 1.0" in said
    for left in (1, 1):  # of a there are two nodes more
        assert main(["fleet", "run", str(folder)]) == left
        slurm.until_empty()
    said = capsys.readouterr().err
    assert "kind 2: 1 more wanted, and 0 nodes can be tried" in said


# ---- without Slurm -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["plan", "run", "cancel"])
def test_without_slurm_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = tmp_path / "fleet"
    if command != "plan":
        folder.mkdir()
        (folder / "plan.toml").write_text(plans.as_toml(made_up()))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["fleet", command, str(folder)]) == 2
    assert "a fleet is started where Slurm's commands are" in capsys.readouterr().err


def made_up() -> plans.FleetPlan:
    kind = plans.PlannedKind("4 cores", ["n1"], 1, "tipbench")
    return plans.FleetPlan("0" * 8, "all", plans.NodeOptions(), {"suite": "1"}, {"1": kind})


def test_a_plan_is_read_as_it_was_written_and_a_version_that_it_leaves_out_may_be_any(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(plans.as_toml(made_up()))
    assert plans.read(tmp_path) == made_up()
    versions, _ = plans.installed_versions()
    del versions["torch"]
    assert _other_versions(msgspec.structs.replace(made_up(), versions=versions)) == ""


def test_a_job_runs_nothing_of_the_folder_of_its_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_in_front(monkeypatch, tmp_path, sinfo="echo 'a1|low*|idle|4|1:4:1|1000|1:00:00||'")
    (tmp_path / "argparse.py").write_text("raise SystemExit('executed')")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert main(["fleet", "plan", str(tmp_path / "a fleet"), "--budget", "5m"]) == 0
    words: list[str | Path] = [
        "sh",
        tmp_path / "a fleet/job.sh",
        plans.read(tmp_path / "a fleet").kind["1"].tipbench,
        tmp_path / "a fleet",
    ]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"plan.toml has no node '{socket.gethostname()}', as this machine calls itself, but a1: name" in ended.stderr


@pytest.mark.parametrize(
    ("machine", "node"),
    [("n1.cluster.local", "n1"), ("n2", "n2.east"), ("n2.west", ""), ("n3", ""), ("n11", ""), ("n3.west", "n3.west")],
)
def test_a_machine_is_the_node_of_its_name_with_or_without_its_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], machine: str, node: str
) -> None:
    plan = made_up()
    plan.kind["1"].nodes[:] = ["n1", "n2.east", "n3.east", "n3.west"]
    (tmp_path / "plan.toml").write_text(plans.as_toml(plan))
    monkeypatch.setattr(socket, "gethostname", lambda: machine)
    for name in NODE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert main(["fleet", "node", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{node}: suite {__version__} is installed there" in error if node else "name this one with --as" in error
    assert [file.name for file in tmp_path.glob("nodes/*")] == [node] * bool(node)


def test_a_second_run_goes_on_after_the_clock_stepped_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.toml").write_text(plans.as_toml(made_up()))
    results = tmp_path / "nodes/n1/results/m"
    results.mkdir(parents=True)
    (results / "2026-11-27-1.jsonl").touch()
    progress.keep_end(tmp_path, "n1", progress.End(0))
    progress.begin_again(tmp_path, "n1")
    (results / "2026-11-27-2.jsonl").touch()
    os.utime(results / "2026-11-27-2.jsonl", (0, 0))
    assert progress.unended_runs_of(tmp_path, "n1") == [results / "2026-11-27-2.jsonl"]
    progress.keep_end(tmp_path, "n1", progress.End(0))
    (tmp_path / "nodes/n1/ended.txt").unlink()
    (tmp_path / "nodes/n1/ended.txt").mkdir()  # which takes no file, as a read-only folder
    assert main(["fleet", "node", str(tmp_path), "--as", "n1", "--again"]) == 2
    assert "nodes/n1 cannot be written" in capsys.readouterr().err


def test_what_is_read_of_a_node() -> None:
    node = SlurmNode("g7", "gpu", False, "", 128, "2:32:2", 2063000, "2-00:30:00", "gpu:h100:8,gpu:a100:2", ())
    assert (node.cards, node.limit_minutes) == (10, 2 * 1440 + 30)
    assert plans.options_of(node) == ["--exclusive", "--mem=0", "--gpus-per-node=10"]
