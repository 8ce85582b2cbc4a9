"""One measurement at a time on a machine: a second would spoil both."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tipbench.errors import UserError


class Busy(UserError):
    """Another run holds the lock; the message names it."""


def lock_path() -> Path:
    """/tmp for all users of the machine; elsewhere the platform's temporary folder.

    TIPBENCH_LOCK names another file: the tests' tiny runs neither wait for a measurement nor stop one.
    """
    if own := os.environ.get("TIPBENCH_LOCK"):
        return Path(own)
    shared = Path("/tmp")
    return (shared if shared.is_dir() else Path(tempfile.gettempdir())) / "tipbench.lock"


@contextmanager
def only_run(what: str) -> Iterator[None]:
    """Hold the machine's lock under the name `what`. Raises Busy, naming the holder.

    The kernel drops the lock with its holder, also at `kill -9`, so it never goes stale.
    """
    path = lock_path()
    try:
        # Without O_CREAT first: in a sticky folder the kernel refuses to "create" another user's file.
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        os.fchmod(descriptor, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 500).decode(errors="replace").strip() or "another run"
            raise Busy(
                f"{holder} is measuring on this machine; two runs at once would spoil both. Wait for it to end."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{what} (process {os.getpid()})".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)
