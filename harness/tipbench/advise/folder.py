"""The folder of an advice, and the results files of its parts."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from tipbench.advise.surveyed import NoJob


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
