"""The lines of a results file after its header: pairs, launches and memory, each with its run and pair, and sessions.

Lines are appended and never changed, so a later one continues those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import msgspec

from tipbench.records.fields import MalformedRecord, Number, Positive, convert
from tipbench.records.record import Launch, Record, VariantRecord

PairKey = tuple[str, str]
"""A pair's name and its device."""


class Line(msgspec.Struct, tag_field="line", frozen=True, kw_only=True):
    """The fields that every line has.

    Attributes:
        run: id of the run, from its header.
        pair: name of the pair.
        device: "cpu" or "cuda".
        version: of the pair's record, from 1. A pair that is measured anew, or fails after its first line, gets the
            next version; only the latest counts, with the launches and memory of that version.
    """

    run: str
    pair: str
    device: str
    version: Positive

    @property
    def of(self) -> PairKey:
        return self.pair, self.device


class SessionLine(msgspec.Struct, tag_field="line", tag="session", frozen=True, kw_only=True):
    """A further invocation that measures into the file.

    Attributes:
        run: id of the run, from its header.
        started: date and time, ISO 8601.
        planned: names of the pairs that it is to measure, in order.
    """

    run: str
    started: str
    planned: tuple[str, ...]


class PairLine(Line, tag="pair", frozen=True, kw_only=True):
    """A pair after its checks, or the reason why it was skipped or failed.

    Attributes:
        record: without launches.
    """

    record: Record


class LaunchLine(Line, tag="launch", frozen=True, kw_only=True):
    """A launch.

    Attributes:
        steps: consecutive steps in each block.
        wall_s: seconds spent on the pair so far.
    """

    steps: Positive
    wall_s: Number
    launch: Launch


class MemoryLine(Line, tag="memory", frozen=True, kw_only=True):
    """A pair's variants after their memory was measured.

    Attributes:
        wall_s: seconds spent on the pair so far.
        variants: all variants of the pair, by name; they replace those of the record, and of earlier such lines.
    """

    wall_s: Number
    variants: dict[str, VariantRecord]


AnyLine = SessionLine | PairLine | LaunchLine | MemoryLine


class StoredPair(NamedTuple):
    """What a file holds of one pair on one device: its record, as `read` returns it, of the latest version."""

    record: Record
    version: int


def new_lines(run: str, record: Record, before: StoredPair | None) -> tuple[list[dict[str, Any]], StoredPair]:
    """(The lines to write for a record, what the file holds of the pair afterwards). before: what it holds now."""
    if before is not None and record == before.record:
        return [], before
    if before is not None and _continues(record, before.record):
        lines, version, held = [], before.version, before.record
    else:
        version, held = before.version + 1 if before else 1, replace(record, steps=0, launches=())
        begun = asdict(held)
        del begun["steps"], begun["launches"]
        lines = [_line("pair", run, record, version, record=begun)]
    for launch in record.launches[len(held.launches) :]:
        more = {"steps": record.steps, "wall_s": record.wall_s, "launch": asdict(launch)}
        lines.append(_line("launch", run, record, version, **more))
    if record.variants != held.variants:
        variants = {name: asdict(variant) for name, variant in record.variants.items()}
        lines.append(_line("memory", run, record, version, wall_s=record.wall_s, variants=variants))
    return lines, StoredPair(record, version)


def _continues(record: Record, earlier: Record) -> bool:
    """Whether a record equals what the file holds, apart from further launches and its memory."""
    return (
        record.outcome == earlier.outcome == "measured"
        and record.info == earlier.info
        and record.launches[: len(earlier.launches)] == earlier.launches
    )


def _line(kind: str, run: str, of: Record, version: int, **more: Any) -> dict[str, Any]:
    return {"line": kind, "run": run, "pair": of.name, "device": of.info.device, "version": version, **more}


class LinesOfRun:
    """The lines of one run, each added to those before it.

    Attributes:
        run: id of the run.
        sessions: those after the first.
        stored: what the lines hold of each pair, in the order in which the pairs were begun.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.sessions: list[SessionLine] = []
        self.stored: dict[PairKey, StoredPair] = {}

    def add(self, data: Mapping[str, Any]) -> str:
        """Add a parsed line. Returns what is to be said of it. Raises MalformedRecord for one that cannot be used."""
        line: AnyLine = convert(data, AnyLine)  # type: ignore[arg-type]
        if line.run != self.run:
            raise MalformedRecord(f"it is of another run than {self.run[:8]}")
        if isinstance(line, SessionLine):
            self.sessions.append(line)
            return ""
        before = self.stored.get(line.of)
        if isinstance(line, PairLine):
            return self._begin(line, before)
        if before is None or line.version > before.version:
            raise MalformedRecord("the line that begins its pair is missing")
        if line.version == before.version:
            self.stored[line.of] = StoredPair(_continued(before.record, line), line.version)
        return ""

    def _begin(self, line: PairLine, before: StoredPair | None) -> str:
        if before and line.version <= before.version:
            raise MalformedRecord("its pair was begun anew by an earlier line")
        self.stored.pop(line.of, None)
        self.stored[line.of] = StoredPair(line.record, line.version)
        anew = before is not None and before.record.launches and line.record.outcome == "measured"
        return f"{line.pair} was begun anew; what was timed before is not used" if anew else ""


def _continued(record: Record, line: LaunchLine | MemoryLine) -> Record:
    record = replace(record, wall_s=max(record.wall_s, line.wall_s))
    if isinstance(line, LaunchLine):
        if not line.launch.is_whole:
            raise MalformedRecord("a launch needs blocks of the baseline and of another variant, and all columns alike")
        return replace(record, launches=(*record.launches, line.launch), steps=line.steps)
    return replace(record, variants=line.variants)
