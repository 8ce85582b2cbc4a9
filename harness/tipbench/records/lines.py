"""The lines of a results file after its header: pairs, launches and memory, each with its run and pair.

Every line has a key: its pair, its device, the version of the pair's record and, for launches and memory, a number. So
the order of the lines does not matter, a repeated line counts once, and two lines that have the same key and different
contents are reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from tipbench.records.fields import MalformedRecord, Number, Positive, strict
from tipbench.records.record import Launch, Record, VariantRecord, by_variant

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

    @property
    def number(self) -> int:
        return 0

    @property
    def title(self) -> str:
        """Such as "the record of tip.Pair"."""
        return f"the record of {self.pair}"


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

    @property
    def number(self) -> int:
        return self.launch_number

    @property
    def title(self) -> str:
        return f"launch {self.number} of {self.pair}"


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

    @property
    def number(self) -> int:
        return self.memory_number

    @property
    def title(self) -> str:
        return f"the memory of {self.pair}"


AnyLine = PairLine | LaunchLine | MemoryLine

BEGINNING = re.compile(rb'\{"line":"(pair|launch|memory)","run":')
"""How each line of `news` begins. In the middle of a line, it marks a line that was written after a truncated one."""

NAMES = re.compile(rb'[^"]*"[^"]*","pair":"([^"\\]+)","device":"[^"]*","version":\d+(?:,"launch_number":(\d+))?')
"""What follows BEGINNING: the pair and the number of the launch, where the damaged line still has them."""


def line_of(data: Mapping[str, Any]) -> AnyLine:
    """The line in a parsed object. Raises MalformedRecord."""
    try:
        line: AnyLine = strict(data, AnyLine)  # type: ignore[arg-type]
    except MalformedRecord:
        by_variant(data if data.get("line") == "memory" else data.get("record"))
        raise
    if isinstance(line, PairLine):
        line.record.check()
        if line.of != (line.record.name, line.record.info.device):
            raise MalformedRecord(f"it is said to be of {line.pair}, and is of {line.record.name}")
        if line.record.launches or line.record.steps:
            raise MalformedRecord("launches and their steps are expected in lines of their own")
    return line


def titles(line: bytes) -> list[str]:
    """What a damaged line held, as far as it can be read; several titles where lines follow a truncated one in it."""
    listed = []
    for begun in BEGINNING.finditer(line):
        names = NAMES.match(line, begun.end())
        kind = {b"pair": "the record", b"launch": "a launch", b"memory": "the memory"}[begun[1]]
        if names is None:
            listed.append(f"{kind} of a pair")
        else:
            kind = f"launch {names[2].decode()}" if names[2] else kind
            listed.append(f"{kind} of {names[1].decode(errors='replace')}")
    return listed


@dataclass
class Stored:
    """What a file holds of one pair on one device.

    Attributes:
        record: the pair's record as `read` returns it.
        version: the latest version.
        launches: highest launch number of this version.
        memories: highest number of a memory line of this version.
        contradicted: whether two lines of this version have the same key and different contents, so that none of its
            launches can be used.
    """

    record: Record
    version: int
    launches: int = 0
    memories: int = 0
    contradicted: bool = False


def news(run: str, record: Record, before: Stored | None) -> tuple[list[dict[str, Any]], Stored]:
    """(The lines to write for a record, what the file holds of the pair afterwards). before: what it holds now."""
    if before is not None and record == before.record and not before.contradicted:
        return [], before
    if before is None or not _continues(record, before):
        version = before.version + 1 if before else 1
        begun = asdict(replace(record, steps=0, launches=()))
        del begun["steps"], begun["launches"]
        lines = [_line("pair", run, record, version, record=begun)]
        stored = Stored(replace(record, launches=(), steps=0), version)
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


def _continues(record: Record, before: Stored) -> bool:
    """Whether a record equals what the file holds, apart from further launches and its memory."""
    earlier = before.record
    return (
        not before.contradicted
        and record.outcome == earlier.outcome == "measured"
        and record.info == earlier.info
        and record.launches[: len(earlier.launches)] == earlier.launches
    )


def _line(kind: str, run: str, of: Record, version: int, **more: Any) -> dict[str, Any]:
    return {"line": kind, "run": run, "pair": of.name, "device": of.info.device, "version": version, **more}


@dataclass
class LinesOfRun:
    """The lines of one run, combined in whatever order they come.

    Attributes:
        run: id of the run.
        notices: (number of the line, what could not be used and why).
        foreign: numbers of the lines of other runs.
        repeated: numbers of the lines that repeat an earlier line.
    """

    run: str
    notices: list[tuple[int, str]] = field(default_factory=list)
    foreign: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    _first: dict[tuple[Any, ...], tuple[int, AnyLine]] = field(default_factory=dict)
    _contradicted: dict[tuple[PairKey, int], tuple[int, int, str]] = field(default_factory=dict)

    def add(self, place: int, line: AnyLine) -> None:
        """Add a line. place: its number in the file, from 1."""
        if line.run != self.run:
            self.foreign.append(place)
            return
        first, before = self._first.setdefault((type(line), line.of, line.version, line.number), (place, line))
        if first == place:
            return
        if before == line:
            self.repeated.append(place)
        else:
            self._contradicted.setdefault((line.of, line.version), (first, place, line.title))

    def add_header(self, place: int, header: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Add a further header, as in a file that was joined from two. own: the file's first line."""
        if header == own:
            self.repeated.append(place)
        elif header.get("id") != self.run:
            self.foreign.append(place)
        else:
            self.notices.append((place, "a second header of this run, which differs from the first; it is not used"))

    def stored(self) -> dict[PairKey, Stored]:
        """What the file holds of each pair, in the order of their PairLines. Adds to `notices`."""
        by_pair: dict[PairKey, list[tuple[int, AnyLine]]] = defaultdict(list)
        for place, line in self._first.values():
            by_pair[line.of].append((place, line))
        begun: list[tuple[int, PairKey, Stored]] = []
        for pair, lines in by_pair.items():
            records = [(line.version, place, line) for place, line in lines if isinstance(line, PairLine)]
            version, place, latest = max(records, default=(0, 0, None), key=lambda item: item[:2])
            if latest is None:
                self._lost(lines)
                continue
            current = [item for item in lines if item[1].version == version and item[1] is not latest]
            self._lost([item for item in lines if item[1].version > version])
            earlier_launches = any(line.version < version and isinstance(line, LaunchLine) for _, line in lines)
            if earlier_launches and latest.record.outcome == "measured":
                self.notices.append((place, f"{latest.pair} was begun anew; what was timed before is not used"))
            begun.append((place, pair, self._put_together(latest, current)))
        return {pair: stored for _, pair, stored in sorted(begun, key=lambda item: item[0])}

    def _put_together(self, latest: PairLine, lines: Sequence[tuple[int, AnyLine]]) -> Stored:
        """What the file holds of a pair. lines: launches and memory of the same version."""
        launches = sorted(((line.number, at, line) for at, line in lines if isinstance(line, LaunchLine)), key=_place)
        memories = sorted(((line.number, at, line) for at, line in lines if isinstance(line, MemoryLine)), key=_place)
        highest = [group[-1][0] if group else 0 for group in (launches, memories)]
        stored = Stored(latest.record, latest.version, launches=highest[0], memories=highest[1])
        if contradiction := self._contradicted.get((latest.of, latest.version)):
            first, place, title = contradiction
            text = f"this line and line {first} hold different data for {title}; no launch of this pair is used"
            self.notices.append((place, text))
            stored.contradicted = True
        else:
            for _, place, memory in reversed(memories):
                if self._fits(stored, place, memory, variants=memory.variants):
                    break
            for _, place, launch in launches:
                steps = stored.record.steps
                if steps not in (0, launch.steps):
                    self._malformed(place, launch, f"it has {launch.steps} steps a block, those before it {steps}")
                else:
                    longer = (*stored.record.launches, launch.launch)
                    self._fits(stored, place, launch, steps=launch.steps, launches=longer)
        return stored

    def _fits(self, stored: Stored, place: int, line: LaunchLine | MemoryLine, **changes: Any) -> bool:
        """Make these changes to the record if it stays valid; whether it does."""
        record = replace(stored.record, wall_s=max(stored.record.wall_s, line.wall_s), **changes)
        try:
            record.check()
        except MalformedRecord as error:
            self._malformed(place, line, str(error))
            return False
        stored.record = record
        return True

    def _malformed(self, place: int, line: AnyLine, why: str) -> None:
        self.notices.append((place, f"{line.title} does not fit its record ({why}); it is lost"))

    def _lost(self, lines: Sequence[tuple[int, AnyLine]]) -> None:
        self.notices += [(place, f"{line.title}, which no line begins; it is lost") for place, line in lines]


def _place(item: tuple[int, int, Any]) -> tuple[int, int]:
    return item[:2]
