"""`tipbench fleet`: what a person types."""

from __future__ import annotations

import fcntl
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from tipbench.errors import UserError
from tipbench.fleet import plan as plans
from tipbench.fleet import progress, slurm
from tipbench.fleet.logs import LOGS, ON
from tipbench.fleet.plan import JOB, PLAN, SCRIPT, FleetPlan
from tipbench.fleet.progress import NODES, writable
from tipbench.fleet.slurm import Later, Silent, SlurmNode
from tipbench.tip.wording import lines_of, plural

AGAIN_S = 60.0
"""Between two looks at the queue."""

_SILENT = 3
"""Times that Slurm may fail to answer in a row before `--wait` gives up."""


def _say(text: str, stream: TextIO | None = None) -> None:
    """Names of folders, and what Slurm and jobs print, may hold what a terminal acts on."""
    print(lines_of(text), file=stream)


def plan(
    folder: Path, measure: Mapping[str, Any], sbatch: Sequence[str], names: Sequence[str], partition: str, per_kind: int
) -> int:
    """Write a plan, and print what it costs. measure: fields of `NodeOptions`. sbatch: options of every job. names: of
    machines that something else than Slurm starts `tipbench fleet node` on; else the nodes of the partition, of each
    kind so many, 0 for all. Raises UserError."""
    file = folder / PLAN
    if file.exists():
        raise UserError(f"{file} is there already: edit it, or plan in another folder")
    nodes = [] if names else _of_partition(slurm.nodes(), partition)
    versions, why = plans.installed_versions()
    if why:
        raise UserError(f"nodes could not be compared by their code, as git does not name the commit here: {why}")
    problems = [f"{node.name} ({node.problem})" for node in nodes if node.problem]
    if nodes and len(problems) == len(nodes):
        raise UserError(f"no node of partition {nodes[0].partition} can be used now: {', '.join(problems)}")
    kinds = plans.kinds_of(nodes)
    planned = [_planned(alike, sbatch, per_kind) for alike in kinds]
    if names:
        planned = [{"about": "without Slurm", "nodes": names, "want": len(names), "tipbench": "tipbench"}]
    stored = {"fleet": uuid.uuid4().hex[:8], "partition": nodes[0].partition if nodes else "", "measure": measure}
    stored |= {"versions": versions, "kind": {str(number): kind for number, kind in enumerate(planned, 1)}}
    made = plans.plan_of(stored, file)
    if nodes and made.minutes > nodes[0].limit_minutes:
        fits = int(nodes[0].limit_minutes) - plans.AROUND_MINUTES
        raise UserError(
            f"a job would take up to {made.minutes} minutes, and partition {made.partition} allows "
            f"{nodes[0].limit_minutes:.0f}: a job above that waits for ever. Take "
            f"{f'--budget {fits}m, or ' if fits > 0 else ''}another --partition"
        )
    _store(folder, made)
    if nodes:
        costs = [_row(name, alike, made) for name, alike in zip(made.kind, kinds, strict=True)]
        _say("\n".join([HEADING, *costs]))
    total = sum(kind.want for kind in made.kind.values())
    hours = total * made.measure.budget_minutes / 60
    _say(f"{plural(len(made.kind), 'kind')}, {plural(total, 'node')}: {hours:.3g} node-hours")
    if problems:
        _say(f"left out: {', '.join(problems)}")
    way = f"edit it, then `tipbench fleet run {folder}` submits it"
    _say(f"the plan is {file}: {way if nodes else _by_hand(folder)}")
    return 0


def _planned(alike: Sequence[SlurmNode], sbatch: Sequence[str], per_kind: int) -> dict[str, Any]:
    """Nodes of a kind as the plan has them: fields of `PlannedKind`."""
    usable = sum(not node.problem for node in alike)
    return {
        "about": plans.hardware_of(alike[0]),
        "nodes": [node.name for node in alike],
        "want": min(per_kind or usable, usable),
        # -P: a job begins in the folder of submission, whose files may be any.
        "tipbench": f"{sys.executable} -P -m tipbench",
        "sbatch": [*plans.options_of(alike[0]), *sbatch],
    }


