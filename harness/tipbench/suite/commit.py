"""Which state of the suite's own code is measured with."""

from __future__ import annotations

import os
import subprocess

from tipbench.suite.files import BENCHMARKS
from tipbench.tip.wording import plain


def suite_commit() -> str:
    """The suite's git commit, with "-dirty" for uncommitted changes; "unavailable" outside a checkout of its own."""
    checkout = BENCHMARKS.parent
    if not (checkout / ".git").exists():
        return "unavailable"  # installed, it may lie within another project's checkout
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    # In a hook of git, for one, GIT_DIR names another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        described = subprocess.run(command, env=env, capture_output=True, check=False)
    except OSError:
        return "unavailable"
    return plain(described.stdout.decode(errors="replace")) or "unavailable"
