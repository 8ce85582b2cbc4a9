"""Ranks spread over the nodes of an allocation, by a command that starts one process on each: srun or mpirun.

A run is typed on the first node. Each group of ranks is one call of the launcher, with a torchrun on every node below
it (`tipbench.worker.ranks`). Rank 0 is on the first node, so that the runner reaches it as it reaches every worker. No
port is opened but torch's own.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tipbench.engine.process import Process, spawn
from tipbench.errors import UserError
from tipbench.machine.controls import callers, is_foreign
from tipbench.machine.scratch import Scratch
from tipbench.tip.needs import available_cores

MEET_S = 300.0
"""Seconds in which all nodes must have met; on two nodes that share two cores it takes 6."""

LEAVES_S = 15.0
"""Seconds in which ranks leave once their connection is closed: torchrun looks once a second."""

ENDS_S = 30.0
"""Seconds in which a launcher that was asked to end has ended what it started; srun takes one, or up to KillWait."""

SRUN = (
    "--ntasks-per-node=1",
    "--overlap",  # beside the step that the run itself may be in
    "--kill-on-bad-exit=1",
    "--wait=0",  # a site's WaitTime would end nodes that still work after the first has left
    "--mem=0",
    "--cpu-bind=none",
    "--export=ALL",  # sbatch --export=NONE would hold for srun too
)


class NodesError(UserError):
    """The nodes cannot work together; the message says why and what to do."""


class NodeLost(NodesError):
    """A node has left during a run."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=1)


class Launched(Process):
    """A launcher, and through it the processes of all nodes."""

    def pause(self) -> None:
        """Nothing: a launch over nodes has one group of ranks, which sleeps until it is asked."""

    def resume(self) -> None:
        """Nothing, as nothing was paused."""

    def pythons(self) -> list[tuple[str, int]]:
        """None: they are the launcher's, and most of them on other nodes."""
        return []

    def kill(self) -> None:
        """Ask the launcher to end all that it started: killed, it could not, or not wait until that has ended."""
        if self.exit_code() is None:
            os.kill(self.pid, signal.SIGTERM)

    def end(self) -> None:
        """Wait until the processes of all nodes have left, or end them."""
        if not self._ended and self.exit_code(LEAVES_S) is None:
            self.kill()
            if self.exit_code(ENDS_S) is None:
                Process.kill(self)
        super().end()


@dataclass(frozen=True)
class Spread:
    """The nodes of a run.

    Attributes:
        launcher: the words of a command that starts one process on each node.
        pairs: folder of the pairs.
        reports: folder that all nodes see, where failing ranks leave reports.
        head: address of the first node.
        nodes: {"name", "interface", "mbit"} of each, in order: its machine, its network interface and the speed of that
            (Mbit/s).
    """

    launcher: Sequence[str]
    pairs: Path
    reports: Path
    head: str = ""
    nodes: Sequence[Mapping[str, Any]] = ()
    _groups: Iterator[int] = field(default_factory=count, compare=False)

    def group(self, env: Mapping[str, str], deadline: float) -> dict[str, Any]:
        """What a new group of ranks receives on all nodes. env: of its workers. deadline: of a request (s)."""
        # The launcher may hand on all variables or none.
        own = {name: value for name, value in env.items() if is_foreign(name) or os.environ.get(name) != value}
        port = _free_port()
        return {"nodes": len(self.nodes), "head": self.head, "port": port, "variables": own, "deadline": deadline}

    def new_reports(self) -> Path:
        """An empty folder for the reports of one group."""
        folder = self.reports / str(next(self._groups))
        folder.mkdir()
        return folder

    def start(self, command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
        """Start the command on each node, in the caller's environment."""
        return spawn([*self.launcher, *command], callers(), output)

    def require_all(self) -> None:
        """Let all nodes meet once more. Raises NodeLost where one does not come, or is another."""
        try:
            if self.met().nodes != self.nodes:
                raise NodesError("a node is not what it was")
        except NodesError as error:
            raise NodeLost(f"a node was lost: {error}") from None

    def met(self) -> Spread:
        """The same with what its nodes are, once all of them have met. Raises NodesError."""
        with Scratch() as scratch:
            answer, output = scratch / "answer.json", scratch / "output"
            here = socket.gethostname(), _free_port(), available_cores()
            words = map(str, (*here, self.pairs, self.reports, answer))
            started = self.start([sys.executable, "-P", "-m", "tipbench.worker.node", *words], output)
            meeting = Launched(started, ranks=2)
            try:
                code = meeting.exit_code(MEET_S)
            finally:
                meeting.kill()
                meeting.end()
            if code == 0 and answer.exists():
                met = json.loads(answer.read_text())
                return Spread(self.launcher, self.pairs, self.reports, met["head"], met["nodes"], self._groups)
            raise NodesError(_why_not(code, output.read_text(errors="replace"), self.launcher))


def _why_not(code: int | None, printed: str, launcher: Sequence[str]) -> str:
    """Why nodes have not met: the sentence of one of them, or what the launcher says. code: its exit code."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if said := [line.partition("tipbench: ")[2] for line in lines if "tipbench: " in line]:
        return said[0]
    if code is None:
        return f"the nodes have not met within {MEET_S:.0f} s; `{shlex.join(launcher)} hostname` must name each of them"
    last = f"; it last printed: {' / '.join(lines[-3:])[:400]}" if lines else ""
    return f"`{launcher[0]}` ended with exit code {code}{last}"


@contextmanager
def spread_over(launcher: str, pairs: Path, results: Path) -> Iterator[Spread | None]:
    """The nodes on which a launcher starts processes, once all have met; None without one. Raises NodesError.

    pairs: folder of the pairs. results: folder that all nodes see.
    """
    if not launcher:
        yield None
        return
    words = launcher_words(launcher)
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".ranks-", dir=results, ignore_cleanup_errors=True) as reports:
        yield Spread(words, pairs, Path(reports).absolute()).met()


def launcher_words(launcher: str) -> list[str]:
    """The words of a launcher; for srun, with the options that make it one process a node. Raises NodesError."""
    try:
        words = shlex.split(launcher)
    except ValueError:
        words = []
    if not words or not shutil.which(words[0]):
        raise NodesError(
            f"--spread {shlex.quote(launcher)}: expected a command that starts one process on each node, such as "
            "'srun --overlap' or 'mpirun --map-by ppr:1:node'"
        )
    if Path(words[0]).name != "srun":
        return words
    nodes = os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES")
    if not nodes or "SLURM_JOB_ID" not in os.environ:
        raise NodesError("--spread srun: this is no allocation; run it within one, by sbatch or salloc")
    return [words[0], "-N", nodes, "-n", nodes, *SRUN, *words[1:]]


def _free_port() -> int:
    """A free port of this node. Each group gets its own: a port just used may still be taken."""
    with socket.create_server(("", 0)) as listening:
        return int(listening.getsockname()[1])
