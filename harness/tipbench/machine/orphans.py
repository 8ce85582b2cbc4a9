"""No process outlives the run that started it, however the run ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

SIGKILL_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel end this process, and those it forks, with the one that started them, as after `kill -9`.

    parent: the process id of the one that started this, if the caller knows it. If that has ended before the kernel was
    asked, nothing would end this one, so it exits.
    """
    _ask_kernel()
    os.register_at_fork(after_in_child=_ask_kernel)
    if parent is not None and os.getppid() != parent:
        sys.exit("the process that started this one has ended")


def _ask_kernel() -> None:
    ctypes.CDLL(None).prctl(SIGKILL_WITH_PARENT, signal.SIGKILL)


def end_working_in(folder: Path) -> None:
    """End every other process of this user whose TMPDIR lies in `folder`: programs that a step started do not die with
    it. Root can read the variables of all users, and any of them may name our folder."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # ended meanwhile, or another user's
            if process.pid == os.getpid() or process.uids().real != os.getuid():
                continue
            if Path(os.path.normpath(process.environ().get("TMPDIR", "/"))).is_relative_to(folder):
                process.kill()
