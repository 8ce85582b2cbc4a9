"""What is wanted of a fleet: `plan.toml`, which `tipbench fleet plan` writes and people edit."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tipbench import __version__
from tipbench.errors import UserError
from tipbench.fleet.slurm import SlurmNode
from tipbench.machine.describe import describe
from tipbench.records.fields import MalformedRecord, strict
from tipbench.suite.commit import suite_commit
from tipbench.tip.wording import plural, size

FORMAT = 1
"""Of plan.toml. A plan of another version is refused."""

PLAN, JOB = "plan.toml", "job.sh"

SAME_MEMORY = 0.03
"""Share by which the memory of nodes of one kind may differ: firmware keeps some of it."""

AROUND_MINUTES = 20
"""A job's time beyond the budget of its run: the start, and the end of what was begun."""

HEAD = """\
# Written by `tipbench fleet plan`, for you to edit. Of each kind of node: `want`, how many are to be measured;
# `tipbench`, the command on these nodes; `sbatch`, further options of the job. `tipbench fleet run` executes them.
"""

SCRIPT = """\
#!/bin/sh
# Slurm starts this on one node, with the command of tipbench there and the folder of the fleet. It goes on where an
# earlier job on the node ended.
set -f
echo "{on}${{SLURMD_NODENAME:-$(uname -n)}}"
exec $1 fleet node "$2"
"""


@dataclass(frozen=True)
class PlannedKind:
    """Nodes that Slurm describes alike.

    Attributes:
        about: their hardware in Slurm's words.
        nodes: their names, in Slurm's order.
        want: how many of them are to be measured.
        tipbench: the command on them.
        sbatch: further options of their jobs.
        torch: the version there, if it may be another than that of the plan; "any" for whichever it is.
    """

    about: str
    nodes: list[str]
    want: int
    tipbench: str
    sbatch: list[str] = field(default_factory=list)
    torch: str = ""


@dataclass(frozen=True)
class NodeOptions:
    """What is measured on each node: options of `tipbench run`."""

    budget_minutes: float = 45.0
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Versions:
    """What is measured with. All nodes must have the same, or the runs could not be compared."""

    suite: str
    commit: str
    torch: str
    python: str


def installed_versions() -> tuple[Versions, str]:
    """(what is installed here, why git does not name its commit: empty where it does)."""
    about, (commit, why) = describe(), suite_commit()
    return Versions(__version__, commit, str(about["torch"]), str(about["python"])), why


@dataclass(frozen=True)
class FleetPlan:
    """What is wanted.

    Attributes:
        fleet: names the jobs of this fleet in the queue.
        partition: of the jobs.
        kind: by a short name.
    """

    format: int
    fleet: str
    partition: str
    measure: NodeOptions
    versions: Versions
    kind: dict[str, PlannedKind]

    @property
    def minutes(self) -> int:
        """Time limit of a job."""
        return round(self.measure.budget_minutes) + AROUND_MINUTES

    @property
    def nodes(self) -> list[str]:
        """Names, of all kinds."""
        return [node for kind in self.kind.values() for node in kind.nodes]

    def node_of(self, machine: str) -> str:
        """The node whose name is a machine's, with or without its domain; empty if it names none, or several."""
        host = machine.partition(".")[0]
        alike = [node for node in self.nodes if node.partition(".")[0] == host and host in (node, machine)]
        return machine if machine in self.nodes else alike[0] if len(alike) == 1 else ""

    def kind_of(self, node: str) -> str:
        """Name of its kind; empty if it has none."""
        return next((name for name, kind in self.kind.items() if node in kind.nodes), "")


def kinds_of(nodes: Sequence[SlurmNode]) -> list[list[SlurmNode]]:
    """Nodes of equal cores, resources and features and of like memory, the largest kind first."""
    found: list[list[SlurmNode]] = []
    for node in nodes:
        alike = next((kind for kind in found if _alike(kind[0], node)), None)
        if alike is None:
            found.append([node])
        else:
            alike.append(node)
    return sorted(found, key=lambda kind: (-len(kind), kind[0].name))


def _alike(one: SlurmNode, other: SlurmNode) -> bool:
    equal = ("cores", "topology", "gres", "features")
    near = abs(one.memory - other.memory) <= SAME_MEMORY * max(one.memory, other.memory)
    return near and all(getattr(one, name) == getattr(other, name) for name in equal)


def hardware_of(node: SlurmNode) -> str:
    words = [plural(node.cores, "core"), size(node.memory * 2**20), node.gres, ",".join(node.features)]
    return ", ".join(word for word in words if word)


def options_of(node: SlurmNode) -> list[str]:
    """Of `sbatch`: the whole node, for nothing may run beside a measurement."""
    return ["--exclusive", "--mem=0", *([f"--gpus-per-node={node.cards}"] if node.cards else [])]


def letters(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    return (letters(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def as_toml(plan: FleetPlan) -> str:
    """As TOML. Its strings, numbers and lists of them are written as those of JSON."""
    stored = asdict(plan)
    tables = {name: stored.pop(name) for name in ("measure", "versions")}
    tables |= {f"kind.{name}": kind for name, kind in stored.pop("kind").items()}
    lines = [HEAD, *_fields(stored)]
    for name, fields in tables.items():
        lines += [f"\n[{name}]", *_fields(fields)]
    return "\n".join(lines) + "\n"


def _fields(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def read(folder: Path) -> FleetPlan:
    """Raises UserError."""
    file = folder / PLAN
    try:
        stored = tomllib.loads(file_bytes(file).decode())
    except FileNotFoundError:
        raise UserError(f"there is no {file}: write one with `tipbench fleet plan {folder}`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not TOML: {error}") from None
    if stored.get("format") != FORMAT:
        raise UserError(
            f"{file} is a plan of format {stored.get('format')!r}, and this tipbench writes {FORMAT}: make a new plan "
            "in another folder, or use the version that wrote it"
        )
    try:
        plan = strict(stored, FleetPlan)
    except MalformedRecord as error:
        raise UserError(f"{file}: {error}") from None
    require_budget(plan.measure, file)
    for name, kind in plan.kind.items():
        if kind.want < 0 or not kind.tipbench.split():
            raise UserError(f"{file}: kind {name} wants {kind.want} nodes by the command {kind.tipbench!r}")
        for node in kind.nodes:
            require_name(node, file)
    return plan


def file_bytes(file: Path) -> bytes:
    """Raises OSError, FileNotFoundError for what is no regular file: reading a FIFO would never end."""
    if not file.is_file():
        raise FileNotFoundError(file)
    return file.read_bytes()


def require_budget(measure: NodeOptions, where: object) -> None:
    """Raise UserError unless a job can have its time limit."""
    if not 0 < measure.budget_minutes < math.inf:
        raise UserError(
            f"{where}: a budget of {measure.budget_minutes:g} minutes: Slurm ends a job at its time limit, so a fleet "
            "needs a finite one, such as 45 minutes"
        )


def require_name(node: str, where: object) -> None:
    """Raise UserError unless a node's name is fit for a folder's."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", node):
        raise UserError(f"{where}: {node!r} is no name of a node: letters, digits, dots and hyphens are")
