"""Which state of the suite's own code is measured with."""

from __future__ import annotations

import os
import subprocess

from tipbench.machine.proc import UNAVAILABLE
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.wording import plain


def suite_commit() -> tuple[str, str]:
    """(The suite's git commit, with "-dirty" for uncommitted changes; why it is "unavailable" instead: git's own words,
    which name the remedy, and nothing outside a checkout of its own)."""
    checkout = BENCHMARKS.parent
    if not (checkout / ".git").exists():
        return UNAVAILABLE, ""  # installed, it may lie within another project's checkout
    # It may be another user's: whoever runs the suite executes its code, so git may read it too.
    safe = ["-c", f"safe.directory={checkout}"]
    command = ["git", *safe, "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    # In a hook of git, for one, GIT_DIR names another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        described = subprocess.run(command, env=env, capture_output=True, check=False)
    except OSError as error:
        return UNAVAILABLE, f"git cannot be started: {error}"
    if commit := plain(described.stdout.decode(errors="replace")):
        return commit, ""
    return UNAVAILABLE, plain(described.stderr.decode(errors="replace")) or f"git ended with {described.returncode}"
