"""What torch.compile has compiled, kept from run to run in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import time
from pathlib import Path

from platformdirs import user_cache_path

from tipbench.records.record import Run

PROCESSOR = ("cpu", "microarchitecture", "family", "model", "stepping", "flags")
CODE = ("python", "torch", "triton", "compiler")
"""Fields of a machine that say whether what was compiled fits. A home folder may be several machines', which must not
compile into one folder at the same time: so their names are in the key too."""

UNUSED_S = 14 * 24 * 3600.0
"""Seconds after which a folder that no run began with is removed. Not at once: another machine may be using it."""


def kept_for(run: Run) -> Path | None:
    """The folder for runs of this machine, commit and software. Removes those that were not used for long, as nothing
    else ever empties them. None for code without a commit, and where there can be no folder."""
    if not run.commit or run.commit.endswith("-dirty"):
        return None
    parts = [platform.node(), run.commit, *(run.machine.get(field) for field in (*PROCESSOR, *CODE))]
    folders = user_cache_path("tipbench", appauthor=False) / "compiled"
    folder = folders / hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)
        for other in folders.iterdir():
            if time.time() - other.stat().st_mtime > UNUSED_S:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:  # no home, or a full one: it is compiled anew
        return None
    return folder
