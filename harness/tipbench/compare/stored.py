"""Stored runs as a comparison needs them, found and read where they lie.

Nothing is kept between comparisons: ten thousand files are listed, and fifty read, in seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tipbench.records import store
from tipbench.records.record import Run
from tipbench.records.store import Notice, StoreError
from tipbench.report.result import Result
from tipbench.report.results import results

DATE = len("2026-03-01-")
"""Where the id begins in the name that `store.create` gives a file."""


@dataclass(frozen=True)
class StoredRun:
    """A run as far as it is compared.

    Attributes:
        file: where it is stored.
        run: without its records.
        records: how many the file holds.
        results: the run's.
        notices: what could not be used in the file.
    """

    file: Path
    run: Run
    records: int
    results: tuple[Result, ...]
    notices: tuple[str, ...]


def results_files(folder: Path) -> list[Path]:
    """All results files beneath a folder, sorted by path. Links to folders are not followed, and folders that cannot
    be listed are passed over; whether a file can be read is not looked at."""
    found = (Path(beneath, name) for beneath, _, names in os.walk(folder) for name in names)
    return sorted((file for file in found if file.name.endswith(".jsonl")), key=str)


def beginning(word: str, files: Iterable[Path]) -> list[Path]:
    """Those of the files whose own name begins with the word, or with its date and then the word: the name that
    `store.create` gives a file has eight characters of the run's id."""
    return [file for file in files if file.name.startswith(word) or file.name.startswith(word[:8], DATE)]


def split_day(file: Path) -> tuple[Path, str]:
    """(The results file, the day of its sessions) that `FILE@DAY` names; "" for all days."""
    name, of_file, day = file.name.partition(".jsonl@")
    return (file.with_name(f"{name}.jsonl"), day) if of_file else (file, "")


def sessions_of_day(run: Run, day: str) -> Run:
    """The run as far as the sessions that began on a day timed its pairs. Raises StoreError if none did."""
    numbers = {number: began for number, began in enumerate((run.started, *run.later)) if began.startswith(day)}
    records = []
    for record in run.records:
        launches = tuple(launch for launch in record.launches if launch.session in numbers)
        if launches or not record.launches:
            records.append(replace(record, launches=launches))
    if not any(record.launches for record in records):
        days = ", ".join(dict.fromkeys(began[:10] for began in (run.started, *run.later)))
        raise StoreError(f"run {run.id[:8]} has no session of {day} that timed a pair, but of {days}")
    return replace(run, id=f"{run.id[:8]}@{day}", started=min(numbers.values()), later=(), records=tuple(records))


def read_run(file: Path) -> StoredRun:
    """What is compared of the run in a file, as `split_day` has it. Raises StoreError."""
    file, day = split_day(file)
    run, notices = store.read(file)
    return stored_run(file, sessions_of_day(run, day) if day else run, notices)


def stored_run(file: Path, run: Run, notices: Sequence[Notice]) -> StoredRun:
    notes = tuple(f"{notice.file.name}, line {notice.line}: {notice.text}" for notice in notices)
    return StoredRun(file, replace(run, records=()), len(run.records), tuple(results(run)), notes)
