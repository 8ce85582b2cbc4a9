"""The folder of an advice: its own file, and the results files of its parts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TypeVar

from tipbench.advise.surveyed import NoJob
from tipbench.records.fields import MalformedRecord, convert
from tipbench.records.json_line import parse_line

ADVICE_FILE = "advice.json"

T = TypeVar("T")


def read_json(file: Path, kind: type[T]) -> T:
    """The object in a file of an advice; fields that `kind` lacks are for people. Raises NoJob."""
    try:
        return convert(parse_line(file.read_bytes()), kind)
    except FileNotFoundError:
        raise NoJob(f"{file} is missing: name one that `tipbench advise` has made") from None
    except MalformedRecord as error:
        raise NoJob(f"{file} is damaged, or of another version of tipbench ({error}): begin a new advice") from None
    except (OSError, ValueError) as error:
        raise NoJob(f"{file} cannot be read ({error}): begin a new advice") from None


def results_file(place: Path) -> Path | None:
    """The results of a part; None where it has not begun."""
    return next(iter(sorted(place.glob("*/*.jsonl"), reverse=True)), None)


def new_folder(out: Path, job: str) -> Path:
    """A folder that is not there yet, named after the job and the time."""
    folder = out / f"{job}-{datetime.now():%Y-%m-%d-%H%M%S}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise NoJob(f"cannot make {folder}: {error.strerror}; name another place with --out") from None
    return folder
