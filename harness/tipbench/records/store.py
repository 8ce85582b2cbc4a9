"""Records <-> results/<machine>/<date>-<short id>.jsonl: a header, then the lines of `tipbench.records.lines`.

A machine has one file, which each further run continues as a session; another begins where hardware, torch, controls or
options are other ones.

The file is only ever appended to. Every line is flushed to the disk before anything else starts, so that a killed run
or a lost machine costs at most one launch. Reading drops nothing silently: a `Notice` reports each unusable line.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

from tipbench.errors import UserError
from tipbench.records.fields import MalformedRecord, convert
from tipbench.records.json_line import dump_line, parse_line
from tipbench.records.lines import LinesOfRun, PairKey, StoredPair, new_lines
from tipbench.records.record import Record, Run
from tipbench.tip.wording import lines_of

SCHEMA = 4
"""Version of the format, the only one that is read. If you raise it, convert the stored runs."""

RUN_FILES = "????-??-??-*.jsonl"
"""Pattern of the names of results files; their folder may hold other files."""

TRUNCATED = "truncated: the run was ended while it wrote this line; what it holds is lost"

TWICE = "in the file a second time; what it holds counts once"

EMPTY = " is empty, or half a header: the run ended before it began; delete it and run again"

HEADER = [each.name for each in fields(Run) if each.name not in ("records", "later")]
"""The fields of a run that its first line holds, in order."""


class StoreError(UserError):
    """A results file or folder cannot be used; the message names it and says what to do."""


class UnusableFile(StoreError):
    """A results file cannot be read.

    Attributes:
        problem: rest of the message, after the file's name.
    """

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(f"{file}{problem}")
        self.problem = problem


@dataclass(frozen=True)
class Notice:
    """A line of a results file that could not be used, and what is lost with it.

    Attributes:
        file: the results file.
        line: number of the line, from 1.
        text: what is wrong, and how many further lines have the same fault.
    """

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return lines_of(f"{self.file}, line {self.line}: {self.text}")


@dataclass
class Writer:
    """An open results file. Not to be shared between threads or processes.

    Attributes:
        path: of the file.
        run: id of its run.
        descriptor: of the open file; -1 after `close`.
        stored: what the file holds of each pair.
        notices: what `resume` could not use in the file.
    """

    path: Path
    run: str
    descriptor: int
    stored: dict[PairKey, StoredPair] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    @property
    def saved(self) -> int:
        """Number of pairs in the file that are skipped, failed or have a launch."""
        return sum(pair.record.outcome != "measured" or bool(pair.record.launches) for pair in self.stored.values())

    def begin_session(self, started: str, planned: Sequence[str]) -> None:
        """Write that a further session begins. Raises StoreError."""
        self._put([{"line": "session", "run": self.run, "started": started, "planned": planned}], "the session")

    def append(self, record: Record) -> None:
        """Write whatever of a record the file lacks: its last launch, its memory, or all of it. Return once it is on
        the disk. Raises StoreError."""
        key = record.name, record.info.device
        lines, stored = new_lines(self.run, record, self.stored.get(key))
        if not lines:
            return
        self._put(lines, record.name)
        self.stored[key] = stored

    def _put(self, lines: Sequence[Mapping[str, Any]], what: str) -> None:
        try:
            content = b"".join(map(dump_line, lines))
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(
                f"{what} cannot be stored in {self.path}: {error}; pairs that are safe there: {self.saved}", exit_code=1
            ) from error
        try:
            _write(self.descriptor, content)
        except OSError as error:
            cause = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else _why(error)
            raise StoreError(
                f"{what} could not be written to {self.path}: {cause}. Pairs that are safe there: {self.saved}. "
                "Make room, or give access, then give the same command again: it goes on there",
                exit_code=1,
            ) from error

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def file_name(run: Run) -> str:
    """<YYYY-MM-DD>-<8 characters of the id>, without a suffix; the run's reports have the same name."""
    return f"{_safe(run.started[:10])}-{_safe(run.id[:8])}"


def folder_name(machine: Mapping[str, Any]) -> str:
    """The machine's name as one safe folder name."""
    return _safe(str(machine.get("name", "")))


def create(folder: Path, run: Run) -> Writer:
    """Start a results file under `folder` with the run's header; `run.records` are not written.

    Raises StoreError where the folder cannot be made, or where the file exists already or cannot be written.
    """
    path = folder / folder_name(run.machine) / f"{file_name(run)}.jsonl"
    line = dump_line({"schema": SCHEMA, **{name: getattr(run, name) for name in HEADER}})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
        writer = Writer(path, run.id, _locked(path, os.open(path, flags, 0o666)))
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        _write(writer.descriptor, line)
    except OSError as error:
        writer.close()
        with contextlib.suppress(OSError):  # a headerless file would only puzzle the next reader
            path.unlink()
        raise _unwritable(path, error) from error
    with contextlib.suppress(OSError):  # not every file system can, and the file itself is on the disk
        _sync_folder(path.parent)
    return writer


