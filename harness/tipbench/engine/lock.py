"""One measurement at a time on a machine: a second would spoil both."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tipbench.errors import UserError

LOCKS = Path("/proc/locks")
"""Where Linux lists who holds a lock, such as `1: FLOCK  ADVISORY  WRITE 8987 fe:00:2147289 0 EOF`: process, device and
inode of the file."""


class Busy(UserError):
    """Another run holds the lock, or the lock cannot be used; the message says which."""


def lock_path() -> Path:
    """/tmp for all users of the machine; elsewhere the platform's temporary folder.

    TIPBENCH_LOCK names another file: the tests' tiny runs neither wait for a measurement nor stop one.
    """
    if own := os.environ.get("TIPBENCH_LOCK"):
        return Path(own)
    shared = Path("/tmp")
    return (shared if shared.is_dir() else Path(tempfile.gettempdir())) / "tipbench.lock"


@contextmanager
def only_run(held: bool = False) -> Iterator[None]:
    """Hold the machine's lock. held: whether the caller does, of whose measurement this is a part. Raises Busy.

    Nothing is ever written to the file, which any user of the machine may have put there: a typed command may hold
    secrets, and a link may lead to somebody's file. The kernel drops the lock with its holder, also at `kill -9`, so it
    never goes stale.
    """
    path = lock_path()
    if held:
        yield
        return
    try:
        descriptor = _opened(path)
    except OSError as error:
        what = "a symbolic link" if path.is_symlink() else (error.strerror or str(error)).lower()
        raise Busy(
            f"the lock {path}, which keeps two runs from measuring at once, cannot be opened: {what}; remove it, "
            "or name another file with TIPBENCH_LOCK"
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Busy(
                f"the lock {path}, which keeps two runs from measuring at once, is not a regular file; remove it, or "
                "name another file with TIPBENCH_LOCK"
            )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            raise Busy(
                f"another run{f' (process {holder})' if holder else ''} is measuring on this machine; two runs at once "
                "would spoil both. Wait for it to end."
            ) from None
        yield
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """A descriptor of the file, which is made where there is none. Raises OSError, also for a link."""
    # Not waiting for the other end of a FIFO.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:  # by another run, meanwhile
        return os.open(path, flags)
    os.fchmod(descriptor, 0o644)  # whatever the umask: any user must be able to open it
    return descriptor


def _holder(descriptor: int) -> int:
    """The process that holds the lock of an open file; 0 where the kernel does not tell, as of other containers."""
    status = os.fstat(descriptor)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        held = re.search(rf" FLOCK +ADVISORY +WRITE (\d+) {file} ", LOCKS.read_text())
    except OSError:
        return 0
    return int(held[1]) if held else 0
