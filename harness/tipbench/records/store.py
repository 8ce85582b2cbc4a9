"""Records <-> results/<machine>/<date>-<short id>.jsonl: one header line, then what is learnt, as soon as it is known.

A pair begins with a line of its record, which holds what its checks have found, or why it was skipped or failed. Each
launch is a line of its own after it, and what its memory pass has found is another. A pair that fails in a launch gets
a second line of its record, which replaces what was before.

The file is the truth and is only ever appended to. Every line is flushed to the disk before anything else starts,
so that a killed run or a lost machine costs at most one launch. Reading never drops anything silently: each line
that cannot be used becomes a `Notice`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from tipbench.errors import UserError
from tipbench.records import schema_1
from tipbench.records.fields import Header, MalformedRecord, converted
from tipbench.records.json_line import parsed, written
from tipbench.records.lines import (
    Found,
    NotUsed,
    add_launch,
    add_memory,
    add_record,
    launch,
    launch_line,
    memory,
    memory_line,
)
from tipbench.records.record import Record, Run

SCHEMA = 3
"""Version of the lines written. Raise it when their meaning changes, and keep the old reader and its golden file."""

LOST_RECORD = "record ({}); this pair's measurement"

RUN_FILES = "????-??-??-*.jsonl"
"""The pattern of the names of runs: a folder of results may hold other files."""

HEADER = tuple(Header.__annotations__)
"""The fields of a header, in their order."""


class StoreError(UserError):
    """A results file or folder cannot be used; the message names it and says what to do."""


@dataclass(frozen=True)
class Notice:
    """A line of a results file that could not be used, and what is lost by it."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.text}"


@dataclass
class Writer:
    """An open results file. Not to be shared between threads or processes.

    launches: by the names of the pairs in the file, how many launches of each can be read back; None for a pair that
    takes no more: it was skipped, it failed, or its launches lie in its record's line, as those of complete pairs did
    in older files. notices: what `resume` found wrong with the file.
    """

    path: Path
    descriptor: int
    launches: dict[str, int | None] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)

    @property
    def saved(self) -> int:
        """Pairs in the file that can be read back: one that was begun, and of which nothing was timed, is none."""
        return sum(count != 0 for count in self.launches.values())

    def append(self, record: Record) -> None:
        """Write what of a record the file does not hold yet: its last launch, its memory, or all of it. Waits until
        the disk has it. Raises StoreError."""
        try:
            line = written(self._news(record))
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(
                f"{record.name} cannot be stored in {self.path}: {error}; pairs that are safe there: {self.saved}",
                exit_code=1,
            ) from error
        try:
            _write(self.descriptor, line)
        except OSError as error:
            cause = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else _why(error)
            raise StoreError(
                f"{record.name} could not be written to {self.path}: {cause}. Pairs that are safe there: {self.saved}. "
                f"Make room, or give access, then go on with: {way_on(self.path)}",
                exit_code=1,
            ) from error
        self.launches |= _launches([record])

    def _news(self, record: Record) -> dict[str, Any]:
        """The last launch where there is one more than in the file, the memory where there are as many."""
        before = self.launches.get(record.name)
        if before is None or record.outcome != "measured":
            return record.to_json()
        if before + 1 == len(record.launches):
            return launch_line(record)
        known = any(found.one_off for found in record.variants.values())
        return memory_line(record) if known and before == len(record.launches) else record.to_json()

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
    """<YYYY-MM-DD>-<8 characters of the id>, without an ending. Reports of the run use it too."""
    return f"{_safe(run.started[:10])}-{_safe(run.id[:8])}"


def way_on(path: Path) -> str:
    """The command that goes on with the run in a file."""
    return f"tipbench run --resume {shlex.quote(str(path))}"


def folder_name(machine: Mapping[str, Any]) -> str:
    """The machine's name as one harmless folder name."""
    return _safe(str(machine.get("name", "")))


def create(folder: Path, run: Run) -> Writer:
    """Start a results file under `folder` with the run's header; `run.records` are not written.

    Raises StoreError where the folder cannot be made or the file cannot be written or is there already.
    """
    path = folder / folder_name(run.machine) / f"{file_name(run)}.jsonl"
    header = {"schema": SCHEMA, **{name: getattr(run, name) for name in HEADER}}
    try:
        line = written(header)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"the header of {path} cannot be stored: {error}") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = Writer(path, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644))
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        _write(writer.descriptor, line)
        _sync_folder(path.parent)
    except OSError as error:
        writer.close()
        with contextlib.suppress(OSError):  # a headerless file would only puzzle the next reader
            path.unlink()
        raise _unwritable(path, error) from error
    return writer


def resume(path: Path) -> tuple[Run, Writer]:
    """Open a results file to go on with it; `Writer.notices` says what was wrong with it.

    A truncated last line is cut off. Lines damaged elsewhere stay as they are: their pairs count as not
    measured. Raises StoreError as `read` does, and where the file cannot be written.
    """
    run, notices = read(path)
    try:
        launches = _launches(run.records)
        launches |= dict.fromkeys(name for name in _whole(path) if name in launches)
        writer = Writer(path, os.open(path, os.O_RDWR | os.O_APPEND), launches, notices)
    except OSError as error:
        raise StoreError(f"cannot write to {path}: {_why(error)}") from error
    try:
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            number, line = content.count(b"\n") + 1, content[content.rfind(b"\n") + 1 :]
            if _truncated(line):
                os.ftruncate(writer.descriptor, len(content) - len(line))
                writer.notices = [
                    replace(notice, text=f"{notice.text}; now cut off") if notice.line == number else notice
                    for notice in notices
                ]
            else:  # whole but for its line end: completed, or the next record would be glued to it
                _write(writer.descriptor, b"\n")
            os.fsync(writer.descriptor)
    except OSError as error:
        writer.close()
        raise StoreError(f"cannot write to {path}: {_why(error)}") from error
    return run, writer