def _by_hand(folder: Path) -> str:
    """What to do without Slurm."""
    return f"start `tipbench fleet node {folder}` on each machine"


def _store(folder: Path, made: FleetPlan) -> None:
    """With the folders that it needs. Raises UserError."""
    with writable(folder):
        (folder / NODES).mkdir(parents=True, exist_ok=True)
        if made.partition:
            (folder / JOB).write_text(SCRIPT.format(on=ON))
        (folder / PLAN).write_text(plans.as_toml(made))


HEADING = f"{'kind':<6}{'nodes':>6}{'usable':>8}{'wanted':>8}{'node-hours':>12}{'GPU-hours':>11}  hardware"


def _row(name: str, alike: Sequence[SlurmNode], made: FleetPlan) -> str:
    kind, usable = made.kind[name], sum(not node.problem for node in alike)
    hours = kind.want * made.measure.budget_minutes / 60
    cards = f"{hours * alike[0].cards:.3g}" if alike[0].cards else "-"
    return f"{name:<6}{len(alike):>6}{usable:>8}{kind.want:>8}{hours:>12.3g}{cards:>11}  {kind.about}"


def _of_partition(nodes: Sequence[SlurmNode], partition: str) -> list[SlurmNode]:
    """Those of the partition, or of Slurm's default one. Raises UserError."""
    names = sorted({node.partition for node in nodes})
    default = next((node.partition for node in nodes if node.is_default), names[0] if len(names) == 1 else "")
    chosen = partition or default
    if found := [node for node in nodes if node.partition == chosen]:
        return found
    what = f"partition {chosen!r} has no nodes" if chosen else "Slurm has no default partition"
    raise UserError(f"{what}; there are {', '.join(names) or 'none'}: name one with --partition")


def run(folder: Path, at_once: int, wait: bool, again: Sequence[str] = ()) -> int:
    """Submit what is wanted, less what is done or in flight, up to `at_once` jobs. wait: go on until all is done.
    again: nodes that are done, and of which a second run is wanted; nothing else is submitted then. Returns 0 where all
    is done or submitted, 1 where something must be done first. Raises UserError."""
    silent, before = 0, list[str]()
    with only_here(folder) as wanted:
        if not wanted.partition:
            raise UserError(f"{folder / PLAN} is a plan without Slurm: {_by_hand(folder)}")
        for node in again:
            if not wanted.kind_of(node):
                raise UserError(f"--again {node}: {folder / PLAN} has no node of that name")
            progress.begin_again(folder, node)
        while True:
            try:
                lacking, over = _submit(folder, wanted, at_once, again)
                silent = 0
            except Silent as error:
                silent += 1
                if wait and silent >= _SILENT:
                    raise
                lacking, over = [f"{error}: later"], False
            for sentence in lacking:
                if sentence not in before:
                    _say(f"tipbench: {sentence}", sys.stderr)
            before = lacking
            if not wait:
                return int(bool(lacking))
            if over:
                return status(folder)
            time.sleep(AGAIN_S)
            wanted = plans.read(folder)  # it may be edited meanwhile


def _submit(folder: Path, wanted: FleetPlan, at_once: int, only: Sequence[str] = ()) -> tuple[list[str], bool]:
    """Submit once. only: nodes; empty for all. Return what keeps the rest from it, in sentences, and whether no more
    can come: nothing is in flight or can be tried. Raises Silent and UserError."""
    jobs = slurm.jobs(progress.job_name(folder, wanted))
    there = [node for node in slurm.nodes() if node.partition == wanted.partition]
    usable = {node.name for node in there if not node.problem}
    nodes = progress.measured_nodes(folder, jobs)
    left, lacking, over = at_once - len(jobs), list[str](), not jobs
    for name, kind in wanted.kind.items():
        may_be = [node for node in progress.nodes_to_try(wanted, name, nodes) if not only or node in only]
        missing = len(may_be) if only else progress.nodes_missing(wanted, name, nodes, jobs)
        if not missing:
            continue
        if why := progress.obstacle(folder, wanted, name, nodes, jobs):
            lacking.append(f"kind {name}: {why}")
            continue
        over = over and not may_be
        free = [node for node in may_be if node in usable]
        if missing > len(free):
            lacking.append(f"kind {name}: {missing} more wanted, and {plural(len(free), 'node')} can be tried")
        # Slurm chooses among the nodes that are not excluded, and takes the one that is free first.
        exclude = ",".join(node.name for node in there if node.name not in free)
        for _ in range(min(missing, len(free), left)):
            try:
                script = [str((folder / JOB).absolute()), kind.tipbench, str(folder.absolute())]
                job = slurm.submit(_options(folder, wanted, name, exclude), script)
            except Later as error:
                return [*lacking, f"{error}: later"], False
            progress.note(folder, job, name)
            _say(f"submitted job {job} for a node of kind {name}")
            left -= 1
    return lacking, over


