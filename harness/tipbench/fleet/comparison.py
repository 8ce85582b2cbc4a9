"""The runs of a fleet's folder, for `tipbench compare`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tipbench import compare
from tipbench.compare import fleet_page
from tipbench.compare.fleet import Fleet, FleetNode, fleet_of_nodes
from tipbench.compare.inputs import CompareError
from tipbench.compare.stored import read_run
from tipbench.fleet import plan as plans
from tipbench.fleet.plan import PLAN
from tipbench.fleet.progress import NODES, end_of, folder_of, runs_of
from tipbench.records.store import UnusableFile, header
from tipbench.report import html


def is_fleet(words: Sequence[str]) -> bool:
    """Whether what a person names is the folder of a fleet, and nothing else."""
    return len(words) == 1 and (Path(words[0]) / PLAN).is_file()


def show(folder: Path, format: str, out: Path | None) -> list[Path]:
    """Print the comparison of a fleet, or write it beneath `out` and return the files. Raises UserError."""
    fleet = compare_nodes(folder)
    again = "run {} --again" if plans.read(folder).partition else "node {} --again --as"
    page = fleet_page.markdown(fleet, f"tipbench fleet {again.format(shlex.quote(str(folder)))}")
    return compare.put(html.render(page, fleet_page.title_of(fleet)) if format == "html" else page, format, out)


def compare_nodes(folder: Path) -> Fleet:
    """The nodes that are done, with all their runs. Raises UserError."""
    wanted, nodes = plans.read(folder), list[FleetNode]()
    unusable, empty = list[str](), list[str]()
    for node in sorted(file.name for file in (folder / NODES).glob("*") if file.is_dir()):
        end = end_of(folder, node)
        if end is None or end.code not in (0, 1):
            unusable.append(f"{node}: not done{f': {end.message}' if end else ''}")
            continue
        files = []
        for file in runs_of(folder, node):
            try:
                header(file)
                files.append(file)
            except UnusableFile as error:
                unusable.append(f"{file.relative_to(folder_of(folder, node))} of {node}{error.problem}")
        if runs := tuple(run for run in map(read_run, files) if run.records):
            nodes.append(FleetNode(node, wanted.kind_of(node), runs))
        else:
            empty.append(f"{node} holds no finished pair")
    notes = [*unusable, *empty]
    if not nodes:
        why = f" ({'; '.join(notes)})" if notes else ""
        raise CompareError(f"no node of {folder} is done{why}: see `tipbench fleet status {folder}`")
    return fleet_of_nodes(nodes, notes)
