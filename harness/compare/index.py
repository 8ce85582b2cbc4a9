"""An index of stored runs, made from their files and never the truth: it can be deleted at any time.

It holds each file's header as soon as the file was seen, and what was derived from its records as soon as a
comparison asked for that. A file is read anew when its size or time of change is another. It lies in the cache
folder of the account, so that folders of results hold nothing but results and may be read-only.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from platformdirs import user_cache_path

import tipbench
from tipbench.compare.effect import Effect, effects, readable
from tipbench.records import store
from tipbench.records.record import Run
from tipbench.records.store import StoreError
from tipbench.tip.needs import available_cores

DERIVED_BY = (
    "records/fields.py", "records/json_line.py", "records/record.py", "records/store.py", "verdict/statistics.py",
    "verdict/verdict.py", "report/advice.py", "report/rows.py", "compare/effect.py", "compare/index.py",
)  # fmt: skip
"""The modules that what is stored here follows from: an index made by others is made anew."""

TYPES = {"str": "VARCHAR", "int": "BIGINT", "float | None": "DOUBLE", "int | None": "BIGINT"}

PATIENCE_S = 2.0
"""How long a comparison waits for another one that has the index open, before it goes without."""

WORTH_A_PROCESS = 8 << 20
"""Bytes to be read from which on further processes are started for it: each needs half a second to begin."""

FILES = {"path": "VARCHAR", "size": "BIGINT", "changed": "BIGINT"}
RUNS = {**FILES, "id": "VARCHAR", "header": "VARCHAR", "derived": "BOOLEAN", "records": "BIGINT", "notices": "VARCHAR"}
"""Of each file: its size and time of change (ns) when it was read; the run's id; its header as JSON; whether its
effects are here, from how many records, and with which notices (JSON)."""

UNREAD = (False, 0, "[]")
"""The last three of RUNS, before a comparison asked for the run."""

Answer = TypeVar("Answer")

Stat = tuple[int, int]
"""Size in bytes, time of change in ns."""


@dataclass(frozen=True)
class Stored:
    """A run as far as it is compared. run: without its records. records: how many the file holds.
    notices: what in the file could not be used."""

    file: Path
    run: Run
    records: int
    effects: tuple[Effect, ...]
    notices: tuple[str, ...]


class Index:
    """Not to be shared between threads."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database

    def scan(self, folder: Path) -> dict[str, str]:
        """The paths of all runs' files beneath a folder by what the index calls them, sorted; what else is known of
        the folder is forgotten."""
        stats = dict(sorted(_beneath(str(folder))))
        names = {name_of(path): path for path in stats}
        known = self._known("starts_with(path, $1)", f"{name_of(folder)}{os.sep}")
        self._refresh(stats, known, [path for path in known if path not in names])
        return names

    def headers(self, files: Iterable[Path]) -> dict[Path, Run]:
        """The runs in these files, without records; files without a usable header are left out."""
        stats = _stats(files)
        self._refresh(stats, self._known("path IN (SELECT unnest($1::VARCHAR[]))", list(map(name_of, stats))))
        found = {path: header for path, header in self._select("path, header", "runs", stats) if header}
        return {Path(path): _run(json.loads(found[name_of(path)])) for path in stats if name_of(path) in found}

    def beginning(self, words: Sequence[str], folder: Path) -> dict[str, list[str]]:
        """By word what the index calls the files, beneath a scanned folder, whose run's id or whose own name begins
        so."""
        self._database.execute(
            "SELECT word, path FROM (SELECT unnest($2::VARCHAR[]) AS word), "
            "(SELECT path, id, parse_filename(path) AS name FROM runs WHERE starts_with(path, $1)) "
            "WHERE starts_with(id, word) OR starts_with(name, word) ORDER BY path",
            [f"{name_of(folder)}{os.sep}", list(dict.fromkeys(words))],
        )
        found: dict[str, list[str]] = {}
        for word, path in self._database.fetchall():
            found.setdefault(word, []).append(path)
        return found

    def read(self, files: Sequence[Path]) -> list[Stored]:
        """What is compared of these runs. Raises StoreError for the first that cannot be read."""
        stats = _stats(files)
        self._refresh(stats, self._known("path IN (SELECT unnest($1::VARCHAR[]))", list(map(name_of, stats))))
        derived = {path for path, is_derived in self._select("path, derived", "runs", stats) if is_derived}
        made = _derive([path for path in files if name_of(path) not in derived], stats)
        self._keep(made, stats)
        kept = self._kept([path for path in files if path not in made])
        return [made[path] if path in made else kept[path] for path in files]

    def _known(self, where: str, value: Any) -> dict[str, Stat]:
        self._database.execute(f"SELECT path, size, changed FROM runs WHERE {where}", [value])
        return {path: (size, changed) for path, size, changed in self._database.fetchall()}

    def _select(self, columns: str, table: str, files: Iterable[Path | str], order: str = "path") -> list[Any]:
        chosen = f"path IN (SELECT unnest($1::VARCHAR[])) ORDER BY {order}"
        self._database.execute(f"SELECT {columns} FROM {table} WHERE {chosen}", [list(map(name_of, files))])
        return self._database.fetchall()

    def _refresh(self, stats: Mapping[str, Stat], known: Mapping[str, Stat], gone: Sequence[str] = ()) -> None:
        new = [path for path, stat in stats.items() if known.get(name_of(path)) != stat]
        if not new and not gone:
            return
        found = [_header(path) for path in new]
        rows = [
            (
                name_of(path),
                *stats[path],
                readable(run.id) if run else "",
                json.dumps(_facts(run)) if run else "",
                False,
                0,
                "[]",
            )
            for path, run in zip(new, found, strict=True)
        ]
        with _transaction(self._database):
            self._forget([*gone, *map(name_of, new)])
            _insert(self._database, "runs", RUNS, rows)

    def _forget(self, paths: Sequence[str]) -> None:
        for table in ("runs", "effects"):
            self._database.execute(f"DELETE FROM {table} WHERE path IN (SELECT unnest($1::VARCHAR[]))", [list(paths)])

    def _keep(self, made: Mapping[Path, Stored], stats: Mapping[str, Stat]) -> None:
        if not made:
            return
        runs, rows = [], []
        for path, found in made.items():
            header, notices = json.dumps(_facts(found.run)), json.dumps(found.notices)
            runs.append(
                (name_of(path), *stats[str(path)], readable(found.run.id), header, True, found.records, notices)
            )
            rows += [(name_of(path), place, *astuple(effect)) for place, effect in enumerate(found.effects)]
        with _transaction(self._database):
            self._forget(list(map(name_of, made)))
            _insert(self._database, "runs", RUNS, runs)
            _insert(self._database, "effects", _effect_columns(), rows)

    def _kept(self, files: Sequence[Path]) -> dict[Path, Stored]:
        columns = ", ".join(f'"{field.name}"' for field in fields(Effect))
        by_path: dict[str, list[Effect]] = {}
        for path, *values in self._select(f"path, {columns}", "effects", files, "path, place"):
            by_path.setdefault(path, []).append(Effect(*values))
        runs = {path: rest for path, *rest in self._select("path, header, records, notices", "runs", files)}
        found = {}
        for path in files:
            header, records, notices = runs[name_of(path)]
            effects_of = tuple(by_path.get(name_of(path), ()))
            found[path] = Stored(path, _run(json.loads(header)), records, effects_of, tuple(json.loads(notices)))
        return found


