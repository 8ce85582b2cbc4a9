"""The folder of an advice: the job that it is about, and the results files of its parts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from tipbench.advise.surveyed import NoJob
from tipbench.given.curve import JobCurve
from tipbench.given.survey import Survey
from tipbench.records.fields import MalformedRecord, convert
from tipbench.records.json_line import parse_line

JOB_FILE, ADVICE_FILE = "job.json", "advice.json"

T = TypeVar("T")


@dataclass(frozen=True)
class Subject:
    """What an advice is about, as it was typed: whoever goes on with it types it again.

    Attributes:
        job: absolute FILE:NAME of the function that builds the job, or the name of a command's program.
        digest: of the words of a command, which may hold secrets; empty for a function.
        folder: in which it was typed, where relative paths of the job begin.
        seed, busy: as in `tipbench.advise.command.Options`.
    """

    job: str
    digest: str
    folder: str
    seed: int
    busy: bool = False

    @property
    def is_command(self) -> bool:
        return bool(self.digest)

    @property
    def words(self) -> str:
        """What to type after `tipbench advise`, in a shell; of a command its program stands for all words."""
        options = [*(["--seed", str(self.seed)] if self.seed else []), *(["--busy"] if self.busy else [])]
        return f"{shlex.join([*options, '--', self.job])} ..." if self.is_command else shlex.join([*options, self.job])


@dataclass(frozen=True)
class StoredJob:
    """What JOB_FILE stores of an advice.

    Attributes:
        subject: what was typed.
        survey: of the job as it is.
        curves: how its rate depends on what can act on it.
    """

    subject: Subject
    survey: Survey
    curves: list[JobCurve] = field(default_factory=list)


def read_json(file: Path, kind: type[T]) -> T:
    """The object in a file of an advice; fields that `kind` lacks are for people. Raises NoJob."""
    try:
        return convert(parse_line(file.read_bytes()), kind)
    except FileNotFoundError:
        raise NoJob(f"{file} is missing: name a folder that `tipbench advise` has made, and continue it") from None
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
