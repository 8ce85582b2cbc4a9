"""What any engine starts once on each machine of a fleet: measure it, or go on where that was interrupted."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tipbench.engine import run
from tipbench.engine.lock import Busy
from tipbench.errors import UserError
from tipbench.fleet import plan as plans
from tipbench.fleet.plan import PLAN, FleetPlan, installed_versions
from tipbench.fleet.progress import RESULTS, End, begin_again, end_of, folder_of, keep_end, unended_runs_of
from tipbench.tip.wording import lines_of

NODE_VARIABLES = ("SLURMD_NODENAME", "NODE_NAME")
"""Variables in which Slurm, and Kubernetes by a line of its job, name the node."""

_NODES_NAMED = 10
"""Nodes of a plan that an error names."""


def measure(folder: Path, name: str = "", again: bool = False) -> int:
    """Measure this machine as the plan of the fleet says, and return the exit code. name: of the node; "" for what the
    scheduler, or the machine itself, calls it. again: if it is done, in a second run. Raises UserError."""
    plan = plans.read(folder)
    machine = name or next((os.environ[word] for word in NODE_VARIABLES if os.environ.get(word)), socket.gethostname())
    node = plan.node_of(machine)
    if not node:
        names = f"{', '.join(plan.nodes[:_NODES_NAMED])}{' and others' * (len(plan.nodes) > _NODES_NAMED)}"
        what = "which --as names" if name else "as this machine calls itself"
        raise UserError(f"{folder / PLAN} has no node {machine!r}, {what}, but {names}: name this one with --as")
    if again:
        begin_again(folder, node)
    if (end := end_of(folder, node)) and end.code in (0, 1):
        print(lines_of(f"{node} is done: its run is in {folder_of(folder, node) / RESULTS}"))
        return end.code
    if other := _other_versions(plan):
        keep_end(folder, node, End(2, other))
        raise UserError(f"{node}: {other}")
    options = run.Options(
        names=plan.measure.names,
        results=folder_of(folder, node) / RESULTS,
        new=not unended_runs_of(folder, node),
        budget_s=60 * plan.measure.budget_minutes,
    )
    try:
        code, _ = run.measure_machine(options)
    except Busy:
        raise  # by another job that has the node too: it may be measured another time
    except UserError as error:
        if error.exit_code != 1:  # a run that was cut short, as by a full disk, can be gone on with
            keep_end(folder, node, End(error.exit_code, str(error)))
        raise
    if code in (0, 1):
        keep_end(folder, node, End(code))
    return code


def _other_versions(plan: FleetPlan) -> str:
    """What of this installation is other than planned; empty if nothing is."""
    here, why = installed_versions()
    for what, wanted in plan.versions.items():
        if here[what] != wanted:
            if what == "commit" and why:
                return f"git does not name the commit that is installed there: {why}"
            return f"{what} {here[what]} is installed there, and the plan is of {what} {wanted}"
    return ""
