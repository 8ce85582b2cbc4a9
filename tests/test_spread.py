"""Ranks over several nodes: by srun of a real Slurm, and by a stand-in for mpirun where there is none.

All nodes are this machine. `python -m tests.tiny run` is the command with next to no launches.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests import slurm_cluster
from tests.slurm_cluster import Cluster, cluster
from tests.tiny import PAIRS, living, wait_for
from tipbench.engine import spread
from tipbench.engine.diagnose import Evidence
from tipbench.engine.process import Process, spawn
from tipbench.engine.spread import NodeLost, NodesError, Spread, launcher_words, spread_over
from tipbench.records import store
from tipbench.records.listing import newest
from tipbench.records.record import Record, Run
from tipbench.worker import node
from tipbench.worker.protocol import OUTPUT_LIMIT

HOME = Path(__file__).parent.parent
RUN = (sys.executable, "-m", "tests.tiny", "run")
OURS = ("--from", str(PAIRS / "nodes"))

MPIRUN = """#!/usr/bin/env bash
# As `mpirun --map-by ppr:1:node` on two nodes: one process each. All end at the first bad exit, or when the launcher is
# asked to end; those that do not within a second are killed.
end() { kill "${nodes[@]}"; sleep 1; kill -9 "${nodes[@]}"; wait; exit "$1"; } 2> /dev/null
here=${0%/*}
[[ -e $here/gone ]] && { echo "mpirun: node 1 does not answer" >&2; exit 1; }
trap 'end 143' TERM
for number in 0 1; do
    [[ $number == 1 && -d $here/other ]] && export PYTHONPATH=$here/other:$PYTHONPATH
    OMPI_COMM_WORLD_RANK=$number OMPI_COMM_WORLD_SIZE=2 "$@" &
    nodes+=($!)
done
wait -n || end $?
wait -n || end $?
"""


@dataclasses.dataclass
class Two:
    """Two nodes, and what is measured on them. launcher: what --spread names. tmp: a temporary folder of their own,
    with a path that is short enough for workers' sockets; by it, this test's processes are known from all others."""

    folder: Path
    launcher: str
    tmp: str = dataclasses.field(default_factory=lambda: tempfile.mkdtemp(prefix="two-", dir="/tmp"))
    begun: list[subprocess.Popen[str]] = dataclasses.field(default_factory=list)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": self.tmp, "PYTHONPATH": str(HOME / "harness")}

    def command(self, *words: str) -> list[str]:
        return [*RUN, *words, "--spread", self.launcher]

    def begin(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        run = subprocess.Popen(
            self.command(*words), cwd=HOME, env=self.env, text=True, stdout=pipe, stderr=subprocess.STDOUT
        )
        self.begun.append(run)
        return run

    def stored(self) -> Run:
        run, notices = store.read(newest(self.results))
        assert notices == []
        return run

    def record(self, pair: str) -> Record:
        (record,) = (record for record in self.stored().records if record.info.pair == pair)
        return record

    def rank(self, number: int) -> psutil.Process:
        """That rank's process, once it runs."""
        found: list[psutil.Process] = []

        def started() -> bool:
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    theirs = process.environ()
                    if theirs.get("RANK") == str(number) and theirs["TMPDIR"].startswith(self.tmp):
                        found.append(process)
            return bool(found)

        assert wait_for(started, 120)
        return found[0]

    def processes(self) -> list[psutil.Process]:
        """The processes with this run's own temporary folder, and of no other test or person."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("TMPDIR") == self.tmp:
                    found.append(process)
        return found

    def end(self) -> None:
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        for run in self.begun:
            run.wait()
            assert run.stdout is not None
            run.stdout.close()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def has_ended(self) -> bool:
        """Whether nothing of it runs any more, on any node."""
        return wait_for(lambda: not living(Path(self.tmp)), 60)

    def is_clean(self) -> bool:
        """Whether that is so, and no folder lies beside the results. Of a node that was killed a temporary folder
        stays, which the next run there removes."""
        return self.has_ended() and not list(self.results.glob(".ranks-*"))


def mpirun(folder: Path) -> Two:
    program = folder / "mpirun"
    program.write_text(MPIRUN)
    program.chmod(0o755)
    return Two(folder, str(program))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = mpirun(tmp_path)
    yield made
    made.end()


# ---- a launcher, and which node is which ----


@pytest.mark.parametrize("launcher", ["'srun", " ", "no-such-launcher --overlap"])
def test_what_is_no_command_is_refused(launcher: str) -> None:
    with pytest.raises(NodesError, match="expected a command that starts one process on each node, such as 'srun"):
        launcher_words(launcher)


def test_srun_starts_one_process_on_each_node_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda word: f"/usr/bin/{word}")
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NodesError, match="this is no allocation; run it within one, by sbatch or salloc"):
        launcher_words("srun")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    words = launcher_words("srun --cpu-bind=cores")
    assert words[:5] == ["srun", "-N", "3", "-n", "3"]
    assert {"--overlap", "--kill-on-bad-exit=1", "--wait=0", "--mem=0", "--export=ALL"} <= set(words)
    assert words[-1] == "--cpu-bind=cores", "a person's own word comes last, and wins"
    assert launcher_words("mpirun -x PATH") == ["mpirun", "-x", "PATH"]


def test_a_node_is_what_the_launcher_says_mpiruns_word_before_slurms(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in node.PLACES:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match="the launcher does not number its processes: none of OMPI_COMM_WORLD_RANK, "):
        node.place()
    monkeypatch.setenv("SLURM_NODEID", "0")
    with pytest.raises(SystemExit, match="does not number"):  # in a job's script there is no step
        node.place()
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "2")
    assert node.place() == (0, 2)
    monkeypatch.setenv("PMI_RANK", "2")
    monkeypatch.setenv("PMI_SIZE", "3")
    assert node.place() == (2, 3)


def test_the_first_nodes_address_is_never_another_nodes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not known, each node would measure alone, and nothing would say so."""
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "second")
    with pytest.raises(SystemExit, match=r"second cannot look up gone\.invalid, the first node .*set MASTER_ADDR"):
        node.address_of("gone.invalid")
    with pytest.raises(SystemExit, match="second looks up localhost, the first node, as itself: set MASTER_ADDR"):
        node.address_of("localhost")
    monkeypatch.setenv("MASTER_ADDR", "192.0.2.7")
    assert node.address_of("gone.invalid") == "192.0.2.7"
    monkeypatch.setattr("socket.gethostname", lambda: "first")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert node.address_of("first") == "127.0.0.1"


def test_a_run_is_typed_on_the_first_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setattr("socket.gethostname", lambda: "first")
    with pytest.raises(SystemExit, match="the launcher's first node is first: start the run there, and not on login"):
        node.meet("login", 1, 2, tmp_path, tmp_path)


def test_a_network_is_the_one_that_leads_to_the_first_node_or_a_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert node.network("127.0.0.1") == {"interface": "lo", "mbit": 0}
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    assert node.network("127.0.0.1") == {"interface": "ib0", "mbit": 0}


def test_a_node_has_the_variables_of_the_run_and_folders_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    for name in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "/of/the/first/node")
    monkeypatch.setenv("OMP_PROC_BIND", "true")  # by the shell of this node
    node.take_over({"OMP_NUM_THREADS": "3", "TMPDIR": "/of/the/first/node"}, tmp_path)
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "OMP_PROC_BIND" not in os.environ
    for name in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        assert Path(os.environ[name]).parent == tmp_path
    assert Path(os.environ["TMPDIR"]).is_dir()


def test_what_a_group_receives_is_what_the_launcher_may_not_hand_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_OWN", "as it is")
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    nodes = Spread(["mpirun"], tmp_path, tmp_path, "192.0.2.7", [{}, {}])
    task = nodes.group({**os.environ, "OMP_NUM_THREADS": "3", "LD_PRELOAD": "libx.so"}, deadline=9.0)
    assert (task["nodes"], task["head"], task["deadline"]) == (2, "192.0.2.7", 9.0)
    assert {"OMP_PROC_BIND": "true", "OMP_NUM_THREADS": "3", "LD_PRELOAD": "libx.so"}.items() <= task[
        "variables"
    ].items()
    assert "MY_OWN" not in task["variables"]
    assert nodes.new_reports() != nodes.new_reports()


def test_a_digest_is_of_every_file_and_its_name(tmp_path: Path) -> None:
    for folder in ("a/pairs", "b/pairs"):
        shutil.copytree(PAIRS / "nodes", tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    same, mine = node.digest(tmp_path / "a/pairs"), tmp_path / "b/pairs"
    assert node.digest(mine) == same
    (mine / "helper.py").write_text("")
    assert node.digest(mine) != same
    (mine / "helper.py").rename(mine / "over_nodes_2.py")
    assert node.digest(mine) != same
    assert node.digest(mine / "over_nodes.py") not in (same, node.digest(mine))


# ---- nodes that cannot work together ----

LIKE_THIS = {"suite": "1", "commit": "abc", "torch": "2.15.0", "python": "3.11", "pairs": "def", "cores": 4}


@pytest.mark.parametrize("name", node.SAME)
def test_a_node_with_something_else_installed_is_refused(tmp_path: Path, name: str) -> None:
    why = rf"node 1 has {name} other \(node 0: {LIKE_THIS[name]}\): install the same on all nodes"
    with pytest.raises(SystemExit, match=why):
        node.require_fit(1, {**LIKE_THIS, name: "other"}, LIKE_THIS, 4, tmp_path)


def test_a_process_that_is_bound_to_a_core_is_refused(tmp_path: Path) -> None:
    """`mpirun` binds each process by default, and all threads of its ranks with it."""
    bound = {**LIKE_THIS, "cores": 1}
    with pytest.raises(SystemExit, match=r"node 0 may use 1 core, and the run 4: .* binds to no core, as `mpirun"):
        node.require_fit(0, bound, bound, 4, tmp_path)


def test_results_that_a_node_does_not_see_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"node 1 does not see {tmp_path}: name a folder that all share, by --results"):
        node.require_fit(1, LIKE_THIS, LIKE_THIS, 4, tmp_path / "reports")
    node.require_fit(1, LIKE_THIS, LIKE_THIS, 4, tmp_path)


@pytest.mark.parametrize(
    ("launcher", "why"),
    [
        ("env", "the launcher does not number its processes"),
        ("env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "the launcher starts one process alone"),
        ("false", "`false` ended with exit code 1"),
        ("bash -c 'echo no such host >&2; exit 3'", "`bash` ended with exit code 3; it last printed: no such host"),
    ],
)
def test_a_launcher_that_does_something_else_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, launcher: str, why: str
) -> None:
    for names in node.PLACES:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    with pytest.raises(NodesError, match=re.escape(why)), spread_over(launcher, PAIRS / "nodes", tmp_path):
        pass


def test_a_node_that_is_silent_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spread, "MEET_S", 0.05)
    nodes = Spread(["bash", "-c", "sleep 1000"], tmp_path, tmp_path, "192.0.2.7", [{}, {}])
    with pytest.raises(NodeLost, match="a node was lost: the nodes have not met within 0 s"):
        nodes.require_all()


# ---- what ranks leave ----

FIRST = {"rank": 1, "failed": {"code": "step-raised", "detail": "optimized, step 1: it had enough"}, "order": 1}
LOST = {"rank": 0, "failed": {"code": "step-raised", "detail": "Connection closed by peer"}, "order": 2}


@pytest.fixture
def evidence(tmp_path: Path) -> Iterator[Evidence]:
    """Of a launcher that has ended with 1; its ranks' reports are to be in `reports`."""
    (tmp_path / "reports").mkdir()
    launcher = Process(spawn(["false"], os.environ, tmp_path / "output"), ranks=2)
    yield Evidence(launcher, tmp_path, "over_nodes.py", tmp_path / "reports")
    launcher.end()


def test_the_first_rank_to_fail_is_the_reason(evidence: Evidence, tmp_path: Path) -> None:
    (tmp_path / "reports/rank-0.json").write_text(json.dumps(LOST))
    (tmp_path / "reports/rank-1.json").write_text(json.dumps(FIRST))
    (tmp_path / "reports/rank-3.json").write_text(json.dumps(LOST)[:20])  # killed while it wrote
    (tmp_path / "reports/exit-codes-1.json").write_text('{"1": 1}')
    failure = evidence.closed("results optimized")
    assert (failure.kind, failure.text) == ("step raised", "optimized, step 1: it had enough")


def test_a_rank_that_torchrun_ended_is_not_the_reason(evidence: Evidence, tmp_path: Path) -> None:
    (tmp_path / "reports/exit-codes-0.json").write_text(json.dumps({"0": -signal.SIGTERM}))
    (tmp_path / "reports/exit-codes-1.json").write_text(json.dumps({"1": 5}))
    failure = evidence.closed("results optimized")
    assert (failure.kind, failure.fields["rank"], failure.fields["code"]) == ("exited", 1, 5)


def test_a_node_that_floods_its_output_is_the_reason(evidence: Evidence, tmp_path: Path) -> None:
    with (tmp_path / "reports/output-1").open("wb") as output:
        output.truncate(OUTPUT_LIMIT)
    assert evidence.closed("results optimized").code == "output-flood"


# ---- whole runs ----

WHOLE = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Two, int, str]]:
    """Nodes, exit code and what was said of a run of all pairs."""
    two = mpirun(tmp_path_factory.mktemp("two"))
    run = two.begin(*OURS, "--results", str(two.results))
    said, _ = run.communicate()
    yield two, run.returncode, said
    two.end()


Whole = tuple[Two, int, str]


@WHOLE
def test_ranks_are_shared_out_among_the_nodes(whole: Whole) -> None:
    record = whole[0].record("Summing")
    assert record.outcome == "measured", record.reason
    assert record.variants["optimized"].mechanism["optimized"] == ["0", "1"]
    assert record.variants["optimized"].equal["worst"] == 0
    assert record.variants["optimized"].memory
    assert len(record.launches) == 2


@WHOLE
@pytest.mark.parametrize(
    ("pair", "reason", "remedy"),
    [
        ("NoRanks", "has no ranks", "without --spread"),
        ("Mixed", "processes with different settings", "without --spread"),
        ("Three", "3 ranks cannot be shared", "another number of nodes"),
    ],
)
def test_what_cannot_be_spread_is_skipped_with_the_reason(whole: Whole, pair: str, reason: str, remedy: str) -> None:
    record = whole[0].record(pair)
    assert record.outcome == "skipped"
    assert reason in record.reason
    assert remedy in record.remedy


@WHOLE
@pytest.mark.parametrize(
    ("pair", "kind", "reason"),
    [
        ("OneRankRaises", "step raised", "optimized, step 1: ValueError: rank 1 has had enough (over_nodes.py, line "),
        ("OneRankDies", "exited", "left with exit code 5 while doing: results optimized"),
        ("OneRankHangs", "hang", "no answer within 8 s while doing: results optimized; ended when rank 0 was in over_"),
    ],
)
def test_a_rank_that_fails_on_another_node_is_the_reason(whole: Whole, pair: str, kind: str, reason: str) -> None:
    record = whole[0].record(pair)
    assert (record.outcome, record.kind) == ("failed", kind), record.reason
    assert record.reason.startswith(reason)


@WHOLE
def test_where_a_hanging_step_was_is_known_of_each_rank(whole: Whole) -> None:
    reason = whole[0].record("OneRankHangs").reason
    source = (PAIRS / "nodes/over_nodes.py").read_text().splitlines()
    named = re.findall(r"rank (\d) was in over_nodes\.py, line (\d+)", reason)
    lines = {rank: source[int(line) - 1].strip() for rank, line in named}
    assert lines == {"0": "distributed.all_reduce(total)", "1": "time.sleep(1000)"}, reason


@WHOLE
def test_a_run_says_how_it_went_and_leaves_nothing(whole: Whole) -> None:
    two, code, said = whole
    assert code == 1, said  # three pairs fail
    assert "Traceback" not in said
    run = two.stored()
    assert run.options["nnodes"] == 2
    assert [machine["interface"] for machine in run.machine["nodes"]] == ["lo", "lo"]
    assert two.is_clean()
    assert os.listdir(two.tmp) == []


@WHOLE
def test_a_node_with_another_torch_ends_the_run_before_it_begins(two: Two) -> None:
    about = two.folder / "other/torch-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.1\n")
    run = two.begin(*OURS, "over-nodes.Summing", "--results", str(two.results))
    said, _ = run.communicate()
    assert run.returncode == 2, said
    assert "tipbench: node 1 has torch 0.1 (node 0: " in said
    assert "install the same on all nodes" in said
    assert not list(two.results.rglob("*.jsonl"))
    assert two.is_clean()


@WHOLE
def test_a_lost_node_ends_the_run_which_can_go_on(two: Two) -> None:
    run = two.begin(*OURS, "over-nodes.NoRanks", "over-nodes.OneRankRaises", "--results", str(two.results))
    rank = two.rank(1)
    (two.folder / "gone").touch()
    rank.kill()
    said, _ = run.communicate()
    assert run.returncode == 1, said
    assert "tipbench: a node was lost: `" in said
    assert "ended with exit code 1; it last printed: mpirun: node 1 does not answer; 1 of 2 pairs are safe in " in said
    assert f"--spread {two.launcher}" in said
    assert "Traceback" not in said
    assert [record.info.pair for record in two.stored().records] == ["NoRanks"]
    assert two.is_clean()

    (two.folder / "gone").unlink()
    run = two.begin(*OURS, "--resume", str(newest(two.results)))
    said, _ = run.communicate()
    assert run.returncode == 1, said
    assert [record.outcome for record in two.stored().records] == ["skipped", "failed"]
    assert "rank 1 has had enough" in two.stored().records[1].reason


@WHOLE
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_when_a_run_is_ended_its_ranks_end(two: Two, how: signal.Signals) -> None:
    run = two.begin(*OURS, "over-nodes.Summing", "--results", str(two.results))
    two.rank(1)
    run.send_signal(how)
    said, _ = run.communicate()
    assert two.has_ended()
    if how != signal.SIGKILL:
        assert run.returncode == 130, said
        assert f"--spread {two.launcher}" in said
        assert two.is_clean()


# ---- by srun ----


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    slurm_cluster.need()
    # The run is to see itself that a node is lost, before Slurm ends its job.
    with cluster(tmp_path_factory.mktemp("slurm"), timeout_s=600) as made:
        yield made


@dataclasses.dataclass
class Job:
    """A job on a1 and a2 that runs one command. number: of the job."""

    slurm: Cluster
    number: str
    log: Path

    def state(self) -> str:
        return self.slurm.call("squeue", "-h", "-j", self.number, "-t", "all", "-o", "%T").strip()

    def said(self) -> str:
        """What the command said, once the job has ended."""
        while self.state() in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            time.sleep(0.2)
        return self.log.read_text()


def submitted(slurm: Cluster, two: Two, *words: str) -> Job:
    env = {**two.env, **{name: slurm.env[name] for name in ("SLURM_CONF", "PATH")}}
    log = two.folder / f"job-{len(list(two.folder.iterdir()))}.txt"
    wrapped = f"cd {shlex.quote(str(HOME))} && {shlex.join(two.command(*words))}"
    sbatch = ["sbatch", "--parsable", "-N2", "-w", "a1,a2", "-o", str(log), "--wrap", wrapped]
    done = subprocess.run(sbatch, env=env, capture_output=True, text=True, check=True)
    return Job(slurm, done.stdout.strip(), log)


@pytest.fixture
def by_srun(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path, "srun --overlap")
    yield made
    made.end()


@WHOLE
def test_srun_starts_the_ranks_the_first_beside_the_run(slurm: Cluster, by_srun: Two) -> None:
    names = ("over-nodes.Summing", "over-nodes.OneRankRaises", "over-nodes.OneRankDies")
    said = submitted(slurm, by_srun, *OURS, *names, "--results", str(by_srun.results)).said()
    record = by_srun.record("Summing")
    assert record.outcome == "measured", said
    assert record.variants["optimized"].mechanism["optimized"] == ["a1", "a2"]
    assert len(record.launches) == 2
    assert "rank 1 has had enough" in by_srun.record("OneRankRaises").reason
    assert "left with exit code 5" in by_srun.record("OneRankDies").reason
    assert len(by_srun.stored().machine["nodes"]) == 2
    assert "Traceback" not in said
    assert by_srun.is_clean()


@WHOLE
def test_a_pair_of_the_guides_is_measured_over_nodes(slurm: Cluster, by_srun: Two) -> None:
    words = ("no-sync.LargeLinear", "openmp-threads.TwoInstances", "--results", str(by_srun.results), "--budget", "90s")
    said = submitted(slurm, by_srun, *words, "--profile", "quick").said()
    record = by_srun.record("LargeLinear")
    assert record.outcome == "measured", said
    assert record.variants["optimized"].mechanism["engaged"]
    assert record.launches
    assert by_srun.is_clean()


@WHOLE
def test_a_node_that_fails_ends_the_run_which_goes_on_in_another_job(slurm: Cluster, by_srun: Two) -> None:
    names = ("over-nodes.NoRanks", "over-nodes.Summing")
    job = submitted(slurm, by_srun, *OURS, *names, "--results", str(by_srun.results))
    on_the_node = [process for process in by_srun.rank(1).parents() if process.name() == "slurmstepd"]
    assert len(on_the_node) == 1
    slurm.nodes["a2"].kill()
    on_the_node[0].kill()
    assert wait_for(lambda: "continue with: " in job.log.read_text(), 400)
    # Slurm waits for the node's word that all has ended there.
    slurm.nodes["a2"] = slurm.start("slurmd", "-D", "-N", "a2", "-f", slurm.env["SLURM_CONF"])
    said = job.said()
    assert "tipbench: a node was lost: " in said
    assert "1 of 2 pairs are safe in " in said
    assert "--spread 'srun --overlap'" in said
    assert "Traceback" not in said

    file = newest(by_srun.results)
    said = submitted(slurm, by_srun, *OURS, "--resume", str(file)).said()
    assert by_srun.record("Summing").outcome == "measured", said
    assert by_srun.is_clean()


@WHOLE
@pytest.mark.parametrize("how", ["scancel", "kill -9"])
def test_when_a_job_or_its_run_is_ended_no_rank_stays(slurm: Cluster, by_srun: Two, how: str) -> None:
    job = submitted(slurm, by_srun, *OURS, "over-nodes.Summing", "--results", str(by_srun.results))
    by_srun.rank(1)
    if how == "scancel":
        slurm.call("scancel", job.number)
    else:
        (run,) = [ours for ours in by_srun.processes() if "run" in ours.cmdline() and ours.name().startswith("python")]
        run.kill()
    job.said()
    assert by_srun.has_ended()
