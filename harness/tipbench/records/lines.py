"""The lines of a results file that a pair's record is made of: its record, then its launches and its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, TypedDict

from tipbench.records.fields import MalformedRecord, Number, Positive, converted
from tipbench.records.record import Launch, Record, VariantRecord

Found = dict[tuple[str, str], tuple[int, Record]]
"""By pair and device, the line that a record begins on, and the record as far as it has been read."""


class LaunchLine(TypedDict):
    """A launch, with what it makes of its pair's record."""

    launch: Launch
    of: str
    device: str
    steps: Positive
    wall_s: Number


class MemoryLine(TypedDict):
    """What is known of a pair's sides once their memory has been measured; it replaces what was known before."""

    variants: dict[str, VariantRecord]
    of: str
    device: str
    wall_s: Number


class NotUsed(Exception):
    """A line that is whole, and cannot be used all the same; the message says why."""


def launch_line(record: Record) -> dict[str, Any]:
    about = {"of": record.name, "device": record.info.device, "steps": record.steps, "wall_s": record.wall_s}
    return {**about, "launch": asdict(record.launches[-1])}


def memory_line(record: Record) -> dict[str, Any]:
    about = {"of": record.name, "device": record.info.device, "wall_s": record.wall_s}
    return {**about, "variants": {name: asdict(found) for name, found in record.variants.items()}}


def memory(data: Mapping[str, Any]) -> MemoryLine:
    """Raises MalformedRecord, also for a field that is not known."""
    line = converted(data, MemoryLine)
    known = {field.name for field in fields(VariantRecord)}
    names = {name for found in data["variants"].values() for name in found.keys() - known}
    for name in (data.keys() - MemoryLine.__annotations__.keys()) | names:
        raise MalformedRecord(f"the field {name!r} is not known")
    return line


def launch(data: Mapping[str, Any]) -> LaunchLine:
    """Raises MalformedRecord, also for a field that is not known: somebody would miss it."""
    line = converted(data, LaunchLine)
    known = {field.name for field in fields(Launch)}
    for name in (data.keys() - LaunchLine.__annotations__.keys()) | (data["launch"].keys() - known):
        raise MalformedRecord(f"the field {name!r} is not known")
    return line


def add_launch(found: Found, line: LaunchLine) -> None:
    """Raises MalformedRecord where the launch does not fit its pair's record, NotUsed where there is none."""
    key, begun, record = _begun(found, line, "a launch")
    if record.steps not in (0, line["steps"]):
        raise MalformedRecord(f"it has {line['steps']} steps a block, those before it {record.steps}")
    longer = replace(record, steps=line["steps"], wall_s=line["wall_s"], launches=(*record.launches, line["launch"]))
    longer.check()
    found[key] = begun, longer


def add_memory(found: Found, line: MemoryLine) -> None:
    """Raises MalformedRecord where it does not fit its pair's record, NotUsed where there is none."""
    key, begun, record = _begun(found, line, "the memory")
    fuller = replace(record, wall_s=line["wall_s"], variants=line["variants"])
    fuller.check()
    found[key] = begun, fuller


def _begun(found: Found, line: LaunchLine | MemoryLine, what: str) -> tuple[tuple[str, str], int, Record]:
    key = line["of"], line["device"]
    begun, record = found.get(key, (0, None))
    if record is None or record.outcome != "measured":
        raise NotUsed(f"{what} of {line['of']}, which no line before it begins; it is lost")
    return key, begun, record


def add_record(found: Found, number: int, record: Record) -> None:
    """A pair that had begun may fail, or begin anew. Raises NotUsed for any other second record of a pair."""
    key = record.name, record.info.device
    begun, before = found.get(key, (0, None))
    if before is not None:
        anew = record.outcome == "measured" and not record.launches
        if before.outcome != "measured" or not (anew or record.outcome == "failed"):
            raise NotUsed(f"{record.name} is stored a second time; the one on line {begun} is used, this one is not")
        del found[key]  # so that records are in the order in which they were begun
    found[key] = number, record
    if before is not None and before.launches and record.outcome == "measured":
        raise NotUsed(f"{record.name} was begun anew; what was timed before is not used")
