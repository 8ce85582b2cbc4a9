"""What of a fleet is done, in flight or missing: by the files of its folder, and by the queue."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tipbench.errors import UserError
from tipbench.fleet.logs import LOGS, Try, tries
from tipbench.fleet.plan import FleetPlan, file_bytes
from tipbench.fleet.slurm import SlurmJob
from tipbench.records.fields import MalformedRecord, convert
from tipbench.records.json_line import dump_line, parse_line
from tipbench.records.listing import newest_first
from tipbench.suite.files import file_text
from tipbench.tip.wording import lines_of

NODES, RESULTS, END, ENDED = "nodes", "results", "end.json", "ended.txt"

SUBMITTED = "submitted.txt"
"""A line for each job that was submitted: its id and its kind."""

NO_KIND = "-"
"""In place of its kind, of a job that `cancel` cancelled."""

TRIES = 3
"""Jobs that may end on a node without a further result, nodes of a kind that may fail as long as none is done, and jobs
of it that may vanish, before no more are submitted: a broken node is free at once, and would take them all."""

RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "CONFIGURING")


@dataclass(frozen=True)
class End:
    """How the measurement of a node ended.

    Attributes:
        code: exit code of the run: 0, or 1 where some pair failed.
        message: a sentence; empty where all went well.
    """

    code: int
    message: str = ""


@dataclass(frozen=True)
class Measured:
    """A node on which something was begun. message: what is worth reading, in words."""

    state: Literal["done", "failed", "running", "stopped"]
    message: str = ""


def folder_of(folder: Path, node: str) -> Path:
    return folder / NODES / node


def end_of(folder: Path, node: str) -> End | None:
    """How it ended; None where it has not, or where that cannot be read: then it is measured again, and a run that is
    complete says so at once."""
    try:
        return convert(parse_line(file_bytes(folder_of(folder, node) / END)), End)
    except (OSError, ValueError, MalformedRecord):
        return None


def keep_end(folder: Path, node: str, end: End) -> None:
    """Written last. Where the folder takes no more, the log must do: `status` shows what is printed last."""
    try:
        _put(folder_of(folder, node) / END, dump_line(asdict(end)))
    except OSError as error:
        print(f"tipbench: how {node} ended could not be stored: {lines_of(str(error))}", file=sys.stderr)


def _put(file: Path, content: bytes) -> None:
    """At once or not at all. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(f".{file.parent.name}.new")
    beside.write_bytes(content)
    beside.replace(file)


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Raises UserError where the folder takes nothing."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error}") from None


def begin_again(folder: Path, node: str) -> None:
    """Let a node that is done be measured once more, in a run of its own. Raises UserError."""
    here = folder_of(folder, node)
    if not (here / END).exists():
        return
    with writable(here):
        _put(here / ENDED, "\n".join(file.name for file in runs_of(folder, node)).encode())
        (here / END).unlink()


def unended_runs_of(folder: Path, node: str) -> list[Path]:
    """Its results files, oldest first, without those of runs that had ended when it was to be measured once more."""
    ended = file_text(folder_of(folder, node) / ENDED).splitlines()
    return [file for file in runs_of(folder, node) if file.name not in ended]


def runs_of(folder: Path, node: str) -> list[Path]:
    """The results files of a node, oldest first."""
    return newest_first(folder_of(folder, node) / RESULTS)[::-1]


def measured_nodes(folder: Path, jobs: Sequence[SlurmJob]) -> dict[str, Measured]:
    """By name, the nodes on which something was begun. jobs: of this fleet, in the queue."""
    at_work = {job.node for job in jobs if job.state in RUNNING and job.node}
    begun = {file.name for file in (folder / NODES).glob("*") if file.is_dir()}
    of_logs = tries(folder)
    return {
        node: _of_node(folder, node, node in at_work, of_logs.get(node, []))
        for node in sorted(begun | at_work | of_logs.keys())
    }


def _of_node(folder: Path, node: str, at_work: bool, of_logs: Sequence[Try]) -> Measured:
    if end := end_of(folder, node):
        if end.code in (0, 1):
            return Measured("done", "some pair failed" if end.code else "")
        return Measured("failed", end.message)
    runs = runs_of(folder, node)
    stored = runs[-1].stat().st_mtime if runs else 0.0
    age = f"last result {(time.time() - stored) / 60:.0f} min ago" if runs else "nothing stored yet"
    if at_work:
        return Measured("running", age)
    printed = f"; its last job printed: {of_logs[-1].last or 'nothing'}" if of_logs else ""
    in_vain = sum(one.written > stored and not one.cancelled for one in of_logs)
    if in_vain >= TRIES:
        return Measured("failed", f"{in_vain} jobs ended there without a further result{printed}")
    return Measured("stopped", age + printed)


def job_name(folder: Path, plan: FleetPlan, kind: str = "") -> str:
    """Of the jobs of a kind; without one what the names of all begin with. A copy of the folder is another inode: its
    jobs are not those of the original."""
    return f"tipbench-{plan.fleet}-{folder.stat().st_ino:x}-{kind}"


def nodes_missing(plan: FleetPlan, kind: str, nodes: dict[str, Measured], jobs: Sequence[SlurmJob]) -> int:
    """How many nodes of a kind are wanted, less those that are done or in flight."""
    done = sum(node in nodes and nodes[node].state == "done" for node in plan.kind[kind].nodes)
    return max(0, plan.kind[kind].want - done - sum(job.kind == kind for job in jobs))


def nodes_to_try(plan: FleetPlan, kind: str, nodes: dict[str, Measured]) -> list[str]:
    """Nodes of a kind on which nothing is done, in flight or failed."""
    return [node for node in plan.kind[kind].nodes if node not in nodes or nodes[node].state == "stopped"]


def obstacle(folder: Path, plan: FleetPlan, kind: str, nodes: dict[str, Measured], jobs: Sequence[SlurmJob]) -> str:
    """Why no more of a kind is submitted until a person has done something; empty if more may be."""
    states = [nodes[node].state for node in plan.kind[kind].nodes if node in nodes]
    failed = states.count("failed")
    if failed >= TRIES and "done" not in states:
        return (
            f"{failed} of its nodes failed and none is done: correct what `tipbench fleet status {folder}` says, "
            f"then remove their folders in {NODES}, and {LOGS}"
        )
    queue = {job.id for job in jobs}
    vanished = sum(of == kind and job not in queue for job, of in submitted_jobs(folder).items())
    if vanished >= TRIES and not states:
        return (
            f"{vanished} jobs are gone and left nothing, not even a log: is {folder} on a file system that the nodes "
            f"share? If so, remove {folder / SUBMITTED}"
        )
    return ""


def submitted_jobs(folder: Path) -> dict[str, str]:
    """The kind of each job that was submitted, by its id."""
    lines = file_text(folder / SUBMITTED).splitlines()
    return {words[0]: words[1] for words in map(str.split, lines) if len(words) == 2}


def note(folder: Path, job: str, kind: str) -> None:
    """Keep the kind of a job; the last word counts. On a full disk it is not kept, and counts as none that vanished."""
    with suppress(OSError), (folder / SUBMITTED).open("a") as file:
        file.write(f"{job} {kind}\n")
