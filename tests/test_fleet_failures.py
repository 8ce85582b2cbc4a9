"""`tipbench fleet` on a real Slurm where something goes wrong: what is said and kept, and what the next call does."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import slurm_cluster
from tests.slurm_cluster import FIVE_HUNDRED, TEMPLATES, Cluster, begun, cluster, ended, real, replaced, wait_for
from tests.slurm_cluster import fleet as fleet  # fixtures
from tests.slurm_cluster import four as four
from tests.slurm_cluster import slurm as slurm
from tests.tiny import put_in_front
from tipbench.cli import main
from tipbench.fleet import command, progress
from tipbench.fleet import slurm as commands

pytestmark = pytest.mark.slow

REFUSALS = TEMPLATES / "sbatch-22.05.txt"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No minutes between two looks at the queue."""
    monkeypatch.setattr(command, "AGAIN_S", 0.2)


# ---- the scheduler ------------------------------------------------------------------------------------


@contextlib.contextmanager
def silent(slurm: Cluster) -> Iterator[None]:
    assert slurm.controller
    slurm.controller.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        slurm.controller.send_signal(signal.SIGCONT)


def test_a_silent_controller(
    slurm: Cluster, fleet: Path, hasty: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "run", str(fleet), "--at-once", "1"]) == 0
    wait_for(fleet, 1)
    (node,) = begun(fleet)
    capsys.readouterr()
    with silent(slurm):
        assert main(["fleet", "status", str(fleet)]) == 1
        printed = capsys.readouterr()
        assert "`squeue`: slurm_load_jobs error: Socket timed out" in printed.err, "by itself, after 10 s"
        assert f"{node}: stopped: nothing stored yet" in printed.out, "by the folder alone"
        assert "nothing more is submitted" not in printed.out, "what is in flight is not known"
        monkeypatch.setattr(commands, "CALL_S", 1.0)
        assert main(["fleet", "run", str(fleet)]) == 1
        assert capsys.readouterr().err == "tipbench: `squeue` did not end within 1 s: later\n"
        assert main(["fleet", "run", str(fleet), "--wait"]) == 2
        assert main(["fleet", "cancel", str(fleet)]) == 2
        assert "`squeue` did not end within 1 s" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("SLURM_CONF", slurm.env["SLURM_CONF"])
    monkeypatch.setenv("PATH", slurm.env["PATH"])
    assert main(["fleet", "run", str(fleet)]) == 0
    wait_for(fleet, 4)
    assert all(len(times) == 1 for times in begun(fleet).values())