def consult(ask: Callable[[Index], Answer], place: Path | None = None) -> tuple[Answer, list[str]]:
    """What `ask` returns, with notes on the index at `place` (by default that of the account).

    An index that is damaged or of another version is made anew. Where it cannot be kept (a read-only cache, a
    full disk, another comparison that has it open) it is made in memory for this time. Raises what `ask` raises.
    """
    place = place or default_place()
    database, notes = _connect(place)
    try:
        index = Index(database)
        return ask(index), notes
    except duckdb.Error:
        notes.append(f"the index {place} could not be used and is deleted: nothing is lost by that")
    finally:
        database.close()
    _delete(place)
    database = _prepared(duckdb.connect())
    try:
        return ask(Index(database)), notes
    finally:
        database.close()


def default_place() -> Path:
    """`runs.duckdb` in the user's cache folder, on Linux `$XDG_CACHE_HOME/tipbench` or `~/.cache/tipbench`."""
    return user_cache_path("tipbench") / "runs.duckdb"


def _connect(place: Path) -> tuple[duckdb.DuckDBPyConnection, list[str]]:
    until = time.monotonic() + PATIENCE_S
    notes: list[str] = []
    while True:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            return _prepared(duckdb.connect(str(place))), notes
        except OSError:
            break
        except duckdb.Error as error:
            if "lock" in str(error).lower():
                if time.monotonic() > until:
                    break
                time.sleep(0.05)
            elif notes or not _replaceable(place):
                break
            else:
                notes = [f"the index {place} was damaged and is made anew: nothing is lost by that"]
                _delete(place)
    return _prepared(duckdb.connect()), notes