def resume(path: Path) -> tuple[Run, Writer]:
    """Open a results file to continue its run; `Writer.notices` lists what was wrong with it.

    Cuts off a truncated last line. Other damaged lines stay as they are, and what they held is measured again.
    Raises StoreError as `read` does, and where the file cannot be written.
    """
    header(path)
    try:
        with contextlib.ExitStack() as on_failure:
            descriptor = _locked(path, os.open(path, os.O_RDWR | os.O_APPEND))
            on_failure.callback(os.close, descriptor)
            run, stored, notices = _read(path)
            whole = path.read_bytes().rfind(b"\n") + 1
            if whole < os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, whole)
                os.fsync(descriptor)
            on_failure.pop_all()
    except OSError as error:
        raise StoreError(f"cannot write to {path}: {_why(error)}") from error
    return run, Writer(path, run.id, descriptor, stored, notices)


def _locked(path: Path, descriptor: int) -> int:
    """Lock an open results file until it is closed: two machines that share its folder would each lose the lines of the
    other. Raises StoreError where another run holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreError(f"{path} is being written by another run, perhaps on another machine: wait for it") from None
    except OSError:  # a file system without locks
        pass
    return descriptor


def read(path: Path) -> tuple[Run, list[Notice]]:
    """The run in a results file, with a notice for each line that could not be used.

    Raises StoreError where there is no usable header: the file cannot be opened, is empty or of another schema, or its
    first line is damaged.
    """
    run, _, notices = _read(path)
    return run, notices


def _read(path: Path) -> tuple[Run, dict[PairKey, StoredPair], list[Notice]]:
    with _opened(path) as file:
        lines = file.read().split(b"\n")
    incomplete = lines.pop()
    if not lines:
        raise UnusableFile(path, EMPTY)
    run = _header(path, lines[0])
    of_run = LinesOfRun(run.id)
    remarks: dict[str, list[int]] = {}  # text -> lines
    used: set[bytes] = set()
    for number, line in enumerate(lines[1:], 2):
        try:
            text = TWICE if line in used else of_run.add(parse_line(line))
            used.add(line)
        except ValueError as error:  # MalformedRecord is one
            text = f"not used: {error}"
        if text:
            remarks.setdefault(text, []).append(number)
    if len(lines) == 1:
        remarks["no pair was measured: the file holds a header alone"] = [1]
    if incomplete:
        remarks[TRUNCATED] = [len(lines) + 1]
    notices = [Notice(path, numbers[0], lines_of(text + _more(numbers))) for text, numbers in remarks.items()]
    records = tuple(pair.record for pair in of_run.stored.values())
    planned = dict.fromkeys([*run.planned, *(name for session in of_run.sessions for name in session.planned)])
    later = tuple(session.started for session in of_run.sessions)
    return replace(run, planned=tuple(planned), records=records, later=later), of_run.stored, notices


def _more(numbers: Sequence[int]) -> str:
    further = len(numbers) - 1
    return f"; the same is true of {further} more, up to line {numbers[-1]}" if further else ""


def header(path: Path) -> Run:
    """The run in a results file, without reading its records. Raises StoreError as `read` does."""
    with _opened(path) as file:
        line = file.readline()
    if not line.endswith(b"\n"):
        raise UnusableFile(path, EMPTY)
    return _header(path, line[:-1])


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open for reading. Raises UnusableFile, also for a FIFO or a device, which may never end."""
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):  # opening a folder raises OSError
            raise UnusableFile(path, " cannot be read: not a regular file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise UnusableFile(path, f" cannot be read: {_why(error)}") from error


def _header(path: Path, line: bytes) -> Run:
    advice = "restore the file, or delete it and run again"
    try:
        data = parse_line(line)
    except ValueError as error:
        raise UnusableFile(path, f", line 1: the header is {error}; {advice}") from error
    if (schema := data.get("schema")) != SCHEMA:
        remedy = "update tipbench, or read an older file with the commit of the suite that the file names"
        raise UnusableFile(path, f", line 1: schema {schema!r}; this version of tipbench reads {SCHEMA}: {remedy}")
    try:
        return convert(data, Run)
    except MalformedRecord as error:
        raise UnusableFile(path, f", line 1: the header is damaged ({error}); {advice}") from None


def _write(descriptor: int, line: bytes) -> None:
    """Write the line and sync it; after a failure remove what was written of it, if the disk allows it."""
    before = os.fstat(descriptor).st_size
    try:
        rest = line
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, before)
        raise


def _sync_folder(folder: Path) -> None:
    """Sync a folder: a new file survives a power cut only once its folder is on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> StoreError:
    where = f" ({error.filename})" if error.filename not in (None, str(path)) else ""
    return StoreError(f"cannot write results to {path}: {_why(error)}{where}; name another folder with --results")


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _safe(name: str) -> str:
    """`name` as one path component: no separators, no leading dot, never empty."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.")[:100] or "unnamed"