def read(path: Path) -> tuple[Run, list[Notice]]:
    """The run in a results file, with a notice for each line that could not be used.

    Raises StoreError where there is no usable header: the file cannot be opened, is empty, is of a
    newer schema, or its first line is damaged.
    """
    try:
        with opened(path) as file:
            lines = file.read().split(b"\n")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {_why(error)}") from error
    truncated = bool(lines[-1])
    if not truncated:
        lines.pop()
    if not lines:
        raise StoreError(f"{path} is empty: the run ended before it began; delete the file and run again")
    run, reader = _header(path, lines[0])
    found: Found = {}
    notices: list[Notice] = []
    for number, line in enumerate(lines[1:], 2):
        try:
            data = parsed(line)
            if "launch" in data:
                add_launch(found, launch(data))
            elif "of" in data:
                add_memory(found, memory(data))
            else:
                add_record(found, number, reader(data))
        except MalformedRecord as error:
            lost = "launch ({}); it" if "launch" in data else "memory ({}); it" if "of" in data else LOST_RECORD
            notices.append(Notice(path, number, f"not a valid {lost.format(error)} is lost"))
        except NotUsed as why:
            notices.append(Notice(path, number, str(why)))
        except ValueError as error:
            if truncated and number == len(lines):
                text = "truncated: the run was ended while it wrote this line; what it holds is lost"
            else:
                text = f"not JSON ({error}); what it held is lost"
            notices.append(Notice(path, number, text))
    return replace(run, records=tuple(record for _, record in found.values())), notices


def _launches(records: Iterable[Record]) -> dict[str, int | None]:
    return {record.name: len(record.launches) if record.outcome == "measured" else None for record in records}


def _whole(path: Path) -> Iterator[str]:
    """The names of the pairs whose launches lie in their record's line."""
    for line in path.read_bytes().splitlines()[1:]:
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a damaged line has its notice already
            data = parsed(line)
            if data["launches"]:
                yield f"{data['info']['tip']['id']}.{data['info']['pair']}"


def newest(folder: Path) -> Path:
    """The results file under `folder` whose run began last. Raises StoreError where there is none."""
    files = sorted(folder.rglob(RUN_FILES))
    if not files:
        raise StoreError(f"no results under {folder}: measure first, with `make bench` or `tipbench run`")
    day = max(file.name[:10] for file in files)
    return max((file for file in files if file.name[:10] == day), key=lambda file: (_started(file), file.name))


def header(path: Path) -> Run:
    """The run in a results file without its records, of which none is read. Raises StoreError as `read` does."""
    try:
        with opened(path) as file:
            line = file.readline()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {_why(error)}") from error
    return _header(path, line.rstrip(b"\n"))[0]


def opened(path: Path) -> BinaryIO:
    """Open for reading. Raises OSError, and StoreError for a FIFO or a device, whose reading may never end."""
    if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):  # of a folder Python says it best
        raise StoreError(f"cannot read {path}: not a regular file")
    return path.open("rb")


def _started(path: Path) -> str:
    """When the run began, for ordering; the day alone where the header cannot be read."""
    try:
        return header(path).started
    except StoreError:
        return path.name[:10]


def _header(path: Path, line: bytes) -> tuple[Run, Callable[[Mapping[str, Any]], Record]]:
    advice = "restore the file, or delete it and run again"
    try:
        data = parsed(line)
    except ValueError as error:
        raise StoreError(f"{path}, line 1: the header is not readable ({error}); {advice}") from error
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise StoreError(f"{path}, line 1: no schema version, so this is no results file of tipbench; {advice}")
    if schema not in READERS:
        raise StoreError(
            f"{path}, line 1: written by a newer tipbench (schema {schema}; this one reads up to {SCHEMA}); "
            "update tipbench, or read it with the version that wrote it"
        )
    try:
        converted(data, Header)
    except MalformedRecord as error:
        raise StoreError(f"{path}, line 1: the header is damaged ({error}); {advice}") from None
    found = {name: data[name] for name in HEADER}
    return Run(**{**found, "planned": tuple(data["planned"])}), READERS[schema]


READERS: dict[int, Callable[[Mapping[str, Any]], Record]] = {
    1: schema_1.record,
    2: Record.from_json,
    3: Record.from_json,
}


def _truncated(line: bytes) -> bool:
    """Whether the line breaks off: no beginning of a JSON object is itself one."""
    try:
        parsed(line)
    except ValueError:
        return True
    return False


def _write(descriptor: int, line: bytes) -> None:
    """Write the line and sync it; on failure take a half-written one back, as far as the disk allows."""
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
    """A new file survives a power cut only once its folder is on the disk too."""
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
