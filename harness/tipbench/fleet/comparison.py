"""The runs of a fleet's folder, for `tipbench compare`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from tipbench.compare import CompareError, Comparison
from tipbench.compare.fleet import FleetNode, kinds_of_hardware
from tipbench.compare.slow import SlowNodes, parts
from tipbench.compare.stored import read_run
from tipbench.fleet import plan as plans
from tipbench.fleet.plan import PLAN
from tipbench.fleet.progress import NODES, end_of, folder_of, runs_of
from tipbench.records.store import UnusableFile


def is_fleet(words: Sequence[str]) -> bool:
    """Whether what a person names is the folder of a fleet, and nothing else."""
    return len(words) == 1 and (Path(words[0]) / PLAN).is_file()


def read(folder: Path) -> tuple[Comparison, SlowNodes]:
    """The kinds of machine of a fleet against each other, and their slow nodes. Raises UserError."""
    notes = list[str]()
    kinds = kinds_of_hardware(list(_nodes(folder, notes)))
    if not kinds:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise CompareError(f"no node of {folder} is done{why}: see `tipbench fleet status {folder}`")
    comparison = Comparison(tuple(kind.stored for kind in kinds), tuple(notes))
    slow = [parts({node.name: [run.results for run in node.runs] for node in kind.nodes}) for kind in kinds]
    again = "run {} --again" if plans.read(folder).partition else "node {} --again --as"
    command = f"tipbench fleet {again.format(shlex.quote(str(folder)))}"
    return comparison, SlowNodes(dict(zip(comparison.labels, slow, strict=True)), command)


def _nodes(folder: Path, notes: list[str]) -> Iterator[FleetNode]:
    """The nodes that are done, with all their runs, in order of their names."""
    for node in sorted(file.name for file in (folder / NODES).glob("*") if file.is_dir()):
        end = end_of(folder, node)
        if end is None or end.code not in (0, 1):
            notes.append(f"{node}: not done{f': {end.message}' if end else ''}")
            continue
        runs = []
        for file in runs_of(folder, node):
            try:
                runs.append(read_run(file))
            except UnusableFile as error:
                notes.append(f"{file.relative_to(folder_of(folder, node))} of {node}{error.problem}")
        if runs:
            yield FleetNode(node, tuple(runs))
