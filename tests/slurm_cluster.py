"""A real Slurm on this machine: a controller, four nodes that share its cores, or five hundred without any process.

Nearly all jobs of its tests do not measure: a stand-in for the command on the nodes waits until the test lets it end.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests import servers
from tipbench.cli import main

TEMPLATES = Path(__file__).parent / "slurm"
FOUR, FIVE_HUNDRED = "four-nodes.conf.in", "five-hundred-nodes.conf.in"
STARTS_S, ENDS_S = 120.0, 300.0
"""Nothing is expected to take this long; but other tests run meanwhile."""


def need() -> None:
    """Skip, with the reason, where Slurm is absent; fail where all tests are to run."""
    programs = ("slurmctld", "slurmd", "munged", "sinfo", "sbatch", "squeue", "scancel", "scontrol")
    servers.need(**{"Debian's slurm-wlm and munge": all(shutil.which(name, path=PATH) for name in programs)})


PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
"""Daemons are not on every user's path."""


@dataclass
class Cluster:
    """env: with which Slurm's commands find it. nodes: processes of slurmd, by the node's name."""

    folder: Path
    env: Mapping[str, str]
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    controller: subprocess.Popen[bytes] | None = None

    def call(self, *words: str) -> str:
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def until(self, what: str, *words: str) -> str:
        """Call it again and again until it prints that."""
        for _ in range(int(10 * STARTS_S)):
            done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)
            if what in done.stdout:
                return done.stdout
            time.sleep(0.1)
        raise AssertionError(f"{words} never printed {what!r}: {done.stdout}{done.stderr}")

    def queued(self) -> list[str]:
        """Ids of the jobs in the queue."""
        return self.call("squeue", "-h", "-o", "%i").split()

    def until_empty(self) -> None:
        self.until_gone(*self.queued())

    def until_gone(self, *jobs: str) -> None:
        """Until none of the jobs is in the queue."""
        end = time.monotonic() + ENDS_S
        while left := set(jobs) & set(self.queued()):
            assert time.monotonic() < end, f"jobs {left} never ended: {self.call('squeue')}"
            time.sleep(0.1)

    def until_idle(self) -> None:
        """Until all nodes are, and respond: "idle*" does not."""
        self.until("idle\n" * len(self.nodes), "sinfo", "-h", "-N", "-p", "low", "-o", "%T")

    def occupy(self, node: str, partition: str) -> str:
        """Put a job of another person on a node, and return its id."""
        job = ("sbatch", "--parsable", "-p", partition, "-w", node, "--exclusive", "-o", "/dev/null")
        return self.call(*job, "--wrap", "sleep 1000").strip()

    def start_node(self, name: str) -> None:
        self.nodes[name] = self.start("slurmd", "-D", "-N", name, "-f", self.env["SLURM_CONF"])

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "log" / f"{len(self.daemons)}.txt").open("wb")
        with log:
            daemon = subprocess.Popen(words, env=self.env, stdout=log, stderr=subprocess.STDOUT)
        self.daemons.append(daemon)
        return daemon


@contextlib.contextmanager
def cluster(folder: Path, template: str = FOUR, timeout_s: int = 10) -> Iterator[Cluster]:
    """timeout_s: after which a node that does not answer is down, and its jobs are ended and requeued."""
    for name in ("run", "state", "spool", "log"):
        (folder / name).mkdir(parents=True)
    conf, key = folder / "slurm.conf", folder / "munge.key"
    text = (TEMPLATES / template).read_text()
    values = {"DIR": folder, "HOSTNAME": socket.gethostname(), "USER": getpass.getuser(), "TIMEOUT": timeout_s}
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    for mark, port in zip(set(re.findall(r"@PORT\d?@", text)), _free_ports(), strict=False):
        text = text.replace(mark, str(port))
    conf.write_text(text)
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    made = Cluster(folder, {**os.environ, "SLURM_CONF": str(conf), "PATH": PATH})
    try:
        files = (f"--{what}-file={folder / 'run' / f'munged.{what}'}" for what in ("pid", "log", "seed"))
        options = [f"--key-file={key}", f"--socket={folder / 'run' / 'munge.sock'}", *files]
        made.start("munged", "--foreground", "--force", *options)
        made.controller = made.start("slurmctld", "-D", "-f", str(conf))
        names = [line.split()[0].partition("=")[2] for line in text.splitlines() if line.startswith("NodeName=")]
        if template == FOUR:
            for name in names:
                made.start_node(name)
            made.until_idle()
        else:
            made.until("500", "sinfo", "-h", "-o", "%D")
        yield made
    finally:
        subprocess.run(["scancel", "-u", getpass.getuser()], env=made.env, capture_output=True, check=False, timeout=30)
        of_jobs = [child for daemon in made.daemons for child in _children(daemon.pid)]
        for daemon in reversed(made.daemons):
            daemon.terminate()
        for daemon in made.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for child in of_jobs:
            with contextlib.suppress(psutil.Error):
                child.kill()


