"""Several processes in lockstep: torchrun, which starts them, and what they say to one another."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

AGENT = "TIPBENCH_AGENT"
"""Environment variable of ranks: the process id of torchrun, which starts them."""


def run_ranks(ranks: int, path: str, task: str) -> None:
    """Be torchrun for `ranks` processes of this file, or for this node's share of them.

    With several nodes the rendezvous is static: torchrun's others number the nodes as they come, and rank 0
    must be where its pipe is.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    described = json.loads(task)
    spread = described["rendezvous"]
    if spread:
        nodes, node, host, port = (str(spread[name]) for name in ("nodes", "node", "host", "port"))
        where = ["--nnodes", nodes, "--node-rank", node, "--master-addr", host, "--master-port", port]
        ranks_here = ranks // spread["nodes"]
    else:
        where, ranks_here = ["--standalone"], ranks
    # By itself gloo takes the address of the host's name, which may be that of another network, or of none.
    interface = spread["interface"] if spread else "lo"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    if spread:  # on one node NCCL needs no network
        os.environ.setdefault("NCCL_SOCKET_IFNAME", interface)
    os.environ[AGENT] = str(os.getpid())
    try:
        torchrun(
            [
                *(*where, "--nproc-per-node", str(ranks_here), "--monitor-interval", "1"),
                *("--no-python", *as_unset(described["without"]), sys.executable, "-u", "-P"),
                *("-m", "tipbench.worker", str(ranks), path, task),
            ]
        )
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        (Path(path).parent / "exit-codes.json").write_text(json.dumps(codes))
        raise


def as_unset(names: Sequence[str]) -> list[str]:
    """The words before a rank's command that start it without these variables, where they are not set here: torchrun
    would set OMP_NUM_THREADS to 1."""
    words = [word for name in names if name not in os.environ for word in ("-u", name)]
    return ["env", *words] if words else []


class Ranks:
    """The processes of one torchrun group in lockstep; alone, it does nothing."""

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
            # A group of its own, so that counting a step's collectives never counts the harness's.
            self._control = dist.new_group(backend="gloo")

    def order_of_failure(self) -> int:
        """How many ranks had failed when this one did, itself among them: 1 for the first.

        The first is the cause: the others then lose their connection to it. Times would not tell, as the clocks of
        two machines differ, and a report may wait in a socket.
        """
        try:
            return int(self._store.add("tipbench: failed ranks", 1))
        except RuntimeError:  # whoever kept the count has failed before, and is gone
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
