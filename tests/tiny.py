"""The engine with next to no launches: every path of a real run, in seconds.

`python -m tests.tiny run ...` is the command `tipbench` with that profile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from harness.profiles import PROFILES, Profile
from harness.record import PairInfo
from harness.statistics import Looks

LOOKS = Looks((2,), (0.05,))
PROFILE = Profile(LOOKS, rounds=(1, 2), seconds={"micro": 0.01, "macro": 0.01}, block_s=0.0005)

PAIRS = Path(__file__).parent / "pairs"


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Make both profiles tiny, and leave out the control that a run of chosen pairs takes along."""
    from harness import run
    from harness.report import rows

    def alone(chosen: Sequence[PairInfo], controls: Sequence[PairInfo], whole: bool) -> list[PairInfo]:
        return list(chosen)

    for name in ("quick", "full"):
        patch.setitem(PROFILES, name, PROFILE)
    for name in ("QUICK", "FULL"):
        patch.setattr(rows, name, LOOKS)
    patch.setattr(run, "with_controls", alone)


def living(scratch: Path) -> list[str]:
    """Every process that a worker with this scratch folder is or has started: they inherit its TMPDIR."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("TMPDIR", "").startswith(str(scratch)):
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid}: {' '.join(process.cmdline())}")
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    from harness.cli import main

    shrink(pytest.MonkeyPatch())
    sys.exit(main())
