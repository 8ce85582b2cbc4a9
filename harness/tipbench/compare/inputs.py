"""From the files and folders that a person names to the runs that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tipbench.compare.comparison import Comparison
from tipbench.compare.stored import StoredRun, read_run
from tipbench.errors import UserError
from tipbench.records.store import UnusableFile, folder_name
from tipbench.tip.wording import plain, plural


class CompareError(UserError):
    """The runs cannot be compared; the message says why and what to do."""


def read_comparison(words: Sequence[str]) -> Comparison:
    """The runs that `words` name, in that order. Raises CompareError where they are fewer than two.

    A word is a results file, with @DAY for the sessions of a day, or a folder: of each machine whose files lie in it
    the newest counts. What is left out is noted.
    """
    notes: list[str] = []
    runs: dict[str, StoredRun] = {}
    for stored in (stored for word in words for stored in _runs(Path(word), notes)):
        first = runs.setdefault(stored.run.id, stored)
        if first is not stored:
            other = "" if (first.run, first.results) == (stored.run, stored.results) else ", and other contents"
            notes.append(f"left out: {stored.file.name} has the run id of {first.file.name}{other}")
    if len(runs) < 2:
        left = f" ({'; '.join(map(plain, notes))})" if notes else ""
        raise CompareError(f"{plural(len(runs), 'run')} to compare, and two at least are needed{left}")
    notes += dict.fromkeys(notice for stored in runs.values() for notice in stored.notices)
    return Comparison(tuple(runs.values()), tuple(notes))


def _runs(path: Path, notes: list[str]) -> Iterator[StoredRun]:
    """The run in a file; of the files of one machine in a folder, or in one beneath it, the newest."""
    of_machines: dict[tuple[Path, str], list[StoredRun]] = {}
    for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
        try:
            stored = read_run(file)
            of_machines.setdefault((file.parent, folder_name(stored.run.machine)), []).append(stored)
        except UnusableFile as error:
            notes.append(f"left out: {file.name}{error.problem}")  # without its folders, which are nobody else's
    for (_, machine), runs in of_machines.items():
        newest = max(runs, key=_age)
        yield newest
        if others := ", ".join(stored.file.stem for stored in runs if stored is not newest):
            notes.append(f"{machine}: {newest.file.stem} counts; older, or without a whole job: {others}")


def _age(stored: StoredRun) -> tuple[bool, str]:
    """Runs without a whole job, which answer hardly any tip, count as the oldest."""
    return any(result.scale == "macro" and result.is_measured for result in stored.results), stored.run.started
