"""Which other runs count in a run's answers: those beside its file, if hardware and state are equal by `grade`.

A folder is for one machine: keep runs of another one that is alike in another folder (`--results`).
"""

from __future__ import annotations

from pathlib import Path

from tipbench.records import store
from tipbench.records.record import Run
from tipbench.records.store import RUN_FILES, Notice, StoreError
from tipbench.report.grade import SAME, facts, grade

MOST = 9
"""Runs that count beside a run, the latest ones: with ten in all, one more hardly changes an answer, and reading one
takes 0.05 to 0.2 s."""

DAY = len("2026-03-01")


def earlier(file: Path, run: Run) -> list[Path]:
    """Files beside `file` with runs that began before its run, on the same machine in the same state: the latest MOST,
    oldest first.

    Their headers say so; of a file without a usable one nothing is known, so it does not count.
    """
    facts_of_run = facts(run)
    by_id: dict[str, tuple[str, Path]] = {}
    for path in sorted(file.absolute().parent.glob(RUN_FILES), reverse=True):
        if len(by_id) >= MOST and path.name[:DAY] < sorted(by_id.values())[-MOST][0][:DAY]:
            break  # stored runs are named by their day: all that follow began before
        try:
            header = store.header(path)
        except StoreError:
            continue
        if header.started < run.started and grade(facts(header), facts_of_run).grade == SAME:
            by_id[header.id] = header.started, path  # a copy is the same run once more
    return [path for _, path in sorted(by_id.values())[-MOST:]]


def earlier_runs(file: Path, run: Run, notices: list[Notice] | None = None) -> list[Run]:
    """The runs in those files, oldest first. notices: takes what could not be used in them."""
    runs = []
    for path in earlier(file, run):
        run, of_file = store.read(path)
        runs.append(run)
        if notices is not None:
            notices += of_file
    return runs
