"""Temporary folders that their process keeps locked, so that a later one can clear up after a killed one."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tipbench.machine.temporary import temporary_folder, writing_to

LONGEST_FOLDER = 41
"""Characters of a temporary folder's path in which the Unix sockets of workers still fit. Of 104 at most,
"/tipbench-1234567-12345678/tmp" takes 30, and "/pymp-12345678/listener-12345678" of multiprocessing 32."""

_LOCK = "lock"
"""Name of the file in a scratch folder that its process holds locked. A process id would not do: in containers that
share the folder, it says nothing of the others' processes."""

ATTEMPTS = 3
"""To empty a folder: a process that is killed may write on for a moment."""


class Scratch:
    """An empty folder of this process, made after the folders of ended ones are removed.

    Attributes:
        path: of the folder.
    """

    def __init__(self) -> None:
        """Raises TemporaryFolderFull."""
        place = temporary_folder()
        if len(str(place)) > LONGEST_FOLDER:
            place = Path("/tmp")
        for left in place.glob("tipbench-*-*"):
            with suppress(OSError), _locked(left):  # another user's, or in use: it stays
                _remove(left)
        with writing_to(place):
            # Only once it is locked does it have a name by which others would remove it.
            unlocked = Path(tempfile.mkdtemp(prefix=f"tipbench.{os.getpid()}-", dir=place))
            self._lock = os.open(unlocked / _LOCK, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.path = unlocked.rename(unlocked.with_name(unlocked.name.replace(".", "-", 1)))

    def remove(self) -> None:
        """Remove the folder; a second call does nothing."""
        if self._lock >= 0:
            try:
                with suppress(OSError):  # what cannot be removed is left to the next one
                    _remove(self.path)
            finally:
                os.close(self._lock)
                self._lock = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove(folder: Path) -> None:
    """Remove a folder of ours, its lock last: removed before a kill, or before a file that somebody was just writing,
    it left a folder that no later process knew for one of ours. Raises OSError."""
    for attempt in range(ATTEMPTS):
        time.sleep(0.1 * attempt)
        for inside in sorted(set(folder.iterdir()) - {folder / _LOCK}):
            if inside.is_dir() and not inside.is_symlink():
                shutil.rmtree(inside, ignore_errors=True)
            else:
                inside.unlink(missing_ok=True)
        if list(folder.iterdir()) == [folder / _LOCK]:
            shutil.rmtree(folder)
            return


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of ours. Raises OSError where another process holds it, where there is none, and for
    a folder of another user or a link."""
    status = folder.lstat()
    if status.st_uid != os.geteuid():
        raise PermissionError
    lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)
