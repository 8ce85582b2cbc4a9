"""The recipes that start `tipbench fleet node` where there is no Slurm, each by the engine that it is written for.

Ansible reaches this machine under three names by a real sshd, and ReFrame runs its check on this machine and on a real
Slurm. One test measures; elsewhere a stand-in for the command writes how it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

import tipbench
from tests import servers, slurm_cluster
from tipbench import __version__
from tipbench.cli import main
from tipbench.fleet import plan as plans
from tipbench.fleet import progress
from tipbench.machine import describe
from tipbench.suite.commit import suite_commit

pytestmark = pytest.mark.slow

HOME = Path(__file__).parents[1]
RECIPES = Path(tipbench.__file__).parent / "fleet" / "recipes"
PATH = f"{HOME / '.engines' / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin"
NODES = ("n1", "n2", "n3")
ANSWERS_S = 60.0

STAND_IN = """#!/bin/sh
# In place of tipbench on a machine: `fleet node DIR --as NAME` measures nothing, and is done.
mkdir -p "$3/nodes/$5"
echo '{"code": 0, "said": "", "refused": false, "job": ""}' > "$3/nodes/$5/end.json"
"""


def need(*programs: str) -> None:
    """Skip, with the reason, where a program is absent; fail where all tests are to run."""
    there = {name: shutil.which(name, path=PATH) for name in programs}
    servers.need("tests/engines.txt says how to install the engines, and .ci/install-for-tests installs sshd", **there)


def command(file: Path, text: str) -> str:
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


def real(folder: Path) -> str:
    """This suite, with a lock for each name of this machine. It is started by sshd, without a test's environment."""
    kept = ("XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR")
    lines = [f"export {name}='{os.environ[name]}'" for name in kept if name in os.environ]
    lines += [f"export PYTHONPATH='{Path(tipbench.__file__).parents[1]}'", f"export TIPBENCH_LOCK='{folder}/lock'.$5"]
    return command(folder / "real", "\n".join(["#!/bin/sh", *lines, f'exec {sys.executable} -m tipbench "$@"', ""]))


def planned(folder: Path, commands: dict[str, str]) -> plans.Plan:
    """A plan without Slurm: a kind for each node, with its command."""
    about = describe.describe()
    versions = plans.Versions(__version__, suite_commit(), str(about["torch"]), str(about["python"]))
    kinds = {f"of-{node}": plans.Kind("this machine", [node], 1, how) for node, how in commands.items()}
    measure = plans.Measure(0.5, "quick", names=["control.Pointwise"])
    return written(folder, plans.Plan(plans.FORMAT, "0" * 8, "", measure, versions, kinds))


def written(folder: Path, plan: plans.Plan) -> plans.Plan:
    folder.mkdir(exist_ok=True)
    (folder / plans.PLAN).write_text(plans.written(plan))
    return plan


def other_torch(plan: plans.Plan, spared: str) -> plans.Plan:
    """Of a torch that no machine has, which counts for all nodes but one."""
    kinds = {name: replace(kind, torch="any" if spared in kind.nodes else "") for name, kind in plan.kind.items()}
    return replace(plan, versions=replace(plan.versions, torch="1.0"), kind=kinds)


# ---- Ansible, over a real sshd ------------------------------------------------------------------------


