"""Stored runs as a comparison needs them, found and read where they lie.

Nothing is kept between comparisons: ten thousand files are listed, and fifty read, in seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tipbench.records import store
from tipbench.records.listing import is_reference
from tipbench.records.record import Run
from tipbench.records.store import StoreError
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.needs import available_cores

WORTH_A_PROCESS = 8 << 20
"""Bytes to be read from which on further processes are started for it: each needs half a second to begin."""

DATE = len("2026-03-01-")
"""Where the id begins in the name that `store.create` gives a file."""


@dataclass(frozen=True)
class Stored:
    """A run as far as it is compared.

    Attributes:
        file: where it is stored.
        run: without its records.
        records: how many the file holds.
        results: the run's.
        notices: what could not be used in the file.
        reference: whether it is a reference run.
    """

    file: Path
    run: Run
    records: int
    results: tuple[Result, ...]
    notices: tuple[str, ...]
    reference: bool = False


def beneath(folder: Path) -> list[Path]:
    """All results files beneath a folder, sorted by path. Links to folders are not followed, and folders that cannot
    be listed are passed over; whether a file can be read is not looked at."""
    return [Path(path) for path in sorted(_beneath(str(folder)))]


def beginning(word: str, files: Iterable[Path]) -> list[Path]:
    """Those of the files whose own name begins with the word, or whose run's id does.

    By its id a run is found only in a file with the name that it was stored under. Of a file without a usable
    header the id is not known.
    """
    # The name holds eight characters of the id, and others in place of what does not belong in a file name: as far
    # as its letters and digits go, a word tells which files can be meant, and their headers tell which are.
    start = re.split(r"[^A-Za-z0-9]", word[:8])[0]
    return [
        file
        for file in files
        if file.name.startswith(word) or (file.name.startswith(start, DATE) and _id(file).startswith(word))
    ]


def dated(file: Path) -> tuple[Path, str]:
    """(The results file, the day of its sessions) that `FILE@DAY` names; "" for all days."""
    name, of_file, day = file.name.partition(".jsonl@")
    return (file.with_name(f"{name}.jsonl"), day) if of_file else (file, "")


def of_day(run: Run, day: str) -> Run:
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


def read_all(files: Sequence[Path]) -> list[Stored]:
    """What is compared of the runs in these files, each as `dated` has it. Raises StoreError for the first that cannot
    be read."""
    workers = min(available_cores(), len(files))
    if workers < 2 or sum(map(_size, files)) < WORTH_A_PROCESS:
        return [_read(file) for file in files]
    # Not forked: the caller, or a library that it uses, may have threads.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(_read, files))


def _beneath(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _beneath(entry.path)
                elif entry.name.endswith(".jsonl"):
                    yield entry.path
    except OSError:
        return


def _id(file: Path) -> str:
    """As it is shown; empty where the header cannot be used."""
    try:
        return store.header(file).id
    except StoreError:
        return ""


def _size(file: Path) -> int:
    """In bytes; 0 where there is no such file, which reading it then says."""
    try:
        return dated(file)[0].stat().st_size
    except OSError:
        return 0


def _read(file: Path) -> Stored:
    file, day = dated(file)
    run, notices = store.read(file)
    run = of_day(run, day) if day else run
    notes = tuple(f"{notice.file.name}, line {notice.line}: {notice.text}" for notice in notices)
    return Stored(
        file, replace(run, records=()), len(run.records), tuple(results(run)), notes, reference=is_reference(file)
    )
