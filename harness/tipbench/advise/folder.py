"""The folder of an advice: the job that it is about, and the results files of its parts."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from tipbench.advise.surveyed import NoJob
from tipbench.given.survey import Survey

JOB_FILE = "job.json"


@dataclass(frozen=True)
class StoredJob:
    """What JOB_FILE stores of an advice.

    Attributes:
        target: absolute FILE:NAME of the function that builds the job.
        numerics, check, seed: as in `tipbench.advise.command.Options`.
        survey: of the job as it is.
    """

    target: str
    numerics: bool
    check: str
    seed: int
    survey: Survey


def stored_job(folder: Path) -> StoredJob:
    """Raises NoJob where the folder holds no advice of this version."""
    try:
        stored: dict[str, Any] = json.loads((folder / JOB_FILE).read_text())
    except (OSError, ValueError):
        raise NoJob(f"{folder} holds no advice: name a folder that `tipbench advise` has made") from None
    if stored.get("survey", {}).keys() != {field.name for field in fields(Survey)}:
        raise NoJob(f"{folder} was made by another version of tipbench: begin a new advice")
    return msgspec.convert(stored, StoredJob)


def results_file(place: Path) -> Path | None:
    """The results of a part; None where it has not begun."""
    return next(iter(sorted(place.glob("*/*.jsonl"), reverse=True)), None)


def new_folder(out: Path, job: str) -> Path:
    """A folder that is not there yet, named after the job and the day."""
    stem = f"{job}-{date.today().isoformat()}"
    for number in range(1, 1000):
        folder = out / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise NoJob(f"cannot make {folder}: {error.strerror}; name another place with --out") from None
        return folder
    raise NoJob(f"{out} holds a thousand advices of {stem}: name another place with --out")
