"""Which results files are whose: those that were measured here, and the reference runs that the repository ships."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tipbench.records import store
from tipbench.records.store import RUN_FILES, StoreError

REFERENCE = "reference"
"""Folder within that of results; in it, reference runs lie by machine as all runs do."""


def is_reference(file: Path) -> bool:
    """Whether a results file is a reference run: measured by whoever maintains the repository, never by its reader."""
    return file.absolute().parent.parent.name == REFERENCE


def newest(folder: Path) -> Path:
    """The results file under `folder` whose run started last; reference runs are not looked at. Raises StoreError where
    there is none."""
    reference = folder / REFERENCE
    files = [file for file in sorted(folder.rglob(RUN_FILES)) if not file.is_relative_to(reference)]
    if not files:
        shipped = f", or name a reference run, such as those under {reference}" if reference.is_dir() else ""
        raise StoreError(f"no results under {folder}: measure first, with `make bench` or `tipbench run`{shipped}")
    return max(files, key=lambda file: (_started(file), file.name))


def _started(path: Path) -> datetime:
    """When the run started, by its header and whatever the file's name; before all others where that is no time, or the
    header cannot be read."""
    try:
        started = datetime.fromisoformat(store.header(path).started)
    except (StoreError, ValueError):
        return datetime.min.replace(tzinfo=UTC)
    return started if started.tzinfo else started.replace(tzinfo=UTC)
