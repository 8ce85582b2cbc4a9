"""Which results files are the newest. Reference runs, which the repository ships, are nobody's newest."""

from __future__ import annotations

from pathlib import Path

from tipbench.records.store import RUN_FILES, StoreError

_REFERENCE = "reference"
"""Folder within that of results; in it, reference runs lie by machine as all runs do."""


def newest_first(folder: Path) -> list[Path]:
    """The results files under `folder`, that written last before all others."""
    files = filter(Path.is_file, folder.rglob(RUN_FILES))
    return sorted(files, key=lambda file: (file.stat().st_mtime, file.name), reverse=True)


def newest(folder: Path) -> Path:
    """The results file under `folder` that was written last; reference runs are not looked at. Raises StoreError where
    there is none."""
    reference = folder / _REFERENCE
    for file in newest_first(folder):
        if not file.is_relative_to(reference):
            return file
    shipped = f", or name a reference run, such as those under {reference}" if reference.is_dir() else ""
    raise StoreError(f"no results under {folder}: measure first, with `make bench` or `tipbench run`{shipped}")
