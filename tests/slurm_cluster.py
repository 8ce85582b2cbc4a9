"""A real Slurm on this machine: a controller, four nodes that share its cores, or five hundred without any process."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests import servers

TEMPLATES = Path(__file__).parent / "slurm"
FOUR, FIVE_HUNDRED = "four-nodes.conf.in", "five-hundred-nodes.conf.in"
STARTS_S = 60.0


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

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "log" / f"{len(self.daemons)}.txt").open("wb")
        with log:
            daemon = subprocess.Popen(words, env=self.env, stdout=log, stderr=subprocess.STDOUT)
        self.daemons.append(daemon)
        return daemon


@contextlib.contextmanager
def cluster(folder: Path, template: str = FOUR) -> Iterator[Cluster]:
    for name in ("run", "state", "spool", "log"):
        (folder / name).mkdir(parents=True)
    conf, key = folder / "slurm.conf", folder / "munge.key"
    text = (TEMPLATES / template).read_text()
    for name, value in (("DIR", folder), ("HOSTNAME", socket.gethostname()), ("USER", getpass.getuser())):
        text = text.replace(f"@{name}@", str(value))
    for mark in re.findall(r"@PORT\d?@", text):
        text = text.replace(mark, str(_free_port()))
    conf.write_text(text)
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    made = Cluster(folder, {**os.environ, "SLURM_CONF": str(conf), "PATH": PATH})
    try:
        files = (f"--{what}-file={folder / 'run' / f'munged.{what}'}" for what in ("pid", "log", "seed"))
        made.start(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={folder / 'run' / 'munge.sock'}",
            *files,
        )
        made.start("slurmctld", "-D", "-f", str(conf))
        names = [line.split()[0].partition("=")[2] for line in text.splitlines() if line.startswith("NodeName=")]
        if template == FOUR:
            for name in names:
                made.nodes[name] = made.start("slurmd", "-D", "-N", name, "-f", str(conf))
            while made.call("sinfo", "-h", "-N", "-p", "low", "-t", "idle", "-o", "%N").split() != sorted(names):
                time.sleep(0.1)
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


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
