"""Bind a process to one NUMA node: its cores and its memory.

A machine with several processors has memory at each of them: a node is a processor, or part of one, and
the memory beside it. Memory of another node is further away. The kernel puts a page where the thread
runs that first writes to it, and may move the thread elsewhere later. `numactl --cpunodebind=N
--membind=N` keeps both on one node. (`torchrun --numa-binding` does so for the processes it starts.)

Why people write the baseline: a program that is simply started runs wherever there is room.

What to expect: a gain where the time goes into reading memory, on a machine with several nodes. A bound
process has the cores and the memory of one node only; whoever wants all of the machine runs a process on
each node. So both sides here use as many threads as one node has cores.

Never run so far, for want of a machine with two nodes. Containers may forbid binding memory: then
numactl refuses, and the variant fails with what it said.
"""

from pathlib import Path

import psutil
import torch

from benchmarks.jobs.image_classification import RunResNet
from tipbench.tip.words import *


def policy_and_nodes(step: Step) -> str:
    step()
    maps = Path("/proc/self/numa_maps").read_text()
    # Each line is an address, the policy there ("default" or "bind:0"), and the pages.
    return f"{maps.split()[1]}, nodes {nodes_in_use(maps)}"


def nodes_in_use(maps: str) -> list[int]:
    """The nodes with more than 1 % of the pages, from the text of /proc/self/numa_maps."""
    pages = pages_by_node(maps)
    return [node for node in sorted(pages) if pages[node] > sum(pages.values()) / 100]


def only_optimized_is_bound(baseline: str, optimized: str) -> bool:
    """An unbound process may happen to be on one node alone; its policy says that it need not be."""
    return not baseline.startswith("bind") and optimized.startswith("bind") and optimized.endswith(" [0]")


NODES = max(1, len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))))
CORES = min(available_cores(), psutil.cpu_count(logical=False) or available_cores())
ONE_NODE = {"OMP_NUM_THREADS": str(max(1, CORES // NODES))}
ON_ANY_NODE = Way(name="baseline", env=ONE_NODE)
BOUND = Way(
    do="numactl --cpunodebind=0 --membind=0 python train.py",
    env=ONE_NODE,
    prefix=("numactl", "--cpunodebind=0", "--membind=0"),
)

TIP = Tip(
    id="numa",
    title="Bind a process to one NUMA node",
    do=BOUND.do,
    when="a process has no more threads than a node has cores",
    against="the same threads, on any node",
    guide=("A2.1",),
    claim=Claim.FASTER,
    mechanism=Mechanism(
        "memory policy, and the nodes with more than 1 % of the pages", policy_and_nodes, only_optimized_is_bound
    ),
    published=(
        'remote access "can be ~2x slower" (PyTorch tutorial: Grokking PyTorch Intel CPU performance); '
        "binding typically 1-10 % (PyTorch documentation: NUMA Binding)"
    ),
)


class _Binding(SettingsPair, ways=(ON_ANY_NODE, BOUND)):
    """The same step, in a process that is bound to a node and in one that is not."""

    needs = (numa_nodes(2),)


class MemorySweep(_Binding):
    """The sum of 64 MiB, all of it first written to by one thread, as PyTorch's random numbers are."""

    sizes = Sizes(dict(elements=16 * 2**20), test=dict(elements=1000))

    def build(self) -> Step:
        x = torch.rand(self.size["elements"])
        return lambda: x.sum()


class ResNetInference(_Binding, RunResNet):
    """ResNet-18 run over JPEG files, loading included."""
