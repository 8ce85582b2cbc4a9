"""The lines of a results file after its header: pairs, launches and memory, each with its run and pair, and sessions.

Lines are appended and never changed, so a later one continues those before it. A line that is in the file twice counts
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from tipbench.records.fields import MalformedRecord, Number, Positive, convert
from tipbench.records.record import Launch, Record, VariantRecord, check_launch, check_variants

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
        launch_number: counts the launches of this version from 1.
        steps: consecutive steps in each block.
        wall_s: seconds spent on the pair so far.
    """

    launch_number: Positive
    steps: Positive
    wall_s: Number
    launch: Launch


class MemoryLine(Line, tag="memory", frozen=True, kw_only=True):
    """A pair's variants after their memory was measured.

    Attributes:
        memory_number: counts the memory lines of this version from 1; only the last is used.
        wall_s: seconds spent on the pair so far.
        variants: all variants of the pair, by name; they replace those of the record.
    """

    memory_number: Positive
    wall_s: Number
    variants: dict[str, VariantRecord]


AnyLine = SessionLine | PairLine | LaunchLine | MemoryLine

TWICE = "in the file a second time; what it holds counts once"


@dataclass
class StoredPair:
    """What a file holds of one pair on one device.

    Attributes:
        record: the pair's record as `read` returns it.
        version: the latest version.
        launches: highest launch number of this version.
        memories: highest number of a memory line of this version.
    """

    record: Record
    version: int
    launches: int = 0
    memories: int = 0


def new_lines(run: str, record: Record, before: StoredPair | None) -> tuple[list[dict[str, Any]], StoredPair]:
    """(The lines to write for a record, what the file holds of the pair afterwards). before: what it holds now."""
    if before is not None and record == before.record:
        return [], before
    if before is None or not _continues(record, before):
        version = before.version + 1 if before else 1
        begun = asdict(replace(record, steps=0, launches=()))
        del begun["steps"], begun["launches"]
        lines = [_line("pair", run, record, version, record=begun)]
        stored = StoredPair(replace(record, launches=(), steps=0), version)
    else:
        lines, stored = [], replace(before)
    for launch in record.launches[len(stored.record.launches) :]:
        stored.launches += 1
        more = {"launch_number": stored.launches, "steps": record.steps, "wall_s": record.wall_s}
        lines.append(_line("launch", run, record, stored.version, **more, launch=asdict(launch)))
    if record.variants != stored.record.variants:
        stored.memories += 1
        variants = {name: asdict(variant) for name, variant in record.variants.items()}
        more = {"memory_number": stored.memories, "wall_s": record.wall_s}
        lines.append(_line("memory", run, record, stored.version, **more, variants=variants))
    stored.record = record
    return lines, stored


def _continues(record: Record, before: StoredPair) -> bool:
    """Whether a record equals what the file holds, apart from further launches and its memory."""
    earlier = before.record
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
        stored = self.stored.get(line.of)
        if isinstance(line, PairLine):
            return self._begin(line, stored)
        if stored is None or line.version > stored.version:
            raise MalformedRecord("the line that begins its pair is missing")
        return _continue(stored, line) if line.version == stored.version else ""

    def _begin(self, line: PairLine, before: StoredPair | None) -> str:
        line.record.check()
        if before and line.version <= before.version:
            return TWICE
        self.stored.pop(line.of, None)
        self.stored[line.of] = StoredPair(line.record, line.version)
        anew = before is not None and before.record.launches and line.record.outcome == "measured"
        return f"{line.pair} was begun anew; what was timed before is not used" if anew else ""


def _continue(stored: StoredPair, line: LaunchLine | MemoryLine) -> str:
    longer: dict[str, Any]
    if isinstance(line, LaunchLine):
        check_launch(line.launch, stored.record.info)
        if line.launch_number <= stored.launches:
            return TWICE
        stored.launches = line.launch_number
        longer = {"launches": (*stored.record.launches, line.launch), "steps": line.steps}
    else:
        check_variants(line.variants)
        if line.memory_number <= stored.memories:
            return TWICE
        stored.memories = line.memory_number
        longer = {"variants": line.variants}
    stored.record = replace(stored.record, wall_s=max(stored.record.wall_s, line.wall_s), **longer)
    return ""