def test_what_sbatch_submitted_although_it_did_not_say_so_is_not_submitted_again(
    slurm: Cluster, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A controller that stops answering within the call: the job is in the queue all the same when it goes on."""
    assert slurm.controller
    halting = f'kill -STOP {slurm.controller.pid}\nexec {shutil.which("sbatch")} "$@"'
    replaced(fleet, want=1)
    with monkeypatch.context() as patch, silent(slurm):
        slurm.controller.send_signal(signal.SIGCONT)
        put_in_front(patch, tmp_path / "bin", sbatch=halting)
        patch.setattr(commands, "CALL_S", 3.0)
        assert main(["fleet", "run", str(fleet)]) == 1
        assert "`sbatch` did not end within 3 s: later" in capsys.readouterr().err
    wait_for(fleet, 1)
    assert main(["fleet", "run", str(fleet)]) == 0
    assert capsys.readouterr().out.count("submitted job") == 1
    wait_for(fleet, 2)
    assert len(slurm.queued()) == 2


def test_a_full_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`sbatch` itself sleeps and tries again for minutes. MaxJobCount is 6 here, and a controller counts one less."""
    slurm_cluster.need()
    with cluster(tmp_path / "slurm", FIVE_HUNDRED) as slurm:
        monkeypatch.setenv("SLURM_CONF", slurm.env["SLURM_CONF"])
        monkeypatch.setenv("PATH", slurm.env["PATH"])
        monkeypatch.setattr(commands, "CALL_S", 3.0)
        folder = tmp_path / "fleet"
        assert main(["fleet", "plan", str(folder)]) == 0
        for expected in (5, 0):
            capsys.readouterr()
            assert main(["fleet", "run", str(folder)]) == 1
            printed = capsys.readouterr()
            assert printed.out.count("submitted job") == expected
            assert printed.err.count("\n") == 1
            assert "Slurm temporarily unable to accept job, sleeping and retrying: later" in printed.err
            assert len(slurm.queued()) == 5
        assert main(["fleet", "status", str(folder)]) == 1
        assert capsys.readouterr().out.count("waits") + len(slurm.call("squeue", "-h", "-o", "%N").split()) == 5


def test_a_refusal_is_quoted_and_hides_nothing(slurm: Cluster, fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = fleet / "plan.toml"
    before, here, after = file.read_text().rpartition('"--mem=0"')
    file.write_text(f'{before}{here}, "--mem=999999999"{after}')  # of kind b
    replaced(fleet, want=1)
    assert main(["fleet", "run", str(fleet)]) == 2
    printed = capsys.readouterr()
    assert "for a node of kind 1" in printed.out
    assert "Memory specification can not be satisfied" in printed.err
    assert "later" not in printed.err
    assert len(slurm.queued()) == 1


def test_a_partition_that_is_not_up(slurm: Cluster, fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slurm.call("scontrol", "update", "PartitionName=low", "State=INACTIVE")
    try:
        assert main(["fleet", "run", str(fleet)]) == 1
        assert "Required partition not available (inactive or drain): later" in capsys.readouterr().err
        assert main(["fleet", "status", str(fleet)]) == 1
    finally:
        slurm.call("scontrol", "update", "PartitionName=low", "State=UP")
    assert main(["fleet", "run", str(fleet)]) == 0
    wait_for(fleet, 4)


def test_a_fleet_is_started_from_within_a_job(
    slurm: Cluster, fleet: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Variables of that job, and a person's own for `squeue`, change nothing."""
    for name, value in (
        ("SLURM_RESTART_COUNT", "7"),
        ("SLURM_CPU_BIND", "quiet,mask_cpu:0x1"),
        ("SLURM_MEM_PER_CPU", "1"),
        ("SLURMD_NODENAME", "a9"),
        ("SQUEUE_PARTITION", "high"),
        ("SQUEUE_STATES", "COMPLETED"),
        ("SINFO_PARTITION", "absent"),
        ("LOGNAME", "nobody"),  # as `su` may leave it
    ):
        monkeypatch.setenv(name, value)
    assert main(["fleet", "run", str(fleet)]) == 0
    wait_for(fleet, 4)
    assert all(times[0].endswith(" 0") for times in begun(fleet).values())
    capsys.readouterr()
    assert main(["fleet", "run", str(fleet)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["fleet", "cancel", str(fleet)]) == 0
    assert "4 jobs cancelled" in capsys.readouterr().out


# ---- the nodes --------------------------------------------------------------------------------------


def test_a_node_dies(slurm: Cluster, fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replaced(fleet, want=1)
    assert main(["fleet", "run", str(fleet)]) == 0
    wait_for(fleet, 2)
    (first,) = set(begun(fleet)) - {"b1"}
    job = begun(fleet)[first][0].split()[0]
    daemon = slurm.nodes[first]
    of_job = psutil.Process(int((fleet / "nodes" / first / "pid.txt").read_text()))
    step = of_job.parent()
    assert step
    assert step.name() == "slurmstepd"
    try:
        step.kill()
        daemon.kill()
        daemon.wait()
        slurm.until("down", "sinfo", "-h", "-n", first, "-o", "%T")
        slurm.until("PENDING", "squeue", "-h", "-j", job, "-o", "%T")
        capsys.readouterr()
        assert main(["fleet", "status", str(fleet)]) == 1
        assert f"{first}: stopped: nothing stored yet" in capsys.readouterr().out
        slurm.call("scontrol", "update", f"JobId={job}", "StartTime=now")
        wait_for(fleet, 3)
        (second,) = set(begun(fleet)) - {"b1", first}
        assert begun(fleet)[second] == [f"{job} 1"], "Slurm's own requeue, on another node"
        replaced(fleet, want=3)
        capsys.readouterr()
        assert main(["fleet", "run", str(fleet)]) == 1
        assert "kind 1: 2 more wanted, and 1 node can be tried" in capsys.readouterr().err
        wait_for(fleet, 4)
        assert len(begun(fleet)[first]) == 1
    finally:
        of_job.kill()  # it outlives its slurmd
        slurm.start_node(first)
        slurm.until("idle", "sinfo", "-h", "-n", first, "-o", "%T")
    assert main(["fleet", "run", str(fleet), "--at-once", "20"]) == 1, "of b there is one alone"
    ended(fleet, slurm)
    assert {node: measured.state for node, measured in progress.measured_nodes(fleet, []).items()} == dict.fromkeys(
        ("a1", "a2", "a3", "b1"), "done"
    )


def test_a_full_disk(slurm: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """How it ended does not fit either: the log says it. With room, the run goes on where it was."""
    folder = tmp_path / "fleet"
    names = ["control.Pointwise", "control.SmallOperations"]
    plan = ["fleet", "plan", str(folder), "--budget", "1m", "--per-kind", "1", "--names", *names]
    assert main(plan) == 0
    real(folder, tmp_path)
    replaced(folder, nodes=["b1"])
    disk = folder / "nodes" / "b1"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        assert main(["fleet", "run", str(folder), "--at-once", "1"]) == 0
        slurm.until_empty()
        capsys.readouterr()
        assert main(["fleet", "status", str(folder)]) == 1
        printed = capsys.readouterr().out
        assert "b1: stopped: last result" in printed
        assert "the disk is full" in printed
        (before,) = progress.runs_of(folder, "b1")
        assert progress.end_of(folder, "b1") is None
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert main(["fleet", "run", str(folder), "--at-once", "1"]) == 0
        slurm.until_empty()
        assert main(["fleet", "status", str(folder)]) == 0
        assert progress.runs_of(folder, "b1") == [before]
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


# ---- jobs that end at once --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "options", "sentence"),
    [
        ("/no/such", [], "/no/such: not found"),
        ("false", ["--output=/no/such/folder/%j.txt"], "left nothing, not even a log"),
    ],
)
def test_jobs_that_end_at_once_are_not_submitted_for_ever(
    slurm: Cluster,
    fleet: Path,
    hasty: None,
    capsys: pytest.CaptureFixture[str],
    program: str,
    options: list[str],
    sentence: str,
) -> None:
    """A command that is not on the nodes, one that fails, and a folder that is not shared."""
    plan = (fleet / "plan.toml").read_text()
    replaced(fleet, tipbench=program, sbatch=options, want=1, nodes=["a1", "a2", "a3"])
    assert main(["fleet", "run", str(fleet), "--wait"]) == 1
    printed = capsys.readouterr()
    assert sentence in printed.out
    assert "nothing more is submitted: " in printed.out
    assert 0 < printed.out.count("submitted job") <= 2 * progress.TRIES**2
    assert main(["fleet", "run", str(fleet)]) == 1
    printed = capsys.readouterr()
    assert "submitted job" not in printed.out
    assert str(fleet) in printed.err, "what to remove"
    (fleet / "plan.toml").write_text(plan)
    shutil.rmtree(fleet / "logs")
    (fleet / "submitted.txt").unlink()
    assert main(["fleet", "run", str(fleet)]) == 0
    wait_for(fleet, 4)


def test_a_broken_node_does_not_take_all_jobs(
    slurm: Cluster, fleet: Path, tmp_path: Path, hasty: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is free at once, so Slurm chooses it again and again."""
    program = tmp_path / "stand_in"
    broken = 'if os.environ["SLURMD_NODENAME"] == "a1": sys.exit("no torch here")\n'
    program.write_text(program.read_text().replace("folder =", f"{broken}folder ="))
    replaced(fleet, want=1)
    (fleet / "go").touch()
    assert main(["fleet", "run", str(fleet), "--wait"]) == 0
    printed = capsys.readouterr().out
    assert "a1: failed: 3 jobs ended there without a further result; its last job printed: no torch here" in printed
    assert "all is done" in printed


# ---- what Slurm prints ------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [text for text in REFUSALS.read_text().splitlines()[2:] if text])
def test_texts_of_sbatch(line: str) -> None:
    meaning, _, text = line.partition(": ")
    kinds = {"later": commands.Later, "silent": commands.Silent, "refused": commands.SlurmError}
    with pytest.raises(commands.SlurmError) as refusal:
        commands._call(["sh", "-c", 'echo "$1" >&2; exit 1', "sh", text])
    assert type(refusal.value) is kinds[meaning]
    assert text in str(refusal.value)


def test_what_a_site_prints_before_the_id_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "echo 'Welcome to the cluster'\necho '12;east'\necho 'no account given' >&2"
    put_in_front(monkeypatch, tmp_path, sbatch=said)
    assert commands.submit([], ["job.sh"]) == "12"


def test_no_token_goes_to_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_front(monkeypatch, tmp_path, sbatch='echo "${TIPBENCH_TOKEN-none}"')
    monkeypatch.setenv("TIPBENCH_TOKEN", "secret")
    assert commands.submit([], ["job.sh"]) == "none"


def test_lists_of_slurm_22_05(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed by it."""
    printed = {name: f"sed 1d {TEMPLATES / f'{name}-22.05.txt'}" for name in ("sinfo", "squeue")}
    put_in_front(monkeypatch, tmp_path, **printed)
    nodes, jobs = commands.nodes(), commands.jobs("tipbench-")
    assert [(node.name, node.is_default, node.problem) for node in nodes if node.partition == "low"] == [
        ("a1", True, ""),
        ("a2", True, ""),
        ("a3", True, "drained"),
        ("b1", True, "maintenance"),
    ]
    assert {(node.limit_minutes, node.cards, node.gres) for node in nodes} == {(60.0, 0, "")}
    assert {job.id: job.node or job.reason for job in jobs} == {
        "1": "a1",
        "8": "a2",
        "2": "Resources",
        "5": "BeginTime",
        "6": "ReqNodeNotAvail, UnavailableNodes:a3",
        "7": "PartitionTimeLimit",
        "3": "JobHeldUser",
    }