def _free_ports() -> Iterator[int]:
    """Below those that the system gives to whoever asks, which another program may have by the time they are used."""
    for port in random.sample(range(20000, 32000), 1000):
        with socket.socket() as asking:
            is_free = asking.connect_ex(("127.0.0.1", port)) != 0
        if is_free:
            yield port


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


STAND_IN = """#!{python}
# In place of tipbench on a node: notes that it is there, waits until the test lets it go, and ends as the test says.
import json, os, sys, time
from pathlib import Path
folder = Path(sys.argv[3])
node = os.environ["SLURMD_NODENAME"]
here = folder / "nodes" / node
here.mkdir(parents=True, exist_ok=True)
(here / "pid.txt").write_text(str(os.getpid()))
with (here / "begun.txt").open("a") as begun:
    begun.write(os.environ["SLURM_JOB_ID"] + " " + os.environ.get("SLURM_RESTART_COUNT", "0") + "\\n")
while not (folder / ("go." + node)).exists() and not (folder / "go").exists():
    time.sleep(0.05)
(here / "end.json").write_text(json.dumps({{"code": 0}}))
"""


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need()
    with cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture
def slurm(four: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Four idle nodes, a1 to a3 alike and b1 another, whose jobs end with the test."""
    monkeypatch.setenv("SLURM_CONF", four.env["SLURM_CONF"])
    monkeypatch.setenv("PATH", four.env["PATH"])
    yield four
    if ids := four.queued():
        four.call("scancel", *ids)
    four.until_empty()
    four.until_idle()


@pytest.fixture
def fleet(slurm: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A plan of all four nodes, whose command is the stand-in."""
    folder = tmp_path / "fleet"
    assert main(["fleet", "plan", str(folder), "--all", "--budget", "5m"]) == 0
    capsys.readouterr()
    program = tmp_path / "stand_in"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    replaced(folder, tipbench=str(program))
    return folder


def replaced(folder: Path, **fields: object) -> None:
    """Edit fields of every kind of a plan, as a person would."""
    file = folder / "plan.toml"
    lines = file.read_text().splitlines()
    for name, value in fields.items():
        lines = [f"{name} = {json.dumps(value)}" if line.startswith(f"{name} = ") else line for line in lines]
    file.write_text("\n".join(lines) + "\n")


def begun(folder: Path) -> dict[str, list[str]]:
    """By node, "JOB RESTARTS" of each time that something began there."""
    return {file.parent.name: file.read_text().splitlines() for file in sorted((folder / "nodes").glob("*/begun.txt"))}


def wait_for(folder: Path, nodes: int) -> None:
    deadline = time.monotonic() + STARTS_S
    while len(begun(folder)) < nodes:
        assert time.monotonic() < deadline, f"only {begun(folder)} began"
        time.sleep(0.1)


def ended(folder: Path, slurm: Cluster) -> None:
    (folder / "go").touch()
    slurm.until_empty()


def real(folder: Path, tmp_path: Path) -> None:
    """Let a plan measure with tipbench itself: all nodes are this machine, so each has a lock of its own."""
    program = tmp_path / "here"
    program.write_text(
        f'#!/bin/sh\nexport TIPBENCH_LOCK={tmp_path}/lock.$SLURMD_NODENAME\nexec {sys.executable} -m tipbench "$@"\n'
    )
    program.chmod(0o755)
    replaced(folder, tipbench=str(program))
