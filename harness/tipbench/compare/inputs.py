"""From what a person names (files, folders, ids of runs) to the runs that are compared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tipbench.compare.comparison import Comparison
from tipbench.compare.stored import StoredRun, beginning, read_run, results_files, split_day
from tipbench.errors import UserError
from tipbench.records.store import UnusableFile, header
from tipbench.tip.wording import plain, plural

LEAST_RUNS, MOST_RUNS = 2, 50
"""Runs in a comparison."""

SHORTEST = 4
"""Characters of an id that name a run."""


class CompareError(UserError):
    """The runs cannot be compared as asked; the message says why and what to do."""


def read_comparison(words: Sequence[str], results: Path = Path("results")) -> Comparison:
    """The runs named by `words`, in that order. Raises CompareError and StoreError.

    A word is a results file, with @DAY for the sessions of a day, a folder (all runs beneath it) or the beginning of
    the id or file name of a run beneath `results`. In a folder a file that cannot be used is left out with a note; one
    that was named must be usable. Nothing is left out silently.
    """
    notes: list[str] = []
    by_id = _by_id([word for word in words if not _is_path(word)], results)
    files: dict[Path, bool] = {}  # whether the file itself was named
    for word in words:
        path = Path(word)
        if path.is_dir():
            for file in results_files(_absolute(path)):
                files.setdefault(file, False)
            continue
        file = by_id[word] if word in by_id else _absolute(path)
        if files.get(file):
            notes.append(f"{file.name} is named twice and counts once")
        files[file] = True
    usable = _usable(files, notes)
    if len(usable) > MOST_RUNS:
        where = " ".join(words)
        raise CompareError(
            f"{plural(len(usable), 'run')} in {plain(where)}, and {MOST_RUNS} at most are compared: name files, "
            "folders of single machines, or ids of runs"
        )
    runs = _distinct(_finished([read_run(file) for file in usable], files, notes), notes)
    if len(runs) < LEAST_RUNS:
        left = f" ({'; '.join(map(plain, notes))})" if notes else ""
        raise CompareError(f"{plural(len(runs), 'run')} to compare, and two at least are needed{left}")
    notes += dict.fromkeys(notice for stored in runs for notice in stored.notices)
    return Comparison(tuple(runs), tuple(notes))


def _absolute(path: Path) -> Path:
    """With all links followed, but for one to itself: `Path.resolve` raises a RuntimeError for that."""
    return Path(os.path.realpath(path))


def _is_path(word: str) -> bool:
    return split_day(Path(word))[0].suffix == ".jsonl" or os.path.lexists(word)


def _by_id(words: Sequence[str], results: Path) -> dict[str, Path]:
    """The one file beneath `results` that each word begins the id or the name of."""
    files = results_files(_absolute(results)) if words else []
    by_id = {}
    for word in words:
        matches = beginning(word, files) if len(word) >= SHORTEST else []
        if not matches:
            short = f"; an id is named by {SHORTEST} characters at least" if len(word) < SHORTEST else ""
            raise CompareError(f"{plain(word)!r} is no file, no folder, and no run's id beneath {results}{short}")
        if len(matches) > 1:
            few = ", ".join(file.name for file in matches[:5]) + ", ..." * (len(matches) > 5)
            many = plural(len(matches), "run")
            raise CompareError(f"{plain(word)!r} is the beginning of {many}: {plain(few)}; type more of it")
        by_id[word] = matches[0]
    return by_id


def _usable(files: dict[Path, bool], notes: list[str]) -> list[Path]:
    """The files with a header. Raises UnusableFile for one without that was named; others are noted."""
    usable = []
    for file, named in files.items():
        try:
            header(split_day(file)[0])
        except UnusableFile as error:
            if named:
                raise
            notes.append(f"left out: {file.name}{error.problem}")  # without its folders, which are nobody else's
        else:
            usable.append(file)
    return usable


def _finished(runs: Sequence[StoredRun], files: dict[Path, bool], notes: list[str]) -> list[StoredRun]:
    for stored in runs:
        if stored.records:
            continue
        problem = "holds no finished pair"
        if files[stored.file]:
            raise CompareError(f"{stored.file} {problem}: go on with it by `tipbench run`, or leave it out")
        notes.append(f"left out: {stored.file.name} {problem}")
    return [stored for stored in runs if stored.records]


def _distinct(runs: Sequence[StoredRun], notes: list[str]) -> list[StoredRun]:
    """Each run once; copies with the same content are noted. Raises CompareError where they differ."""
    first: dict[str, StoredRun] = {}
    for stored in runs:
        earlier = first.setdefault(stored.run.id, stored)
        if earlier is stored:
            continue
        if (earlier.run, earlier.results) != (stored.run, stored.results):
            raise CompareError(
                f"two files with the run id {plain(stored.run.id)} and different contents: {earlier.file} and "
                f"{stored.file}; leave one out"
            )
        notes.append(f"{stored.file.name} is a copy of {earlier.file.name} and counts once")
    return list(first.values())