def _delete(place: Path) -> None:
    for path in (place, Path(f"{place}.wal")):
        with suppress(OSError):
            path.unlink()


def _replaceable(place: Path) -> bool:
    """Whether there is a file that we may replace; else its folder is read-only or the disk is full."""
    return place.is_file() and os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)


def _prepared(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """With the tables of this version; emptied if another version made them."""
    try:
        made_by = _version()
        database.execute("CREATE TABLE IF NOT EXISTS version (made_by VARCHAR)")
        if database.execute("SELECT made_by FROM version").fetchall() != [(made_by,)]:
            with _transaction(database):
                for table, columns in (("runs", RUNS), ("effects", _effect_columns())):
                    declared = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
                    database.execute(f"DROP TABLE IF EXISTS {table}")
                    database.execute(f"CREATE TABLE {table} ({declared})")
                database.execute("DELETE FROM version")
                database.execute("INSERT INTO version VALUES ($1)", [made_by])
        return database
    except BaseException:
        database.close()
        raise


def _version() -> str:
    root = Path(tipbench.__file__).parent
    return hashlib.sha256(b"".join((root / name).read_bytes() for name in DERIVED_BY)).hexdigest()


@contextmanager
def _transaction(database: duckdb.DuckDBPyConnection) -> Iterator[None]:
    database.execute("BEGIN")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _effect_columns() -> dict[str, str]:
    return {"path": "VARCHAR", "place": "BIGINT", **{field.name: TYPES[str(field.type)] for field in fields(Effect)}}


def _insert(database: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], rows: Sequence[Any]) -> None:
    """All rows in one statement, a list a column: row by row DuckDB takes a third of a millisecond each."""
    if rows:
        listed = ", ".join(f"unnest(${number}::{kind}[])" for number, kind in enumerate(columns.values(), 1))
        database.execute(f"INSERT INTO {table} SELECT {listed}", [list(column) for column in zip(*rows, strict=True)])


def _beneath(folder: str) -> Iterator[tuple[str, Stat]]:
    """Path, size and time of change of every results file; one `stat` each is what ten thousand allow."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _beneath(entry.path)
                elif entry.name.endswith(".jsonl") and not entry.name.startswith(store.CALIBRATION):
                    yield entry.path, _stat(entry)
    except OSError:
        return


def _stat(entry: os.DirEntry[str]) -> Stat:
    """(-1, 0) of a link to nowhere or to itself: it is in the folder, and `store.read` says what is wrong with it."""
    try:
        found = entry.stat()
    except OSError:
        return (-1, 0)
    return (found.st_size, found.st_mtime_ns)


def _stats(files: Iterable[Path]) -> dict[str, Stat]:
    """Of those that are there, in the order given."""
    found = {}
    for path in files:
        with suppress(OSError):
            stat = path.stat()
            found[str(path)] = (stat.st_size, stat.st_mtime_ns)
    return found


def name_of(path: Path | str) -> str:
    """The path as the index has it: file names need not be Unicode, what a database holds must."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _header(path: str) -> Run | None:
    """None where there is none that can be used. `store.read` says then what is wrong."""
    try:
        return store.header(Path(path))
    except StoreError:
        return None


def _run(header: Mapping[str, Any]) -> Run:
    return Run(**{**header, "planned": tuple(header["planned"])})


def _facts(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in store.HEADER}


def _derive(files: Sequence[Path], stats: Mapping[str, Stat]) -> dict[Path, Stored]:
    size = sum(stats[str(path)][0] for path in files if str(path) in stats)
    workers = min(available_cores(), len(files))
    if size < WORTH_A_PROCESS or workers < 2:
        return {path: _read(path) for path in files}
    # Not forked: DuckDB has threads of its own.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        return dict(zip(files, pool.map(_read, files), strict=True))


def _read(path: Path) -> Stored:
    run, notices = store.read(path)
    notes = tuple(f"{notice.file.name}, line {notice.line}: {notice.text}" for notice in notices)
    return Stored(path, replace(run, records=()), len(run.records), tuple(effects(run)), notes)
