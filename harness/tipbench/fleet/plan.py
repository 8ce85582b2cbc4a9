"""What is wanted of a fleet: `plan.toml`, which `tipbench fleet plan` writes and people edit."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tipbench import __version__
from tipbench.errors import UserError
from tipbench.fleet.slurm import SlurmNode
from tipbench.machine.describe import describe
from tipbench.records.fields import Count, MalformedRecord, convert
from tipbench.suite.commit import suite_commit
from tipbench.tip.wording import plural, size

PLAN, JOB = "plan.toml", "job.sh"

SAME_MEMORY = 0.03
"""Share by which the memory of nodes of one kind may differ: firmware keeps some of it."""

AROUND_MINUTES = 20
"""A job's time beyond the budget of its run: the start, and the end of what was begun."""

HEAD = """\
# Written by `tipbench fleet plan`, for you to edit. Of each kind of node: `want`, how many are to be measured;
# `tipbench`, the command on these nodes; `sbatch`, further options of the job. `tipbench fleet run` executes them.
# Of `versions` all nodes must have the same: delete the line of what may differ between them.
"""

SCRIPT = """\
#!/bin/sh
# Slurm starts this on one node, with the command of tipbench there and the folder of the fleet. It goes on where an
# earlier job on the node ended.
set -f
echo "{on}${{SLURMD_NODENAME:-$(uname -n)}}"
exec $1 fleet node "$2"
"""


class PlannedKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that Slurm describes alike.

    Attributes:
        about: their hardware in Slurm's words.
        nodes: their names, in Slurm's order, each fit for a folder's.
        want: how many of them are to be measured.
        tipbench: the command on them.
        sbatch: further options of their jobs.
    """

    about: str
    nodes: list[str]
    want: Count
    tipbench: Annotated[str, msgspec.Meta(pattern=r"\S")]
    sbatch: list[str] = []

    def __post_init__(self) -> None:
        for node in self.nodes:  # here, as a pattern's error would not name it
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", node):
                raise ValueError(f"{node!r} is no name of a node: letters, digits, dots and hyphens are")


class NodeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is measured on each node: options of `tipbench run`. The budget is finite, as Slurm ends a job at its time
    limit."""

    budget_minutes: Annotated[float, msgspec.Meta(gt=0, lt=1e6)] = 45.0
    names: list[str] = []


Versions = dict[Literal["suite", "commit", "torch", "python"], str]


def installed_versions() -> tuple[Versions, str]:
    """(what is installed here, why git does not name its commit: empty where it does)."""
    about, (commit, why) = describe(), suite_commit()
    versions: Versions = {"suite": __version__, "commit": commit}
    return {**versions, "torch": str(about["torch"]), "python": str(about["python"])}, why


class FleetPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is wanted.

    Attributes:
        fleet: names the jobs of this fleet in the queue.
        partition: of the jobs; empty without Slurm.
        versions: what all nodes must have, or their runs could not be compared. What is not in it may differ.
        kind: by number.
    """

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


def as_toml(plan: FleetPlan) -> str:
    """As TOML. Its strings, numbers and lists of them are written as those of JSON."""
    stored = msgspec.to_builtins(plan)
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
    return plan_of(stored, file)


def plan_of(stored: Mapping[str, Any], file: Path) -> FleetPlan:
    """The plan that a file holds, or is to hold. Raises UserError."""
    try:
        return convert(stored, FleetPlan)
    except MalformedRecord as error:
        older = "; delete the lines `format` and `torch`, which older versions wrote" if "format" in stored else ""
        raise UserError(f"{file}: {error}{older}") from None


def file_bytes(file: Path) -> bytes:
    """Raises OSError, FileNotFoundError for what is no regular file: reading a FIFO would never end."""
    if not file.is_file():
        raise FileNotFoundError(file)
    return file.read_bytes()
