"""What is kept of a calibration: results/<machine>/calibration-<date>-<short id>.jsonl.

One header line, then one line a comparison, synced before the next one starts. Launch effects are kept,
so a comparison can be judged again by other rules; the page is derived from the file alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from tipbench.records.json_line import parsed, written
from tipbench.records.store import CALIBRATION, Notice, StoreError, folder_name, opened

SCHEMA = 1

OPTIONS = {"profile", "engine", "looks", "device", "seed", "repeat", "only"}

HEADER = {"id": str, "started": str, "suite": str, "machine": dict, "controls": dict, "options": dict, "planned": list}


@dataclass(frozen=True)
class Comparison:
    """One case, measured once.

    part: aa, planted, random, memory or timer. loaded: whether the noise process ran. seed: of inputs,
    weights, block order and noise; the k-th launch has seed + k. wall_s: seconds from the start of its
    processes to the verdict. failed: why there is no finding; empty where there is one.
    truth: ln of the planted speedup. effects: one a launch, ln t_baseline - ln t_optimized; None where
    the launch was too disturbed. verdict, speedup, low, high: as `tipbench.verdict.verdict.judge` gave them then.
    memory: by variant, bytes as in `VariantRecord.memory`; planted_bytes: what one side holds (or keeps
    a step) more. seconds: by timer ("harness" and others), the median seconds a step, one a process.
    """

    case: str
    part: str
    pair: str
    repetition: int
    loaded: bool
    seed: int
    commit: str
    wall_s: float
    failed: str = ""
    truth: float | None = None
    steps: int = 0
    effects: tuple[float | None, ...] = ()
    quarantined: int = 0
    verdict: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    planted_bytes: int = 0
    memory: Mapping[str, Mapping[str, int]] | None = None
    seconds: Mapping[str, tuple[float, ...]] | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.case, self.repetition

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Comparison:
        """Raises ValueError where a field is missing, unknown, or of a wrong type."""
        lacking = [field.name for field in fields(cls) if field.name not in data]
        if lacking:
            raise ValueError(f"the field {lacking[0]!r} is missing")
        try:
            made = cls(
                **{
                    **data,
                    "effects": tuple(data["effects"]),
                    "seconds": data["seconds"] and {name: tuple(found) for name, found in data["seconds"].items()},
                }
            )
            made._check()
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None
        return made

    def _check(self) -> None:
        words = (self.case, self.part, self.pair, self.commit, self.failed, self.verdict)
        numbers = [self.repetition, self.seed, self.steps, self.quarantined, self.planted_bytes, self.wall_s]
        numbers += [found for found in (self.truth, self.speedup, self.low, self.high, *self.effects) if found]
        numbers += [count for found in (self.memory or {}).values() for count in found.values()]
        numbers += [found for listed in (self.seconds or {}).values() for found in listed]
        if not all(isinstance(word, str) for word in words):
            raise ValueError("a word is expected where something else is")
        if not all(isinstance(number, int | float) for number in numbers):
            raise ValueError("a number is expected where something else is")


@dataclass(frozen=True)
class Calibration:
    """All comparisons of one calibration, with what was in force.

    machine, controls: as in `tipbench.records.record.Run`. options: profile, engine (the profile of
    `tipbench run` that it measures with), looks, device, seed, repeat, only. planned: the cases of one repetition.
    """

    id: str
    started: str
    suite: str
    machine: Mapping[str, Any]
    controls: Mapping[str, str]
    options: Mapping[str, Any]
    planned: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()

    @property
    def file_name(self) -> str:
        """Without an ending; the page uses it too."""
        return f"{CALIBRATION}{self.started[:10]}-{self.id[:8]}"


def create(folder: Path, begun: Calibration) -> Path:
    """Start the file of a calibration. Raises StoreError."""
    path = folder / folder_name(begun.machine) / f"{begun.file_name}.jsonl"
    header = {"calibration": SCHEMA, **{name: getattr(begun, name) for name in HEADER}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _append(path, header)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {_why(error)}; name another folder with --results") from error
    return path


def append(path: Path, comparison: Comparison) -> None:
    """Add a comparison and wait until the disk has it. Raises StoreError."""
    try:
        _append(path, asdict(comparison))
    except OSError as error:
        raise StoreError(
            f"{comparison.case} could not be written to {path}: {_why(error)}; the comparisons before it are there. "
            f"Then go on with: tipbench calibrate --resume {path}"
        ) from error


def cut_truncated_line(path: Path) -> None:
    """Take off what a killed process left half-written, so that the next line is not glued to it. Raises StoreError."""
    try:
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {_why(error)}") from error


def read(path: Path) -> tuple[Calibration, list[Notice]]:
    """The calibration in a file, with a notice for each line that could not be used.

    Raises StoreError where there is no usable header.
    """
    try:
        with opened(path) as file:
            lines = file.read().split(b"\n")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {_why(error)}") from error
    begun = _header(path, lines[0])
    found: dict[tuple[str, int], Comparison] = {}
    notices = []
    for number, line in enumerate(lines[1:], 2):
        if number == len(lines):
            if line:
                notices.append(Notice(path, number, "truncated: ended while it was written; this comparison is lost"))
            break
        try:
            comparison = Comparison.from_json(parsed(line))
        except ValueError as error:
            notices.append(Notice(path, number, f"no comparison ({error}); it is lost"))
            continue
        if comparison.key in found:
            notices.append(Notice(path, number, f"{comparison.case} is stored a second time; the first is used"))
            continue
        found[comparison.key] = comparison
    return replace(begun, comparisons=tuple(found.values())), notices


def _header(path: Path, line: bytes) -> Calibration:
    try:
        data = parsed(line)
    except ValueError as error:
        raise StoreError(f"{path}, line 1: the header is not readable ({error}); calibrate anew") from None
    if "calibration" not in data:
        raise StoreError(f"{path} is no calibration of tipbench; its files are named calibration-DATE-ID.jsonl")
    if data["calibration"] != SCHEMA:
        raise StoreError(f"{path} was written by another version of tipbench; read it with that one")
    for name, kind in HEADER.items():
        if not isinstance(data.get(name), kind):
            raise StoreError(f"{path}, line 1: the header's field {name!r} is missing or damaged; calibrate anew")
    if lacking := sorted(OPTIONS - data["options"].keys()):
        raise StoreError(f"{path}, line 1: the header's option {lacking[0]!r} is missing; calibrate anew")
    made = {name: data[name] for name in HEADER}
    return Calibration(**{**made, "planned": tuple(data["planned"])})


def _append(path: Path, data: Mapping[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(written(data))
        file.flush()
        os.fsync(file.fileno())


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
