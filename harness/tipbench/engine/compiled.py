"""What torch.compile has compiled, kept from run to run in the user's cache folder."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from platformdirs import user_cache_path

from tipbench.records.record import Run

PROCESSOR = ("cpu", "microarchitecture", "family", "model", "stepping", "flags")
"""Fields of a machine: code is compiled for its processor, and several machines may share a home folder."""

CODE = ("python", "torch", "triton", "compiler")


def kept_for(run: Run) -> Path | None:
    """The folder for runs of this processor, commit and software. Those of other commits or software are removed, as
    nothing else ever empties them. None for code without a commit, and where there can be no folder."""
    if not run.commit or run.commit.endswith("-dirty"):
        return None
    of_processor = user_cache_path("tipbench", appauthor=False) / "compiled" / _named(run, PROCESSOR)
    folder = of_processor / f"{run.commit[:12]}-{_named(run, CODE)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for other in of_processor.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:  # no home, or a full one: it is compiled anew
        return None
    return folder


def _named(run: Run, fields: tuple[str, ...]) -> str:
    return hashlib.sha256(repr([run.machine.get(field) for field in fields]).encode()).hexdigest()[:16]
