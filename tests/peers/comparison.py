"""What a tool answered on a case, and the file that holds the answers: a header line, then one line a comparison."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

SCHEMA = 1

ONE_RUN = ("machine", "versions", "seed")
"""What all comparisons of one file share: a table over two machines or two versions would compare nothing."""


class UnusableFile(ValueError):
    """The file of comparisons cannot be read or continued; the message says what to do."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answers on a case.

    Attributes:
        seconds: wall time of the tool's commands that count, processes' start included.
        speedup: by the tool's statistic, the ratio that it measured.
        decisions: by the name of a rule of the tool's own, faster, slower, or any other word for neither.
        interval: (low, high) of the speedup, if the tool gives one.
        numbers: the tool's own.
    """

    seconds: float
    speedup: Mapping[str, float]
    decisions: Mapping[str, str] = msgspec.field(default_factory=dict, name="said")
    interval: tuple[float, float] | None = None
    numbers: Mapping[str, Any] = msgspec.field(default_factory=dict, name="behind")


class Comparison(Answer, frozen=True, kw_only=True):
    """One tool's answer on one case.

    Attributes:
        truth: t_baseline / t_optimized as planted, 1.0 for identical code.
    """

    tool: str
    case: str
    repetition: int
    truth: float

    @property
    def key(self) -> tuple[str, str, int]:
        return self.tool, self.case, self.repetition


def begin(path: Path, header: Mapping[str, Any]) -> list[Comparison]:
    """Begin or continue the file: what it holds already. A truncated last line is removed. Raises UnusableFile."""
    if not path.exists() or not path.stat().st_size:
        append(path, {"schema": SCHEMA, **header})
        return []
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if 0 < whole < len(content):
        os.truncate(path, whole)
    before, comparisons = read(path)
    for name in ONE_RUN:
        if before.get(name) != header[name]:
            raise UnusableFile(
                f"{path} was begun with {name} {before.get(name)}; here it is {header[name]}. Name another file"
            )
    return comparisons


def append(path: Path, line: Comparison | Mapping[str, Any]) -> None:
    """Write one line and wait until the disk has it."""
    try:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UnusableFile(f"cannot write to {path}: {error.strerror}; name another file with --out") from None


def read(path: Path) -> tuple[dict[str, Any], list[Comparison]]:
    """(header, comparisons). Raises UnusableFile."""
    try:
        first, *lines = path.read_bytes().splitlines()
        header = json.loads(first)
        if header["schema"] != SCHEMA:
            raise ValueError(f"schema {header['schema']}; this is {SCHEMA}")
        return header, [msgspec.json.decode(line, type=Comparison) for line in lines]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UnusableFile(
            f"{path} is no file of `python -m tests.peers` ({error}); delete it or name another"
        ) from None
