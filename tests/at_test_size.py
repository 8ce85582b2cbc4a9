"""A pair at test size, checked as a worker checks it.

`python -m tests.at_test_size ANSWER PAIRS` does so in a process that was started with settings of its own, or in each
of several ranks. PAIRS is JSON: [file, class, variant] of each. The answers are written to the file ANSWER.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from pathlib import Path

import torch
from torch import distributed

from tipbench.suite.files import BENCHMARKS, load_module
from tipbench.tip.pair import BY_REFERENCE, Pair
from tipbench.worker import checks
from tipbench.worker.checks import Results
from tipbench.worker.guard import REFERENCE_VARIANT, Guard

SEEDS = {"micro": (1, 2), "macro": (2,)}
"""By scale. A seed is a build: whether the outputs of a whole job depend on theirs, the check of a run says."""
DEVICE = os.environ.get("TIPBENCH_TEST_DEVICE", "cpu")
"""Where pairs are tried that run on either; `make test-gpu` says "cuda"."""


def device_of(pair: type[Pair]) -> torch.device:
    """Several ranks share one GPU badly: they are tried on the CPU, but for pairs that want a GPU each."""
    if "RANK" in os.environ:
        return torch.device("cpu" if "cpu" in pair.devices else f"cuda:{os.environ['RANK']}")
    return torch.device(DEVICE if DEVICE in pair.devices else pair.devices[0])


class AtTestSize(Guard):
    """A pair at test size, checked as a worker checks it."""

    def __init__(self, pair: type[Pair], device: torch.device | None = None) -> None:
        super().__init__(Path(inspect.getfile(pair)), BENCHMARKS, pair.__name__, device or device_of(pair), {})

    def pair(self) -> Pair:
        return self.pair_class(self.device, for_test=True)

    def results(self, variant: str) -> Results:
        return checks.step_results(self, variant, SEEDS[self.pair_class.scale])

    def reference(self) -> Results:
        """Of the fp64 side; nothing where both sides are compared with each other."""
        return self.results(REFERENCE_VARIANT.name) if self.pair_class.equal in BY_REFERENCE else Results()


def main(answer: str, wanted: str) -> None:
    ranked = "RANK" in os.environ
    if ranked:
        if torch.cuda.device_count() > 1:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    answers = {}
    for file, name, variant in json.loads(wanted):
        subject = AtTestSize(vars(load_module(Path(file), BENCHMARKS))[name])
        answers[file, name, variant] = vars(subject.results(variant)), checks.mechanism_count(subject, variant, seed=0)
    if not ranked or distributed.get_rank() == 0:
        torch.save(answers, answer)
    if ranked:
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
