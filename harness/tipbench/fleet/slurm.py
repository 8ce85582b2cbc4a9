"""Slurm by its own commands: `sinfo`, `sbatch`, `squeue` and `scancel`.

Their `-h -o` formats have stayed as they are for years, which their JSON has not; `sacct` is missing on many clusters.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tipbench.errors import UserError
from tipbench.machine.controls import SECRET

CALL_S = 60.0
"""At its limit of jobs `sbatch` sleeps and tries again for minutes; a silent controller answers after 10 s."""

NODE_FORMAT = "%N|%P|%T|%c|%X:%Y:%Z|%m|%l|%G|%f"
JOB_FORMAT = "%i|%j|%T|%N|%r"

LATER = re.compile(
    r"^(?!.*PerJobLimit).*(submit limit|SubmitJob|JobLimit|MaxJob|GrpJob|temporarily|try again|inactive or drain)",
    re.IGNORECASE,
)
"""What `sbatch` says where the same submission may be accepted another time: not of a job above a limit of time or
memory."""

NO_ANSWER = re.compile(r"timed out|unable to contact|zero bytes|unexpected message|standby|connection", re.IGNORECASE)
"""What any command says where the controller is down, or too busy to answer."""

OF_ANOTHER_JOB = re.compile(r"(SLURM_(?!CONF$|CLUSTERS$)|SQUEUE_|SINFO_|SCANCEL_)")
"""Variables that change what a command lists or asks, or are of the job in which it is typed, and are none of ours."""

UNUSABLE = ("down", "drain", "fail", "maint", "reserved", "unknown", "inval", "error", "no_respond")
"""Beginnings of the states of nodes on which nothing can be started."""

MARKS = {"*": "not responding", "$": "maintenance", "@": "waits for its reboot", "^": "reboots"}
"""What Slurm writes after the state of a node that nothing should be started on."""


class SlurmError(UserError):
    """A command of Slurm is missing, does not answer or refuses."""


class Later(SlurmError):
    """A submission was refused that may be accepted another time."""


class Silent(SlurmError):
    """The controller does not answer. What was submitted meanwhile may be in the queue all the same."""


@dataclass(frozen=True)
class SlurmNode:
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
class SlurmJob:
    """A job in the queue. kind: the rest of its name. node: on which it runs; empty while it waits. reason: why it
    waits, in Slurm's word."""

    id: str
    kind: str
    state: str
    node: str
    reason: str


def nodes() -> list[SlurmNode]:
    """A node of two partitions is listed twice. Raises Silent and SlurmError."""
    return [_node(line) for line in _call(["sinfo", "-h", "-N", "-o", NODE_FORMAT]).splitlines() if line.strip()]


def jobs(prefix: str) -> list[SlurmJob]:
    """This user's jobs whose name begins so. Raises Silent and SlurmError."""
    # By number: LOGNAME may name another user, as after `su`.
    lines = _call(["squeue", "-h", "-u", str(os.geteuid()), "-o", JOB_FORMAT]).splitlines()
    jobs = [line.split("|", 4) for line in lines if line.count("|") >= 4]
    return [SlurmJob(job, name.removeprefix(prefix), *rest) for job, name, *rest in jobs if name.startswith(prefix)]


def submit(options: Sequence[str], script: Sequence[str]) -> str:
    """Submit a script with its arguments and return the job's id. Raises Later, Silent and SlurmError."""
    printed = _call(["sbatch", "--parsable", *options, *script]).split()  # the site's own words may come first
    return printed[-1].partition(";")[0] if printed else ""


def cancel(ids: Sequence[str]) -> None:
    """Raises Silent and SlurmError."""
    _call(["scancel", *ids])


def _call(words: Sequence[str]) -> str:
    """What a command prints. Raises Later, Silent and SlurmError."""
    # Slurm hands the environment on to jobs, and keeps it on its own disks.
    environment = {
        name: value for name, value in os.environ.items() if not OF_ANOTHER_JOB.match(name) and name not in SECRET
    }
    try:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=CALL_S, check=False
        )
    except FileNotFoundError:
        raise SlurmError(
            f"there is no `{words[0]}` here: a fleet is started where Slurm's commands are, such as a login node; "
            "without Slurm, `tipbench fleet plan DIR --nodes N1,N2` names machines, and what you like starts "
            "`tipbench fleet node DIR` on each"
        ) from None
    except subprocess.TimeoutExpired as error:
        said = _sentence(error.stderr)
        slow = f"`{words[0]}` did not end within {CALL_S:.0f} s{said and f': {said}'}"
        raise (Later if LATER.search(said) else Silent)(slow) from None
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    said = _sentence(done.stderr) or f"exit code {done.returncode}"
    why = Silent if NO_ANSWER.search(said) else Later if LATER.search(said) else SlurmError
    raise why(f"`{words[0]}`: {said}")


def _sentence(printed: bytes | None) -> str:
    return " ".join((printed or b"").decode(errors="replace").split())


def _node(line: str) -> SlurmNode:
    """Raises SlurmError for a line of another form."""
    fields = line.strip().split("|", 8)
    if len(fields) != 9 or not fields[3].isdigit():
        raise SlurmError(f"`sinfo` printed a line that is not understood: {line.strip()}")
    name, partition, state, cores, topology, memory, limit, gres, features = fields
    gres = re.sub(r"\([^)]*\)", "", gres)
    return SlurmNode(
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
