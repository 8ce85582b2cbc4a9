"""Slurm by its own commands: `sinfo`, `sbatch`, `squeue` and `scancel`.

Their `-h -o` formats have stayed as they are for years, which their JSON has not; `sacct` is missing on many clusters.
"""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tipbench.errors import UserError

CALL_S = 60.0
"""At its limit of jobs `sbatch` sleeps and tries again for minutes; a silent controller answers after 10 s."""

NODES = "%N|%P|%T|%c|%X:%Y:%Z|%m|%l|%G|%f"
JOBS = "%i|%j|%T|%N|%r"

LATER = re.compile(r"limit|MaxSubmit|MaxJob|temporarily|socket timed out|try again", re.IGNORECASE)
"""What `sbatch` says where the same submission may be accepted another time."""

UNUSABLE = ("down", "drain", "fail", "maint", "reserved", "unknown", "inval", "error", "no_respond")
"""Beginnings of the states of nodes on which nothing can be started."""

MARKS = {"*": "not responding", "$": "maintenance", "@": "waits for its reboot", "^": "reboots"}
"""What Slurm writes after the state of a node that nothing should be started on."""


class SlurmError(UserError):
    """A command of Slurm is missing, does not answer or refuses."""


class Later(SlurmError):
    """A submission was refused that may be accepted another time."""


@dataclass(frozen=True)
class Node:
    """A node in one partition.

    Attributes:
        name, partition: Slurm's. is_default: whether that partition is Slurm's default.
        problem: why nothing can be started on it; empty where something can.
        cores: CPUs of Slurm. topology: sockets:cores:threads. memory: MiB.
        limit: longest time of a job, as Slurm writes it.
        gres: generic resources without their indices, such as "gpu:h100:8". features: of the site, sorted.
    """

    name: str
    partition: str
    is_default: bool
    problem: str
    cores: int
    topology: str
    memory: int
    limit: str
    gres: str
    features: tuple[str, ...]

    @property
    def cards(self) -> int:
        """GPUs, of all models."""
        return sum(int(count) for count in re.findall(r"\bgpu(?::[^,:()]+)?:(\d+)", self.gres))

    @property
    def limit_minutes(self) -> float:
        """Infinite where there is no limit, or none that can be read."""
        found = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", self.limit)
        if not found:
            return float("inf")
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return 1440 * days + 60 * hours + minutes + seconds / 60


@dataclass(frozen=True)
class Job:
    """A job in the queue. node: on which it runs; empty while it waits. reason: why it waits, in Slurm's word."""

    id: str
    name: str
    state: str
    node: str
    reason: str


def nodes() -> list[Node]:
    """A node of two partitions is listed twice. Raises SlurmError."""
    return [_node(line) for line in _call(["sinfo", "-h", "-N", "-o", NODES]).splitlines() if line.strip()]


def jobs(prefix: str) -> list[Job]:
    """This user's jobs whose name begins so. Raises SlurmError."""
    lines = _call(["squeue", "-h", "-u", getpass.getuser(), "-o", JOBS]).splitlines()
    listed = [Job(*line.split("|", 4)) for line in lines if line.count("|") >= 4]
    return [job for job in listed if job.name.startswith(prefix)]


def submit(options: Sequence[str], script: Sequence[str]) -> str:
    """Submit a script with its arguments and return the job's id. Raises Later and SlurmError."""
    return _call(["sbatch", "--parsable", *options, *script]).strip().partition(";")[0]


def cancel(ids: Sequence[str]) -> None:
    """Raises SlurmError."""
    _call(["scancel", *ids])


def _call(words: Sequence[str]) -> str:
    """What a command prints. Raises Later and SlurmError."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=CALL_S, check=False)
    except FileNotFoundError:
        raise SlurmError(
            f"there is no `{words[0]}` here: a fleet is started where Slurm's commands are, such as a login node; "
            "without Slurm, start `tipbench fleet node DIR` on each machine"
        ) from None
    except subprocess.TimeoutExpired:
        raise Later(f"`{words[0]}` did not answer within {CALL_S:.0f} s") from None
    if done.returncode == 0:
        return done.stdout
    said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
    raise (Later if LATER.search(said) else SlurmError)(f"`{words[0]}`: {said}")


def _node(line: str) -> Node:
    """Raises SlurmError for a line of another form."""
    fields = line.strip().split("|", 8)
    if len(fields) != 9 or not fields[3].isdigit():
        raise SlurmError(f"`sinfo` printed a line that is not understood: {line.strip()}")
    name, partition, state, cores, topology, memory, limit, gres, features = fields
    gres = re.sub(r"\([^)]*\)", "", gres)
    return Node(
        name=name,
        partition=partition.rstrip("*"),
        is_default=partition.endswith("*"),
        problem=_problem(state),
        cores=int(cores),
        topology=topology,
        memory=int(re.sub(r"\D", "", memory) or 0),
        limit=limit,
        gres="" if gres == "(null)" or not gres else gres,
        features=tuple(sorted(feature for feature in features.split(",") if feature not in ("", "(null)"))),
    )


def _problem(state: str) -> str:
    for mark, problem in MARKS.items():
        if mark in state:
            return problem
    return state if state.lower().startswith(UNUSABLE) or "drain" in state.lower() else ""
