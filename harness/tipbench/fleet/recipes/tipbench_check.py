"""A check for ReFrame 4.10 that measures every node of a fleet's plan on PBS, LSF, SGE, OAR or Slurm.

    TIPBENCH_FLEET=/shared/fleet reframe -C site.py -c tipbench_check.py -r

ReFrame's `--distribute` lists the nodes of Slurm alone, so they come from the plan, and each job asks for its own. The
partition's launcher must be "local". Where a job may use only the cores that it asks for, add `-S num_cpus_per_task=64`
(PBS, LSF), `-S num_tasks=64 -S num_tasks_per_node=64` (OAR) or `-J'-pe smp 64'` (SGE). Some nodes: `-n '%node=n1'`.
"""

import json
import os
import sys
import tomllib
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_after, sanity_function

FOLDER = Path(os.environ["PWD"], os.environ["TIPBENCH_FLEET"])  # ReFrame reads this file from another folder
try:
    PLAN = tomllib.loads((FOLDER / "plan.toml").read_text())
except (OSError, ValueError) as error:  # of which ReFrame would skip this file, and end with 0
    sys.exit(f"{FOLDER / 'plan.toml'} cannot be read: {error}")
COMMANDS = {node: kind["tipbench"] for kind in PLAN["kind"].values() for node in kind["nodes"]}

ON_A_NODE_ALONE = {
    "lsf": ["-m {}"],
    "oar": ["-p \"host='{}'\""],
    "pbs": ["host={}", "-l place=excl"],
    "pbspro": ["host={}", "-l place=excl"],
    "sge": ["-l hostname={}"],
}
"""Options by ReFrame's name of the scheduler; it pins jobs itself on Slurm and by ssh, and cannot on Flux."""


@rfm.simple_test
class TipbenchCheck(rfm.RunOnlyRegressionTest):
    node = parameter(list(COMMANDS))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    exclusive_access = True
    num_tasks = 1
    time_limit = f"{PLAN['measure']['budget_minutes'] + 20:.0f}m"

    @run_after("setup")
    def ask_for_the_node(self):
        self.executable = COMMANDS[self.node]
        self.executable_opts = ["fleet", "node", str(FOLDER), "--as", self.node]
        options = ON_A_NODE_ALONE.get(self.current_partition.scheduler.registered_name, [])
        self.job.options = [option.format(self.node) for option in options]
        self.job.pin_nodes = [self.node]

    @sanity_function
    def is_measured(self):
        end = FOLDER / "nodes" / self.node / "end.json"
        if not end.exists():
            return sn.assert_true(False, msg=f"there is no {end}")
        ended = json.loads(end.read_text())
        return sn.assert_in(ended["code"], (0, 1), msg=ended["said"])  # 1: some pair failed
