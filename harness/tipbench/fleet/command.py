"""`tipbench fleet`: what a person types."""

from __future__ import annotations

import fcntl
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tipbench.errors import UserError
from tipbench.fleet import plan as plans
from tipbench.fleet import progress, slurm
from tipbench.fleet.logs import LOGS, ON
from tipbench.fleet.plan import FORMAT, JOB, PLAN, SCRIPT, FleetPlan, NodeOptions, PlannedKind, Versions
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
    folder: Path, measure: NodeOptions, sbatch: Sequence[str], names: Sequence[str], partition: str, per_kind: int
) -> int:
    """Write a plan, and print what it costs. sbatch: options of every job. names: of machines without Slurm; else the
    nodes of the partition, of each kind so many, 0 for all. Raises UserError."""
    file = folder / PLAN
    if file.exists():
        raise UserError(f"{file} is there already: edit it, or plan in another folder")
    plans.require_budget(measure, "--budget")
    nodes = [] if names else _of_partition(slurm.nodes(), partition)
    versions, why = plans.installed_versions()
    if why:
        raise UserError(f"nodes could not be compared by their code, as git does not name the commit here: {why}")
    if names:
        return _without_slurm(folder, measure, versions, names)
    problems = [f"{node.name} ({node.problem})" for node in nodes if node.problem]
    if len(problems) == len(nodes):
        raise UserError(f"no node of partition {nodes[0].partition} can be used now: {', '.join(problems)}")
    command = f"{sys.executable} -P -m tipbench"  # -P: a job begins in the folder of submission, whose files may be any
    kinds: dict[str, PlannedKind] = {}
    costs: list[str] = []
    for number, alike in enumerate(plans.kinds_of(nodes)):
        usable = [node for node in alike if not node.problem]
        want = min(per_kind or len(usable), len(usable))
        options = [*plans.options_of(alike[0]), *sbatch]
        kinds[plans.letters(number)] = PlannedKind(
            plans.hardware_of(alike[0]), [node.name for node in alike], want, command, options
        )
        costs.append(_row(plans.letters(number), alike, len(usable), want, measure))
    made = FleetPlan(FORMAT, uuid.uuid4().hex[:8], nodes[0].partition, measure, versions, kinds)
    if made.minutes > nodes[0].limit_minutes:
        fits = int(nodes[0].limit_minutes) - plans.AROUND_MINUTES
        raise UserError(
            f"a job would take up to {made.minutes} minutes, and partition {made.partition} allows "
            f"{nodes[0].limit_minutes:.0f}: a job above that waits for ever. Take "
            f"{f'--budget {fits}m, or ' if fits > 0 else ''}another --partition"
        )
    _store(folder, made)
    _say("\n".join([HEADING, *costs]))
    total = sum(kind.want for kind in kinds.values())
    hours = total * measure.budget_minutes / 60
    _say(f"{plural(len(kinds), 'kind')}, {plural(total, 'node')}: {hours:.3g} node-hours")
    if problems:
        _say(f"left out: {', '.join(problems)}")
    _say(f"the plan is {file}: edit it, then `tipbench fleet run {folder}` submits it")
    return 0


def _without_slurm(folder: Path, measure: NodeOptions, versions: Versions, names: Sequence[str]) -> int:
    """Write a plan of machines that something else than Slurm starts `tipbench fleet node` on."""
    for node in names:
        plans.require_name(node, "--nodes")
    kind = PlannedKind("machines without Slurm", list(names), len(names), "tipbench")
    _store(folder, FleetPlan(FORMAT, uuid.uuid4().hex[:8], "", measure, versions, {"a": kind}))
    hours = len(names) * measure.budget_minutes / 60
    _say(f"{plural(len(names), 'node')}: {hours:.3g} node-hours")
    _say(f"the plan is {folder / PLAN}; now start `tipbench fleet node {folder}` on each machine")
    return 0


def _store(folder: Path, made: FleetPlan) -> None:
    """With the folders that it needs. Raises UserError."""
    with writable(folder):
        (folder / NODES).mkdir(parents=True, exist_ok=True)
        if made.partition:
            (folder / LOGS).mkdir(exist_ok=True)
            (folder / JOB).write_text(SCRIPT.format(on=ON))
        (folder / PLAN).write_text(plans.as_toml(made))


HEADING = f"{'kind':<6}{'nodes':>6}{'usable':>8}{'wanted':>8}{'node-hours':>12}{'GPU-hours':>11}  hardware"


def _row(name: str, alike: Sequence[SlurmNode], usable: int, want: int, measure: NodeOptions) -> str:
    hours = want * measure.budget_minutes / 60
    cards = f"{hours * alike[0].cards:.3g}" if alike[0].cards else "-"
    return f"{name:<6}{len(alike):>6}{usable:>8}{want:>8}{hours:>12.3g}{cards:>11}  {plans.hardware_of(alike[0])}"


def _of_partition(nodes: Sequence[SlurmNode], partition: str) -> list[SlurmNode]:
    """Those of the partition, or of Slurm's default one. Raises UserError."""
    names = sorted({node.partition for node in nodes})
    default = next((node.partition for node in nodes if node.is_default), names[0] if len(names) == 1 else "")
    chosen = partition or default
    if not chosen:
        raise UserError(
            f"Slurm has no default partition: name one with --partition: {', '.join(names) or 'there is none'}"
        )
    if found := [node for node in nodes if node.partition == chosen]:
        return found
    raise UserError(f"partition {chosen!r} has no nodes; there are {', '.join(names) or 'none'}")


def run(folder: Path, at_once: int, wait: bool, again: Sequence[str] = ()) -> int:
    """Submit what is wanted, less what is done or in flight, up to `at_once` jobs. wait: go on until all is done.
    again: nodes that are done, and of which a second run is wanted; nothing else is submitted then. Returns 0 where all
    is done or submitted, 1 where something must be done first. Raises UserError."""
    silent, before = 0, list[str]()
    with only_here(folder):
        wanted = plans.read(folder)
        for node in again:
            if not wanted.kind_of(node):
                raise UserError(f"--again {node}: {folder / PLAN} has no node of that name")
            progress.begin_again(folder, node)
        while True:
            wanted = plans.read(folder)
            if not wanted.partition:
                raise UserError(
                    f"{folder / PLAN} is a plan without Slurm: start `tipbench fleet node {folder}` on each machine"
                )
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
def only_here(folder: Path) -> Iterator[None]:
    """Keep two from submitting for one folder at a time. Raises UserError."""
    plans.read(folder)
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
        yield


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
        if not wanted.partition:
            way = f"start `tipbench fleet node {folder}` on them"
        _say(f"{plural(lacking, 'node')} missing: {way}")
    else:
        _say(f"all is done: `tipbench compare {folder}`")
    return int(lacking > 0)


def cancel(folder: Path) -> int:
    """Cancel what is in flight. Raises UserError."""
    with only_here(folder):
        jobs = slurm.jobs(progress.job_name(folder, plans.read(folder)))
        if jobs:
            slurm.cancel([job.id for job in jobs])
        for job in jobs:
            progress.note(folder, job.id, progress.NO_KIND)
    _say(
        f"{plural(len(jobs), 'job')} cancelled; what is stored stays, and `tipbench fleet run {folder}` goes on with it"
    )
    return 0
