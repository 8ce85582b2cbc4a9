"""Several processes in lockstep: torchrun, which starts them, and what they exchange."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

AGENT = "TIPBENCH_AGENT"
"""Environment variable of ranks that holds the process id of the torchrun that started them."""

LINGER_S = 3.0
"""Seconds that a node waits after ranks have failed: at the first node that ends the launcher ends the others, whose
torchrun may not have noticed yet why its own ranks have failed. It looks once a second."""


def run_ranks(ranks: int, path: str, task: str) -> None:
    """Run torchrun with `ranks` worker processes, or with this node's share of them.

    With several nodes the rendezvous is static: torchrun's other kinds number the nodes in another order than the
    launcher, but rank 0 must be on the node that holds its connection.
    """
    described = json.loads(task)
    spread, reports = described["spread"], Path(described["reports"])
    if not spread:
        # By default gloo takes the address of the host's name, which may belong to another network, or to none.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # NCCL needs no network on one node
        _torchrun(["--standalone", "--nproc-per-node", str(ranks)], ranks, path, task, reports / "exit-codes-0.json")
        return
    from tipbench.machine.scratch import Scratch  # not in every worker, whose memory is measured
    from tipbench.worker import node

    number, count = node.place()
    if count != spread["nodes"]:
        sys.exit(f"tipbench: the launcher started {count} processes, where {spread['nodes']} nodes had met")
    # A file, as it is for every worker: a step that floods it is noticed, and costs the network nothing.
    printed = os.open(reports / f"output-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    with Scratch() as scratch:
        node.take_over(spread["variables"], scratch)
        node.use(node.network(spread["head"])["interface"])
        where = ["--nnodes", str(count), "--node-rank", str(number), "--nproc-per-node", str(ranks // count)]
        where += ["--master-addr", spread["head"], "--master-port", str(spread["port"])]
        _torchrun(where, ranks, path, task, reports / f"exit-codes-{number}.json", LINGER_S)


def _torchrun(where: Sequence[str], ranks: int, path: str, task: str, codes_file: Path, linger_s: float = 0.0) -> None:
    """Call torchrun. codes_file: where it leaves the exit codes of ranks that have failed. linger_s: before it ends."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    os.environ[AGENT] = str(os.getpid())
    try:
        torchrun(
            [
                *(*where, "--monitor-interval", "1"),
                *("--no-python", *as_unset(json.loads(task)["without"]), sys.executable, "-u", "-P"),
                *("-m", "tipbench.worker", str(ranks), path, task),
            ]
        )
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        codes_file.write_text(json.dumps(codes))
        time.sleep(linger_s)
        raise


def as_unset(names: Sequence[str]) -> list[str]:
    """The prefix of a rank's command that unsets those of these variables that are not set here: torchrun would set
    OMP_NUM_THREADS to 1."""
    words = [word for name in names if name not in os.environ for word in ("-u", name)]
    return ["env", *words] if words else []


class Ranks:
    """The processes of one torchrun group in lockstep; with a single process, its methods do nothing.

    Attributes:
        count: number of ranks.
        rank: number of this rank, from 0.
    """

    def __init__(self, count: int, device: str) -> None:
        self.count = count
        self._control: Any = None
        self.rank = int(os.environ.get("RANK", "0"))
        if count > 1:
            import torch.distributed as dist
            from torch.distributed.rendezvous import rendezvous

            self._store, rank, size = next(rendezvous("env://"))
            backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
            dist.init_process_group(backend, store=self._store, rank=rank, world_size=size)
            # A separate group, so that a count of a step's collectives excludes the harness's.
            self._control = dist.new_group(backend="gloo")

    def order_of_failure(self) -> int:
        """Number of ranks that have failed so far, including this one: 1 for the first.

        The first is the cause: the others then lose their connection to it. Times would not show the order, as the
        clocks of two machines differ and a report may wait in a socket.
        """
        try:
            return int(self._store.add("tipbench: failed ranks", 1))
        except RuntimeError:  # the process that counts has itself failed before, and is gone
            return self.count

    def meet(self) -> None:
        """Wait until all ranks are here."""
        if self.count > 1:
            import torch.distributed as dist

            dist.barrier(group=self._control)

    def share(self, request: Any) -> Any:
        """Rank 0's request, on every rank."""
        if self.count == 1:
            return request
        import torch.distributed as dist

        box = [request]
        dist.broadcast_object_list(box, src=0, group=self._control)
        return box[0]

    def gather(self, answer: Any) -> list[Any]:
        """Every rank's answer, on every rank."""
        if self.count == 1:
            return [answer]
        import torch.distributed as dist

        answers: list[Any] = [None] * self.count
        dist.all_gather_object(answers, answer, group=self._control)
        return answers
