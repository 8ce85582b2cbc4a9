"""What torch.compile has compiled on this machine, kept from run to run."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from platformdirs import user_cache_path

from tipbench.records.record import Run


def kept_for(run: Run) -> Path | None:
    """The folder for runs of this machine, commit, Python and torch; those of others are removed, as they would never
    be emptied. None for a machine without a fingerprint, and for code without a commit.

    What is compiled fits one machine: it is compiled for the processor's own instructions, and a home folder may be
    several machines'.
    """
    if not run.fingerprint or not run.commit or run.commit.endswith("-dirty"):
        return None
    parts = run.fingerprint, run.commit, run.machine.get("python"), run.machine.get("torch")
    of_machine = user_cache_path("tipbench", appauthor=False) / "compiled" / run.fingerprint
    folder = of_machine / hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in of_machine.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:  # no home, or a full one: it is compiled anew
        return None
    return folder
