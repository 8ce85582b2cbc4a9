"""The engine with next to no launches: every path of a real run, in seconds.

`python -m tests.tiny run ...` is the command `tipbench` with such launches.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tipbench.engine import limits
from tipbench.records.record import PairInfo
from tipbench.verdict import rules, verdict

RULES = rules.Rules(most=2)
"""No more than two launches."""

LIMITS = limits.Limits(rounds=(1, 2), longest_s=0.01, block_s=0.0005)

PAIRS = Path(__file__).parent / "pairs"


ADDING = """
import gc, os, time
import torch
from pathlib import Path
from tipbench.tip.words import Claim, Equal, Need, Pair, Reason, Tip, stays

TIP = Tip(
    id="own", title="Add once", guide=(), claim=Claim.FASTER,
    mechanism=stays("steps that return nothing", lambda step: step() is None),
)
NOWHERE = Need("a unicorn", lambda device: Reason("needs.own", {}, "no unicorn found", "buy one"))

class Adding(Pair):
    equal = Equal.BITWISE

    def additions(self, count):
        x = torch.randn(1000)
        return lambda: [x + 1 for _ in range(count)][-1]

    def baseline(self):
        return self.additions(40)

    def optimized(self):
        return self.additions(10)

"""
"""A file of a person's own, with one pair that is measured in no time."""


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Make launches tiny, and leave out the control that a run of a person's pairs takes along."""
    from tipbench.engine import run
    from tipbench.suite.discover import Discovery, discover

    def found(options: run.Options) -> tuple[Discovery, list[PairInfo]]:
        own = discover(options.pairs, options.device, options.size, of_data=bool(options.given))
        return own, list(own.pairs)

    patch.setattr(limits, "LIMITS", LIMITS)
    patch.setattr(rules, "RULES", RULES)
    patch.setattr(verdict, "BESIDE", 0)
    patch.setattr(run, "discover_folder", found)


def living(scratch: Path) -> list[str]:
    """Every process that works in this scratch folder: those that a worker starts inherit its TMPDIR."""
    found = []
    for process in psutil.process_iter():
        try:
            theirs = process.environ().get("TMPDIR", "").startswith(str(scratch))
            if theirs and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid}: {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    return found


def wait_for(true: Callable[[], Any], limit: float) -> bool:
    """Look again and again, for `limit` seconds at most: how long it takes is not what is tested."""
    end = time.monotonic() + limit
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def put_in_front(patch: pytest.MonkeyPatch, folder: Path, **scripts: str) -> None:
    """Have the shell run these scripts where programs of their names are called."""
    folder.mkdir(exist_ok=True)
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


if __name__ == "__main__":
    from tipbench.cli import main

    shrink(pytest.MonkeyPatch())
    sys.exit(main())
