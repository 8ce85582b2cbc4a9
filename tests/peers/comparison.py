"""What a tool answered on a case, and the file that holds the answers: a header line, then one line a comparison."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1

ONE_RUN = ("machine", "versions", "seed")
"""What all comparisons of one file share: a table over two machines or two versions would compare nothing."""


class UnusableFile(ValueError):
    """The file of comparisons cannot be read or gone on with; the message says what to do."""


@dataclass(frozen=True)
class Comparison:
    """One tool's answer on one case.

    truth: t_baseline / t_optimized as planted, 1.0 for identical code. seconds: wall time of the tool's
    commands, processes' start included. speedup: by the tool's statistic, the ratio it measured. said: by
    the name of a rule of its own, what the tool decided: faster, slower, or any other word for neither.
    interval: (low, high) of the speedup, where the tool gives one. behind: the tool's own numbers.
    """

    tool: str
    case: str
    repetition: int
    truth: float
    seconds: float
    speedup: Mapping[str, float]
    said: Mapping[str, str] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    behind: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.tool, self.case, self.repetition


def begin(path: Path, header: Mapping[str, Any]) -> list[Comparison]:
    """Begin the file, or go on: what it holds already. A truncated last line is removed. Raises UnusableFile."""
    if not path.exists() or not path.stat().st_size:
        _append(path, {"schema": SCHEMA, **header})
        return []
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if 0 < whole < len(content):
        os.truncate(path, whole)
    before, done = read(path)
    for name in ONE_RUN:
        if before.get(name) != header[name]:
            raise UnusableFile(
                f"{path} was begun with {name} {before.get(name)}; here it is {header[name]}. Name another file"
            )
    return done


def append(path: Path, comparison: Comparison) -> None:
    """Write one comparison and wait until the disk has it."""
    _append(path, asdict(comparison))


def read(path: Path) -> tuple[dict[str, Any], list[Comparison]]:
    """(header, comparisons). Raises UnusableFile, naming the line."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableFile(f"cannot read {path}: {error}") from None
    number, comparisons = 1, []
    try:
        header = json.loads(lines[0])
        if header["schema"] != SCHEMA:
            raise ValueError(f"schema {header['schema']}; this is {SCHEMA}")
        for number, line in enumerate(lines[1:], 2):  # noqa: B007 (told below)
            fields = json.loads(line)
            interval = fields.pop("interval")
            comparisons.append(Comparison(**fields, interval=interval and (interval[0], interval[1])))
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise UnusableFile(
            f"{path}, line {number}: no line of `python -m tests.peers` ({error}); delete it or name another file"
        ) from None
    return header, comparisons


def _append(path: Path, line: Mapping[str, Any]) -> None:
    try:
        with path.open("a") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UnusableFile(f"cannot write to {path}: {error.strerror}; name another file with --out") from None
