"""A run as people read it: rows derived from its records, rendered in one file a format.

Nothing here imports torch: runs are read on laptops. The same run gives the same bytes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from harness.record import Run
from harness.report import as_csv, as_json, markdown
from harness.report.advice import ANSWERS, Advice, advise
from harness.report.rows import Row, rows
from harness.report.wording import plain
from harness.store import Notice, file_name, folder_name

__all__ = ["ANSWERS", "FORMATS", "Advice", "ReportError", "Row", "advise", "one_liners", "render", "rows", "write"]

FORMATS: dict[str, Callable[[Run, Sequence[Notice]], str]] = {
    "md": markdown.render,
    "json": as_json.render,
    "csv": as_csv.render,
}


class ReportError(Exception):
    """A report cannot be written; the message names the file."""


def render(run: Run, notices: Sequence[Notice], format: str) -> bytes:
    """The report's bytes, in UTF-8. Raises KeyError for a format that is not in FORMATS."""
    return FORMATS[format](run, notices).encode("utf-8", "replace")


def write(run: Run, notices: Sequence[Notice], format: str, out: Path | None = None) -> Path | None:
    """Write the report to `<out>/<machine>/<run>.<format>` and return that path, or print it where
    `out` is None. Raises ReportError where it cannot be written: no half-written report is left."""
    content = render(run, notices, format)
    if out is None:
        _print(content)
        return None
    path = out / folder_name(run.machine) / f"{file_name(run)}.{format}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            try:
                file.write(content)
                file.close()
                Path(file.name).chmod(0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ReportError(f"cannot write the report {path}: {why}; name another folder with --out") from error
    return path


def one_liners(run: Run) -> list[str]:
    """One line of plain text a tip, the answers that ask for action first."""
    found = advise(rows(run))
    answers = max((len(advice.answer) for advice in found), default=0)
    tips = max((len(plain(advice.tip)) for advice in found), default=0)
    return [f"{a.answer:<{answers}}  {plain(a.tip):<{tips}}  {plain(a.why)}" for a in found]


def _print(content: bytes) -> None:
    """Bytes where stdout takes them: a terminal in the C locale has no word for some of these characters."""
    buffer = cast("BinaryIO | None", getattr(sys.stdout, "buffer", None))
    if buffer is None:
        sys.stdout.write(content.decode())
    else:
        sys.stdout.flush()
        buffer.write(content)
    sys.stdout.flush()