@dataclass(frozen=True)
class Machines:
    """Three names of this machine. folder: of keys, inventory and all that Ansible writes."""

    folder: Path
    port: int
    sshd: psutil.Process

    def inventory(self, commands: dict[str, str], ports: dict[str, int] | None = None) -> Path:
        """commands: of tipbench, by name. ports: of sshd, where another."""
        common = {
            "ansible_host": "127.0.0.1",
            "ansible_ssh_private_key_file": self.folder / "user",
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
            "ansible_python_interpreter": sys.executable,
            "ansible_remote_tmp": self.folder / "remote",
            "ansible_async_dir": self.folder / "jobs",
        }
        lines = [
            f"{node} tipbench={how} there={self.folder}/there.{node} ansible_port={(ports or {}).get(node, self.port)}"
            for node, how in commands.items()
        ]
        file = self.folder / "hosts.ini"
        file.write_text("\n".join([*lines, "[all:vars]", *(f"{name}={value}" for name, value in common.items()), ""]))
        return file

    def play(self, inventory: Path, folder: Path, *options: str) -> subprocess.Popen[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        (self.folder / "ansible.cfg").touch()  # in place of the user's
        env |= {"PATH": PATH, "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg")}
        env |= {"ANSIBLE_HOME": str(self.folder / "ansible")}
        env |= {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"), "LC_ALL": "C.UTF-8", "PWD": str(folder.parent)}
        words = ["ansible-playbook", "-i", str(inventory), str(RECIPES / "ssh.yml"), "-e", f"dir={folder.name}"]
        words += ["-e", "look=1", *options]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, cwd=folder.parent, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def played(self, inventory: Path, folder: Path, *options: str) -> tuple[int, str]:
        playing = self.play(inventory, folder, *options)
        said, _ = playing.communicate()
        return playing.returncode, said

    def cut(self) -> None:
        """All connections, as by a laptop that sleeps."""
        for process in self.sshd.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def machines() -> Iterator[Machines]:
    need("ansible-playbook", "sshd", "ssh", "ssh-keygen", "flock", "git", "make")
    # A socket of ssh must have a short name.
    with tempfile.TemporaryDirectory(prefix="ssh.") as name:
        folder = Path(name)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # which root's sshd wants, and its service would make
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        settings = {
            "Port": port,
            "ListenAddress": "127.0.0.1",
            "HostKey": folder / "host",
            "AuthorizedKeysFile": folder / "user.pub",
            "PidFile": "none",
            "UsePAM": "no",
            "StrictModes": "no",
            "PasswordAuthentication": "no",
            "Subsystem": "sftp internal-sftp",
            # Not the user's: what a shell starts first, such as pyenv, may be left locked when a connection is cut.
            "SetEnv": f"HOME={folder}",
        }
        (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        with (folder / "log.txt").open("wb") as log:
            words = [str(shutil.which("sshd", path=PATH)), "-D", "-e", "-f", str(folder / "sshd_config")]
            started = subprocess.Popen(words, stdout=log, stderr=log)
        made = Machines(folder, port, psutil.Process(started.pid))
        try:
            deadline = time.monotonic() + ANSWERS_S
            while "Server listening" not in (said := (folder / "log.txt").read_text()):
                assert started.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.05)
            yield made
        finally:
            made.cut()
            started.kill()
            started.wait()
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if process.pid != os.getpid() and str(folder) in " ".join(process.cmdline()):
                        process.kill()


def recap(said: str) -> dict[str, dict[str, int]]:
    """Of each machine, what Ansible counted."""
    lines = re.findall(r"^(\w+) +: (ok=.*)$", said.partition("PLAY RECAP")[2], re.MULTILINE)
    return {node: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", counts)} for node, counts in lines}


def test_a_lost_connection_ends_no_run_and_a_second_call_fetches_it(
    machines: Machines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fleet"
    commands = dict.fromkeys(NODES, real(tmp_path))
    planned(folder, commands)
    inventory = machines.inventory(commands)
    playing = machines.play(inventory, folder)
    there = {node: machines.folder / f"there.{node}" for node in NODES}
    deadline = time.monotonic() + 2 * ANSWERS_S
    while len(begun := [file for node in NODES for file in progress.runs_of(there[node], node)]) < len(NODES):
        assert playing.poll() is None, playing.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    playing.kill()
    playing.communicate()
    machines.cut()
    assert not (folder / "nodes").exists()

    code, said = machines.played(inventory, folder)
    assert code == 0, said
    assert sorted(begun) == sorted(file for node in NODES for file in progress.runs_of(there[node], node))
    assert main(["fleet", "status", str(folder)]) == 0, capsys.readouterr().out
    assert main(["compare", str(folder / "nodes")]) == 0
    fetched = sorted(folder.rglob("*.jsonl"))
    assert [file.read_bytes() for file in fetched] == [file.read_bytes() for file in sorted(begun)]
    assert len(fetched) == 3

    code, said = machines.played(inventory, folder)
    assert (code, sorted(folder.rglob("*.jsonl"))) == (0, fetched), said
    assert [progress.end_of(folder, node) for node in NODES] == [progress.End(0)] * 3


def test_what_fails_on_a_machine_is_said_and_the_others_are_fetched(
    machines: Machines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fleet"
    commands = {"n1": command(tmp_path / "stand_in", STAND_IN), "n2": real(tmp_path), "n3": "tipbench"}
    plan = written(folder, other_torch(planned(folder, commands), spared="n1"))
    with socket.create_server(("127.0.0.1", 0)) as unused:
        closed = unused.getsockname()[1]
    code, said = machines.played(machines.inventory({**commands, "n4": "/absent"}, {"n3": closed}), folder)
    assert code != 0
    counts = recap(said)
    assert {node: (counts[node]["failed"], counts[node]["unreachable"]) for node in counts} == {
        "n1": (0, 0),
        "n2": (1, 0),
        "n3": (0, 1),
        "n4": (1, 0),
    }
    torch = describe.describe()["torch"]
    assert f'"msg": "tipbench: n2: torch {torch} is installed there, and the plan is of torch 1.0"' in said
    assert "failed to execute /absent: No such file or directory" in said
    assert "Connection refused" in said
    assert main(["fleet", "status", str(folder)]) == 1
    status = capsys.readouterr().out
    assert "n1: done" in status
    assert "n2: refused: torch" in status

    # What was corrected goes on by the same line again.
    written(folder, replace(plan, kind={name: replace(kind, torch="any") for name, kind in plan.kind.items()}))
    commands |= dict.fromkeys(("n2", "n3"), commands["n1"])
    code, said = machines.played(machines.inventory(commands), folder)
    assert code == 0, said
    assert main(["fleet", "status", str(folder)]) == 0


BY_HAND = """format = 1
fleet = "by-hand"
partition = ""
measure = {{}}
versions = {{ suite = "any", commit = "{commit}", torch = "any", python = "any" }}
kind.a = {{ about = "", nodes = ["n1"], want = 1, tipbench = "tipbench" }}
"""


def test_a_machine_without_the_suite_gets_that_of_the_plan(machines: Machines, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    git = ["git", "-C", str(origin), "-c", "user.name=test", "-c", "user.email=test@example.org"]
    origin.mkdir()
    subprocess.run([*git, "init", "-q"], check=True)
    (origin / "stand_in").write_text(STAND_IN)
    (origin / "Makefile").write_text("setup: .venv/bin/tipbench\n.venv/bin/tipbench: stand_in\n\tinstall -D $< $@\n")
    for message in ("of the plan", "a later one"):
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], check=True)
    of_plan = subprocess.run([*git, "rev-parse", "--short=12", "HEAD~"], check=True, capture_output=True, text=True)
    folder, checkout = tmp_path / "fleet", tmp_path / "checkout"
    folder.mkdir()
    (folder / plans.PLAN).write_text(BY_HAND.format(commit=of_plan.stdout.strip()))
    inventory = machines.inventory({"n1": "x"})
    inventory.write_text(inventory.read_text().replace("tipbench=x ", ""))
    for _ in range(2):
        code, said = machines.played(inventory, folder, "-e", f"repository={origin}", "-e", f"checkout={checkout}")
        assert code == 0, said
        assert progress.end_of(folder, "n1") == progress.End(0)
    head = subprocess.run(["git", "-C", checkout, "log", "-1", "--format=%s"], check=True, capture_output=True)
    assert head.stdout == b"of the plan\n"


# ---- ReFrame, on this machine ---------------------------------------------------------------------------

SITE = """site_configuration = {{
    "systems": [
        {{
            "name": "here",
            "hostnames": [".*"],
            "partitions": [
                {{"name": name, "scheduler": name, "launcher": "local", "environs": ["nothing"]}}
                for name in {schedulers}
            ],
        }}
    ],
    "environments": [{{"name": "nothing"}}],
}}
"""


def reframe(tmp_path: Path, folder: Path, schedulers: Sequence[str], *options: str) -> tuple[int, str]:
    need("reframe")
    (tmp_path / "site.py").write_text(SITE.format(schedulers=list(schedulers)))
    words = ["reframe", "--nocolor", "-C", "site.py", "-c", str(RECIPES / "tipbench_check.py")]
    words += ["--prefix", str(tmp_path / "reframe"), *options]
    env = {**os.environ, "PATH": PATH, "PWD": str(tmp_path), "TIPBENCH_FLEET": folder.name, "HOME": str(tmp_path)}
    env |= {"TMPDIR": str(tmp_path)}  # of its logs
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_check_of_reframe_passes_where_a_node_is_measured(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    commands = {"n1": command(tmp_path / "stand_in", STAND_IN), "n2": real(tmp_path), "n3": "/absent"}
    plan = written(folder, other_torch(planned(folder, commands), spared="n1"))
    code, said = reframe(tmp_path, folder, ["local"], "-r")
    assert code == 1, said
    assert re.search(r"OK \] \(\d/3\) TipbenchCheck %node=n1", said), said
    assert len(re.findall(r"FAIL \] \(\d/3\) TipbenchCheck %node=n[23]", said)) == 2
    assert (
        f"sanity error: torch {describe.describe()['torch']} is installed there, and the plan is of torch 1.0" in said
    )
    assert "/absent: No such file or directory" in said

    written(folder, replace(plan, kind={"a": replace(plan.kind["of-n1"], nodes=["n1", "n3"])}))
    code, said = reframe(tmp_path, folder, ["local"], "-r")
    assert code == 0, said
    assert "Ran 2/2 test case(s)" in said


def test_reframe_passes_nothing_where_there_is_no_plan(tmp_path: Path) -> None:
    code, said = reframe(tmp_path, tmp_path / "absent", ["local"], "-r")
    assert code != 0
    assert "absent/plan.toml cannot be read" in said


def test_reframe_starts_each_job_on_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm_cluster.need()
    folder = tmp_path / "fleet"
    noting = command(tmp_path / "noting", STAND_IN + 'echo "$SLURMD_NODENAME" > "$3/nodes/$5/place"\n')
    planned(folder, dict.fromkeys(("a1", "a3", "b1"), noting))
    with slurm_cluster.cluster(tmp_path / "slurm") as slurm:
        monkeypatch.setenv("SLURM_CONF", slurm.env["SLURM_CONF"])
        code, said = reframe(tmp_path, folder, ["squeue"], "-r")
    assert code == 0, said
    places = {file.parent.name: file.read_text().strip() for file in folder.rglob("place")}
    assert places == {"a1": "a1", "a3": "a3", "b1": "b1"}


def test_each_job_asks_its_scheduler_for_its_node(tmp_path: Path) -> None:
    """Most of these schedulers are not here: ReFrame writes the scripts of the jobs, and starts none."""
    folder = tmp_path / "fleet"
    planned(folder, {"n1": "tipbench", "n2": "apptainer exec t.sif tipbench"})
    asked = {
        "lsf": "#BSUB -m n2\n#BSUB -x\n",
        "oar": "#OAR -p \"host='n2'\"\n",
        "pbs": ":host=n2\n#PBS -l place=excl\n",
        "pbspro": ":host=n2\n#PBS -l place=excl\n",
        "sge": "#$ -l hostname=n2\n",
        "squeue": "#SBATCH --exclusive\n#SBATCH --nodelist=n2\n",
    }
    code, said = reframe(tmp_path, folder, list(asked), "--dry-run", "-n", "%node=n2")
    assert code == 0, said
    scripts = {file.parents[2].name: file.read_text() for file in (tmp_path / "reframe").rglob("rfm_job.sh")}
    assert scripts.keys() == asked.keys()
    for scheduler, lines in asked.items():
        assert lines in scripts[scheduler]
        assert scripts[scheduler].endswith(f"\napptainer exec t.sif tipbench fleet node {folder} --as n2\n")


# ---- the plan of a person ------------------------------------------------------------------------------


def test_a_plan_of_named_machines_needs_no_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tipbench.fleet.slurm._call", pytest.fail)
    folder = tmp_path / "fleet"
    assert main(["fleet", "plan", str(folder), "--nodes", "n1,n2,n1", "--budget", "30m"]) == 0
    assert "2 nodes: 1 node-hours" in capsys.readouterr().out
    plan = plans.read(folder)
    assert (plan.kind["a"].nodes, plan.kind["a"].want, plan.measure.budget_minutes) == (["n1", "n2"], 2, 30)
    assert main(["fleet", "status", str(folder)]) == 1
    assert f"2 nodes missing: start `tipbench fleet node {folder}` on them" in capsys.readouterr().out
    assert main(["fleet", "run", str(folder)]) == 2
    assert "is a plan without Slurm" in capsys.readouterr().err
    assert main(["fleet", "plan", str(tmp_path / "other"), "--nodes", "../n1"]) == 2
    assert "'../n1' is no name of a node" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


# ---- Kubernetes, by its schema ---------------------------------------------------------------------------

AS_JSON = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"


def test_the_job_of_kubernetes_has_the_form_of_its_schema(tmp_path: Path) -> None:
    need("kubernetes-validate")
    program = str(shutil.which("kubernetes-validate", path=PATH))
    file = RECIPES / "kubernetes.yaml"
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text().replace("backoffLimitPerIndex", "backoffLimitsPerIndex"))
    for given, code in ((file, 0), (wrong, 1)):
        done = subprocess.run([program, "--strict", given], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
    python = Path(program).with_name("python")
    parsed = subprocess.run([python, "-c", AS_JSON], input=file.read_bytes(), capture_output=True, check=True)
    spec = json.loads(parsed.stdout)["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", spec["parallelism"])
    assert spec["backoffLimitPerIndex"] > 0
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "FailIndex"]
    pod = spec["template"]["spec"]
    (apart,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    (name,) = container["env"]
    assert (name["name"], name["valueFrom"]) == ("NODE_NAME", {"fieldRef": {"fieldPath": "spec.nodeName"}})
    (shared,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "fleet"]
    assert container["command"] == ["tipbench", "fleet", "node", shared]
    assert "persistentVolumeClaim" in next(volume for volume in pod["volumes"] if volume["name"] == "fleet")
