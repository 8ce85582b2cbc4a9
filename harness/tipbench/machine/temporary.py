"""The temporary folder, and whether anything can still be written there.

What meets a full one fails in its own way (half a line of JSON, an archive that cannot be written, a process that
waits for another which has ended), so code that meets such a failure checks here.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tipbench.errors import UserError

_LEAST_ROOM = 1 << 20
"""Bytes that must fit into it. A run takes more, most of it for what torch.compile makes."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class TemporaryFolderFull(UserError):
    """Nothing more can be written to the temporary folder; the message names it."""


def full(folder: Path) -> str:
    """Why nothing more can be written into `folder`, and what to do; "" if something can.

    It is tried, because nothing else shows a quota. A run's own folder is named by the folder it lies in.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_LEAST_ROOM))
    except OSError as error:
        if error.errno in NO_ROOM:
            ours = re.compile(r"tipbench-\d+-")
            named = next((path.parent for path in (folder, *folder.parents) if ours.match(path.name)), folder)
            return (
                f"the temporary folder {named} is full ({os.strerror(error.errno)}); make room there, or name "
                "another with TMPDIR"
            )
    return ""


def temporary_folder() -> Path:
    """Where temporary files go. Raises TemporaryFolderFull where nothing can be written anywhere.

    Where TMPDIR names a full folder it is that, and `writing_to` refuses it: Python silently takes another.
    """
    named = os.environ.get("TMPDIR")
    if named and full(Path(named)):
        return Path(named)
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise TemporaryFolderFull(f"{error.strerror}; make room in one of them, or name another with TMPDIR") from None


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Raise TemporaryFolderFull where the folder is full, now or when something within raises an OSError."""
    if why := full(folder):
        raise TemporaryFolderFull(why)
    try:
        yield
    except OSError as error:
        if why := full(folder):
            raise TemporaryFolderFull(why) from error
        raise
