"""One of several nodes: which one this is, the network to the first, and what all tell each other before a run.

Before a run, the launcher of `tipbench run --spread` starts this module once on each node, as `main` has it. They form
a process group, which shows that they reach each other, and the first writes down what each is.
What ends a node here is one sentence on stderr, which the launcher hands on to the run.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from tipbench import __version__
from tipbench.machine.controls import is_foreign
from tipbench.machine.describe import describe
from tipbench.suite.commit import suite_commit
from tipbench.tip.wording import plural

JOIN_S = 240.0
"""Seconds that nodes wait for each other: each imports torch, perhaps from a slow file system."""

SAME = ("suite", "commit", "torch", "python", "pairs")
"""Fields of a node that must be equal on all nodes; "pairs" is a `digest`."""

PLACES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_NODEID", "SLURM_STEP_NUM_NODES"),
)
"""Variables of Open MPI, MPICH and Slurm with the number of a node and the count of all. mpirun's come first: within
an allocation of Slurm it starts its own daemons by srun, whose numbers are others."""


def place() -> tuple[int, int]:
    """(number of this node, number of nodes), by the launcher's variables."""
    for number, count in PLACES:
        if number in os.environ and count in os.environ:
            return int(os.environ[number]), int(os.environ[count])
    names = ", ".join(number for number, _ in PLACES)
    sys.exit(f"tipbench: the launcher does not number its processes: none of {names} is set")


def address_of(head: str) -> str:
    """The address of the first node, as this one looks it up. Never a loopback address of another machine."""
    named = os.environ.get("MASTER_ADDR") or head
    here = socket.gethostname()
    try:
        addresses = sorted((entry[0], entry[4][0]) for entry in socket.getaddrinfo(named, None))  # IPv4 first
    except OSError as error:
        sys.exit(
            f"tipbench: node {here} cannot look up {named}, the first node ({error}): set MASTER_ADDR to its address"
        )
    address = str(addresses[0][1])
    if here != head and ipaddress.ip_address(address).is_loopback:
        sys.exit(f"tipbench: {here} looks up {named}, the first node, as itself: set MASTER_ADDR to its address")
    return address


def network(address: str) -> dict[str, Any]:
    """{"interface", "mbit"}: the network interface by which this node reaches an address, and its speed (Mbit/s).

    The speed is 0 where the system does not report it, as of virtual interfaces. GLOO_SOCKET_IFNAME takes precedence.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as unused:
        try:
            unused.connect((address, 9))  # sends nothing; the system chooses the interface
        except OSError as error:
            sys.exit(f"tipbench: node {socket.gethostname()} cannot reach {address}: {error.strerror}")
        own = unused.getsockname()[0]
    listed = psutil.net_if_addrs().items()
    by_route = next((name for name, entries in listed if any(own == entry.address for entry in entries)), "")
    name = os.environ.get("GLOO_SOCKET_IFNAME") or by_route
    if not name:
        sys.exit(f"tipbench: node {socket.gethostname()} has no network interface with the address {own}")
    stats = psutil.net_if_stats().get(name)
    return {"interface": name, "mbit": stats.speed if stats else 0}


def use(interface: str) -> None:
    """Let gloo and NCCL use it: by themselves they may take another network's, or one that leads nowhere."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    os.environ.setdefault("NCCL_SOCKET_IFNAME", interface)


def digest(folder: Path) -> str:
    """A short hash of all Python files in a folder of pairs, or of a single file."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    checksum = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        checksum.update(f"{file.relative_to(folder.parent)} {len(content)}\n".encode() + content)
    return checksum.hexdigest()[:12]


def take_over(variables: Mapping[str, str], scratch: Path) -> None:
    """Give this process the variables of a run's workers, whatever the launcher hands on, and folders of its own: those
    of the first node do not exist here. scratch: for what is temporary, and what is compiled."""
    for name in [name for name in os.environ if is_foreign(name)]:
        del os.environ[name]
    os.environ.update(variables)
    for name in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = str(scratch / name.lower())
    (scratch / "tmpdir").mkdir()
    tempfile.tempdir = None  # Python may have cached it


def require_fit(number: int, node: Mapping[str, Any], first: Mapping[str, Any], cores: int, reports: Path) -> None:
    """End this node where it cannot take part. node, first: what this node is, and the first. cores: of the run."""
    for name in SAME:
        if node[name] != first[name]:
            differs = f"{name} {node[name]} (node 0: {first[name]})"
            sys.exit(f"tipbench: node {number} has {differs}: install the same on all nodes")
    if node["cores"] != cores:
        sys.exit(
            f"tipbench: a process on node {number} may use {plural(node['cores'], 'core')}, and the run {cores}: take "
            "equal nodes, and a launcher that binds to no core, as `mpirun --bind-to none`"
        )
    if not reports.is_dir():
        sys.exit(f"tipbench: node {number} does not see {reports.parent}: name a folder that all share, by --results")


def meet(head: str, port: int, cores: int, pairs: Path, reports: Path) -> dict[str, Any]:
    """{"head": its address, "nodes": {"name", "interface", "mbit"} of each}, on every node.

    head: name of the first node. port: a free one there. cores: that the run may use. pairs: folder of the pairs.
    reports: folder that all nodes must see.
    """
    number, count = place()
    if count < 2:
        sys.exit("tipbench: the launcher starts one process alone; it must start one on each of several nodes")
    here = socket.gethostname()
    if number == 0 and here != head:
        sys.exit(f"tipbench: the launcher's first node is {here}: start the run there, and not on {head}")
    address = address_of(head)
    import torch.distributed as dist  # takes seconds

    timeout = timedelta(seconds=JOIN_S)
    store = dist.TCPStore(address, port, count, number == 0, timeout)  # type: ignore[attr-defined]
    about = describe()
    node = {"suite": __version__, "commit": suite_commit(), "pairs": digest(pairs)}
    node |= {name: about[name] for name in ("name", "torch", "python", "cores")}
    # By the store, as different versions of torch may form no group.
    if number == 0:
        store.set("first", json.dumps(node))
    require_fit(number, node, json.loads(store.get("first")), cores, reports)
    # The first node may look itself up as 127.0.1.1, where nobody else reaches it.
    if number == 1:
        store.set("head", address)
    address = store.get("head").decode()
    reached_by = network(address)
    use(reached_by["interface"])
    dist.init_process_group("gloo", store=store, rank=number, world_size=count)
    nodes: list[Any] = [None] * count
    dist.all_gather_object(nodes, {"name": node["name"], **reached_by})
    dist.destroy_process_group()
    return {"head": address, "nodes": nodes}


def main(head: str, port: str, cores: str, pairs: str, reports: str, answer: str) -> None:
    met = meet(head, int(port), int(cores), Path(pairs), Path(reports))
    if place()[0] == 0:
        Path(answer).write_text(json.dumps(met))


if __name__ == "__main__":
    main(*sys.argv[1:])