def _options(folder: Path, wanted: FleetPlan, kind: str, exclude: str) -> list[str]:
    log = folder.absolute() / LOGS / "%j.txt"
    return [
        *("--job-name", progress.job_name(folder, wanted, kind)),
        *("--partition", wanted.partition),
        *("--nodes", "1"),
        *("--time", str(wanted.minutes)),
        *("--output", str(log), "--open-mode", "append"),
        "--requeue",
        *(["--exclude", exclude] if exclude else []),
        *wanted.kind[kind].sbatch,
    ]


@contextmanager
def only_here(folder: Path) -> Iterator[FleetPlan]:
    """The plan, while nobody else submits for the folder. Raises UserError."""
    wanted = plans.read(folder)
    with writable(folder):
        lock = (folder / "lock").open("a")
        (folder / LOGS).mkdir(exist_ok=True)  # without it Slurm ends every job at once, and nothing says why
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another `tipbench fleet run {folder}` is submitting: wait for its end, or end it"
            ) from None
        yield wanted


def status(folder: Path) -> int:
    """Print what is done, in flight and missing. Returns 0 where all that is wanted is done, else 1. Raises
    UserError."""
    wanted, answers = plans.read(folder), True
    try:
        jobs = slurm.jobs(progress.job_name(folder, wanted)) if wanted.partition else []
    except slurm.SlurmError as error:
        _say(f"tipbench: {error}; what follows is by the folder alone, and a job may be running:", sys.stderr)
        jobs, answers = [], False
    nodes = progress.measured_nodes(folder, jobs)
    lacking = 0
    for name, kind in wanted.kind.items():
        done = sum(nodes[node].state == "done" for node in kind.nodes if node in nodes)
        lacking += max(0, kind.want - done)
        _say(f"kind {name} ({kind.about}): {done} of {plural(kind.want, 'node')} done")
        for node in kind.nodes:
            if measured := nodes.get(node):
                _say(f"  {node}: {measured.state}{f': {measured.message}' if measured.message else ''}")
        for job in jobs:
            if job.kind == name and not job.node:
                _say(f"  job {job.id} waits: {job.reason}")
        if answers and (why := progress.obstacle(folder, wanted, name, nodes, jobs)):
            _say(f"  nothing more is submitted: {why}")
    for node in nodes.keys() - set(wanted.nodes):
        _say(f"  {node}, of no kind: {nodes[node].state}")
    if lacking:
        way = f"`tipbench fleet run {folder}` submits what is not in flight"
        _say(f"{plural(lacking, 'node')} missing: {way if wanted.partition else _by_hand(folder)}")
    else:
        _say(f"all is done: `tipbench compare {folder}`")
    return int(lacking > 0)


def cancel(folder: Path) -> int:
    """Cancel what is in flight. Raises UserError."""
    with only_here(folder) as wanted:
        jobs = slurm.jobs(progress.job_name(folder, wanted))
        if jobs:
            slurm.cancel([job.id for job in jobs])
        for job in jobs:
            progress.note(folder, job.id, progress.NO_KIND)
    _say(
        f"{plural(len(jobs), 'job')} cancelled; what is stored stays, and `tipbench fleet run {folder}` goes on with it"
    )
    return 0
