"""How `tipbench fleet` is typed. Imports nothing that takes time: `tipbench --help` shows it too."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

DESCRIPTION = "measure every kind of machine of a cluster, by Slurm or by whatever starts a command on each"


def add(command: argparse.ArgumentParser, seconds: Callable[[str], float], count: Callable[[str], int]) -> None:
    """seconds, count: types of options."""
    command.set_defaults(command=_begin)
    commands = command.add_subparsers(title="commands", dest="fleet_command", required=True, metavar="COMMAND")

    of_plan = commands.add_parser("plan", help="write what is to be measured, for you to edit, and say what it costs")
    of_plan.add_argument("--partition", default="", metavar="P", help="default: Slurm's own")
    nodes = of_plan.add_mutually_exclusive_group()
    nodes.add_argument("--per-kind", type=count, default=2, metavar="N", help="nodes of each kind; default: 2")
    nodes.add_argument("--all", action="store_const", const=0, dest="per_kind", help="all nodes of each kind")
    nodes.add_argument(
        "--nodes", type=_names, default=[], metavar="N1,N2,...", help="these machines, all of them, without Slurm"
    )
    of_plan.add_argument("--budget", type=seconds, default=2700.0, metavar="TIME", help="of a node; default: 45m")
    of_plan.add_argument(
        "--names", nargs="+", default=[], metavar="NAME", help="tips, pairs or patterns of their names; default: all"
    )
    of_plan.add_argument(
        "--sbatch", action="append", default=[], metavar="OPTION", help="of every job, as --sbatch=-Aproject"
    )

    of_run = commands.add_parser("run", help="submit what is wanted and neither done nor in flight")
    of_run.add_argument("--at-once", type=count, default=8, metavar="N", help="jobs in flight at most; default: 8")
    of_run.add_argument(
        "--again", nargs="+", default=[], metavar="NODE", help="only these, which are done: each gets a second run"
    )
    of_run.add_argument("--wait", action="store_true", help="go on submitting until all is done")

    of_status = commands.add_parser("status", help="show what is done, in flight and missing")
    of_cancel = commands.add_parser("cancel", help="cancel what is in flight")

    of_node = commands.add_parser("node", help="measure this machine, as what an engine starts on each")
    of_node.add_argument(
        "--as", default="", metavar="NAME", dest="name", help="default: what Slurm, or the machine, calls it"
    )
    of_node.add_argument("--again", action="store_true", help="begin a second run on a node that is done")

    for each in (of_plan, of_run, of_status, of_cancel, of_node):
        each.add_argument(
            "folder", type=Path, metavar="DIR", help="of the fleet, on a file system that all its machines share"
        )


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _begin(options: argparse.Namespace) -> int:
    from tipbench.fleet import command

    match options.fleet_command:
        case "plan":
            measure = {"budget_minutes": options.budget / 60, "names": options.names}
            return command.plan(
                options.folder, measure, options.sbatch, options.nodes, options.partition, options.per_kind
            )
        case "run":
            return command.run(options.folder, options.at_once, options.wait, options.again)
        case "status":
            return command.status(options.folder)
        case "cancel":
            return command.cancel(options.folder)
        case _:
            from tipbench.fleet import node

            return node.measure(options.folder, options.name, options.again)
