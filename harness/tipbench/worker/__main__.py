"""Starts a worker: `python -m tipbench.worker RANKS SOCKET TASK`, also each rank that torchrun starts."""

import os
import sys

from tipbench.machine.orphans import die_with_parent
from tipbench.worker.ranks import AGENT
from tipbench.worker.serve import run_worker


def main(ranks: str, path: str, task: str) -> None:
    # Without this, a rank whose torchrun has already ended would wait minutes for its store.
    die_with_parent(int(os.environ[AGENT]) if AGENT in os.environ else None)
    run_worker(int(ranks), path, task)


if __name__ == "__main__":
    main(*sys.argv[1:])
