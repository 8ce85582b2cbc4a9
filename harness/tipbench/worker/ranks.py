"""Several processes in lockstep: torchrun, which starts them, and what they exchange."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tipbench.worker.protocol import EXIT_CODES_FILE

AGENT = "TIPBENCH_AGENT"
"""Environment variable of ranks that holds the process id of the torchrun that started them."""


def run_ranks(ranks: int, path: str, task: str) -> None:
    """Run torchrun with `ranks` worker processes."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    # By default gloo takes the address of the host's name, which may belong to another network, or to none.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # NCCL needs no network on one machine
    os.environ[AGENT] = str(os.getpid())
    described = json.loads(task)
    try:
        torchrun(
            [
                *("--standalone", "--nproc-per-node", str(ranks), "--monitor-interval", "1"),
                *("--no-python", *as_unset(described["without"]), sys.executable, "-u", "-P"),
                *("-m", "tipbench.worker", str(ranks), path, task),
            ]
        )
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        (Path(described["reports"]) / EXIT_CODES_FILE).write_text(json.dumps(codes))
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

        The first is the cause: the others then lose their connection to it.
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
