"""Which other runs say something of a run: those of its machine, which count in its answers, and those of its kind.

Two runs are of one machine if their headers have an equal fingerprint. A run without one is of nobody's machine, unless
who asks says that such runs are all of this one (`--same-machine`). They are of one kind if hardware and state are
equal by `grade`. A reference run is one that the repository ships: evidence on its kind, and never of a reader's
machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tipbench.records import store
from tipbench.records.listing import REFERENCE, is_reference
from tipbench.records.record import Run
from tipbench.records.store import RUN_FILES, Notice, StoreError
from tipbench.report.grade import SAME, facts, grade
from tipbench.report.kind import OfItsKind

MOST = 9
"""Runs that count beside a run, the latest ones: with ten in all, one more hardly changes an answer, and reading one
takes 0.05 to 0.2 s."""

DAY = len("2026-03-01")


def is_same_machine(left: Run, right: Run, same_machine: bool = False) -> bool:
    """Whether runs are of one machine. same_machine: those without a fingerprint are of the machine in question."""
    if left.fingerprint and right.fingerprint:
        return left.fingerprint == right.fingerprint
    return same_machine


def earlier(file: Path, run: Run, same_machine: bool = False) -> list[Path]:
    """Files beside `file` with runs that began before its run, on the same machine in the same state, oldest first.

    Their headers say so; of a file without a usable one nothing is known, so it does not count.
    """

    def counts(header: Run) -> bool:
        return header.started < run.started and is_same_machine(header, run, same_machine)

    return _latest(file.absolute().parent, run, counts)


def earlier_runs(file: Path, run: Run, same_machine: bool = False, notices: list[Notice] | None = None) -> list[Run]:
    """The runs in those files, oldest first. notices: takes what could not be used in them."""
    return _read(earlier(file, run, same_machine), notices)


def of_its_kind(file: Path, run: Run, same_machine: bool = False, notices: list[Notice] | None = None) -> OfItsKind:
    """Runs of its kind that are not of its machine, or nobody knows: beside `file`, and those that the repository ships
    for that machine's name. notices: as for `earlier_runs`."""
    beside = file.absolute().parent

    def counts(header: Run) -> bool:
        return header.id != run.id and not is_same_machine(header, run, same_machine)

    others = _read(_latest(beside, run, counts), notices)
    if is_reference(file):
        return OfItsKind(reference=tuple(others))
    ids = {run.id, *(other.id for other in others)}
    shipped = _latest(beside.parent / REFERENCE / beside.name, run, lambda header: header.id not in ids)
    return OfItsKind(tuple(_read(shipped, notices)), tuple(others))


def _latest(folder: Path, run: Run, counts: Callable[[Run], bool]) -> list[Path]:
    """Files in a folder with runs of the same kind that count by their headers: the latest MOST, oldest first."""
    facts_of_run = facts(run)
    by_id: dict[str, tuple[str, Path]] = {}
    for path in sorted(folder.glob(RUN_FILES), reverse=True):
        if len(by_id) >= MOST and path.name[:DAY] < sorted(by_id.values())[-MOST][0][:DAY]:
            break  # stored runs are named by their day: all that follow began before
        try:
            header = store.header(path)
        except StoreError:
            continue
        if counts(header) and grade(facts(header), facts_of_run).grade == SAME:
            by_id[header.id] = header.started, path  # a copy is the same run once more
    return [path for _, path in sorted(by_id.values())[-MOST:]]


def _read(files: Sequence[Path], notices: list[Notice] | None) -> list[Run]:
    runs = []
    for file in files:
        run, of_file = store.read(file)
        runs.append(run)
        if notices is not None:
            notices += of_file
    return runs
