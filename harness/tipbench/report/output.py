"""Where reports and comparisons go: to files, whole or not at all, or to the terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO, cast

from tipbench.errors import UserError


class ReportError(UserError):
    """A report cannot be written; the message names the file."""


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, its folders made. Raises ReportError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}-{os.getpid()}")
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # else the name may stand for nothing after a power failure
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ReportError(f"cannot write {path}: {why}; name another folder with --out") from error


def print_bytes(content: bytes) -> None:
    """Bytes where stdout takes them: a terminal in the C locale has no word for some of these characters.

    Raises ReportError where stdout is closed, and OSError.
    """
    if sys.stdout is None:
        raise ReportError("cannot write the report: standard output is closed; name a folder with --out")
    buffer = cast("BinaryIO | None", getattr(sys.stdout, "buffer", None))
    if buffer is None:
        sys.stdout.write(content.decode())
    else:
        sys.stdout.flush()
        buffer.write(content)
    sys.stdout.flush()
