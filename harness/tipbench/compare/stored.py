"""Stored runs as a comparison needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tipbench.records import store
from tipbench.records.record import Run
from tipbench.records.store import Notice, UnusableFile
from tipbench.report.result import Result
from tipbench.report.results import results


@dataclass(frozen=True)
class StoredRun:
    """A run as far as it is compared.

    Attributes:
        file: where it is stored.
        run: without its records.
        results: the run's.
        notices: what could not be used in the file.
        nodes: of a kind of a fleet, the names of its nodes.
    """

    file: Path
    run: Run
    results: tuple[Result, ...]
    notices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


def split_day(file: Path) -> tuple[Path, str]:
    """(The results file, the day of its sessions) that `FILE@DAY` names; "" for all days."""
    name, of_file, day = file.name.partition(".jsonl@")
    return (file.with_name(f"{name}.jsonl"), day) if of_file else (file, "")


def sessions_of_day(file: Path, run: Run, day: str) -> Run:
    """The run as far as the sessions that began on a day timed its pairs. Raises UnusableFile if none did."""
    numbers = {number: began for number, began in enumerate((run.started, *run.later)) if began.startswith(day)}
    records = []
    for record in run.records:
        launches = tuple(launch for launch in record.launches if launch.session in numbers)
        if launches or not record.launches:
            records.append(replace(record, launches=launches))
    if not any(record.launches for record in records):
        days = ", ".join(dict.fromkeys(began[:10] for began in (run.started, *run.later)))
        raise UnusableFile(file, f" has no session of {day} that timed a pair, but of {days}")
    return replace(run, id=f"{run.id[:8]}@{day}", started=min(numbers.values()), later=(), records=tuple(records))


def read_run(file: Path) -> StoredRun:
    """What is compared of the run in a file, as `split_day` has it. Raises UnusableFile, also for a run without a
    finished pair."""
    file, day = split_day(file)
    run, notices = store.read(file)
    if not run.records:
        raise UnusableFile(file, " holds no finished pair: go on with it by `tipbench run`, or leave it out")
    return stored_run(file, sessions_of_day(file, run, day) if day else run, notices)


def stored_run(file: Path, run: Run, notices: Sequence[Notice]) -> StoredRun:
    notes = tuple(f"{notice.file.name}, line {notice.line}: {notice.text}" for notice in notices)
    return StoredRun(file, replace(run, records=()), tuple(results(run)), notes)
