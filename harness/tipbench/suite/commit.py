"""Which state of the suite's own code is measured with."""

from __future__ import annotations

import subprocess

from tipbench.suite.files import BENCHMARKS


def suite_commit() -> str:
    """The suite's git commit, with "-dirty" for uncommitted changes; "unavailable" outside a checkout of its own."""
    checkout = BENCHMARKS.parent
    if not (checkout / ".git").exists():
        return "unavailable"  # installed, it may lie within another project's checkout
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unavailable"
    return described.stdout.strip() or "unavailable"
