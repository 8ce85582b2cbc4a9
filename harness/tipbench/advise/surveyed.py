"""What a person's job is, found out in a process of its own: nothing of theirs is imported here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypedDict

from tipbench.engine.scratch import LONGEST
from tipbench.errors import UserError
from tipbench.machine.controls import cleaned
from tipbench.machine.temporary import temporary_folder, writing_to
from tipbench.tip.reason import printable
from tipbench.worker.protocol import OUTPUT_LIMIT

DEADLINE_S = 600.0
"""Building a job four times, of which one may take a minute, and two steps of each."""

LOOK_S = 0.5
"""Seconds between two looks at how much was printed."""

SCORED_S = 3600.0
"""Steps of several jobs, whose time was planned by that of one step, and a score of each, whose time is not known."""


class NoJob(UserError):
    """What was named is no job that can be measured; the message says why."""


class WayHere(TypedDict):
    """As `tipbench.worker.survey.WayHere` has it."""

    tip: str
    name: str
    title: str
    do: str
    why_not: str
    changes_numbers: bool
    one_of: str
    env: dict[str, str]
    preload: list[str]
    first: bool


class Survey(TypedDict):
    """As `tipbench.worker.survey.Survey` has it."""

    name: str
    kind: str
    device: Literal["cpu", "cuda"]
    step_s: float
    import_s: float
    build_s: float
    repeats: bool
    noise: float
    rounding: float
    exact: bool
    compared: bool
    workers: int
    bytes: int
    parameters: int
    rates: dict[str, float]
    card: dict[str, float]
    ways: list[WayHere]
    by_hand: list[tuple[str, str, str]]


def absolute(target: str) -> str:
    """`train.py:job` with the file's whole path. Raises NoJob where it names no file."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise NoJob(f"{target!r} names no function: write a Python file and a function in it, such as train.py:job")
    file = Path(os.path.realpath(place))
    if not file.is_file():
        raise NoJob(f"{place} is no file: name a Python file and a function in it, such as train.py:job")
    return f"{file}:{name}"


COMMAND = '''"""A command as a job."""

from tipbench.given.command import running

job = running({command!r}, {folder!r})
'''


def is_command(job: Sequence[str]) -> bool:
    """Whether these words are a command, and no FILE:NAME."""
    return len(job) > 1 or (len(job) == 1 and ":" not in job[0] and shutil.which(job[0]) is not None)


def write_command(folder: Path, command: Sequence[str]) -> Path:
    """A file whose function `job` runs a command in the folder that is current now."""
    file = folder / "command.py"
    file.write_text(COMMAND.format(command=list(command), folder=str(Path.cwd())))
    return file


def surveyed(target: str) -> Survey:
    """Run the job of an absolute target. Raises NoJob, and TemporaryFolderFull."""
    return _answer(target, cleaned())  # type: ignore[no-any-return]


def time_with(target: str, ways: Sequence[WayHere]) -> dict[str, float]:
    """Seconds that the phases of a step take where these ways are followed; empty where that is not known."""
    try:
        found: dict[str, float] = _answer(target, _settings_of(ways), *(way["name"] for way in ways))
    except NoJob:
        return {}
    return found


def scored(target: str, check: str, steps: int, seeds: int, ways: Sequence[WayHere] = ()) -> list[float]:
    """What the function `check` of the job's file says of its model after so many steps with these ways followed, once
    for each seed. Raises NoJob, and TemporaryFolderFull."""
    words = (check, str(steps), str(seeds), *(way["name"] for way in ways))
    found = _answer(target, _settings_of(ways), *words, module="scores", deadline_s=SCORED_S)
    return found["scores"]  # type: ignore[no-any-return]


def _settings_of(ways: Sequence[WayHere]) -> dict[str, str]:
    """The environment of a process that follows these ways."""
    preload = ":".join(library for way in ways for library in way["preload"])
    env = {name: value for way in ways for name, value in way["env"].items()}
    return cleaned() | env | ({"LD_PRELOAD": preload} if preload else {})


def _answer(
    target: str, env: Mapping[str, str], *words: str, module: str = "survey", deadline_s: float | None = None
) -> Any:
    """What a process of `tipbench.worker.survey`, or of another module beside it, writes. It works, compiles and prints
    in a folder of its own. Raises NoJob, and TemporaryFolderFull."""
    deadline_s = deadline_s or DEADLINE_S
    place, shown = temporary_folder(), target.rpartition("/")[2]
    short = place if len(str(place)) <= LONGEST else Path("/tmp")
    with writing_to(short), tempfile.TemporaryDirectory(prefix=f"tipbench-{os.getpid()}-", dir=short) as scratch:
        answer, log = Path(scratch, "answer.json"), Path(scratch, "output")
        command = [sys.executable, "-P", "-m", f"tipbench.worker.{module}", target, str(answer), *words]
        env = {**env, **_own_folders(Path(scratch))}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                code = _waited_for(process, log, deadline_s, shown)
            except subprocess.TimeoutExpired:
                raise NoJob(
                    f"{shown}: building the job and running its steps took over {deadline_s:.0f} s; what runs a "
                    'training belongs below `if __name__ == "__main__":`, as the file is imported, and a program that '
                    "keeps the same cores busy can slow it down as much"
                ) from None
            finally:  # with all that it has started
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        _expect_few_lines(log, shown)
        if not answer.exists():
            ending = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
            said = " ".join(log.read_text(errors="replace").strip().split("\n")[-2:])
            memory = "; most often the kernel's out-of-memory killer" if code == -signal.SIGKILL else ""
            raise NoJob(printable(f"{shown}: its process {ending}{memory}{f': {said}' if said else ''}"))
        found = json.loads(answer.read_text())
    if "problem" in found:
        raise NoJob(printable(found["problem"]))
    return found


def _own_folders(scratch: Path) -> dict[str, str]:
    """The variables of a process that writes temporary files and compiles in its own folder: in one whose name others
    can guess, they could put code that it would run."""
    for name in ("tmp", "inductor", "triton"):
        (scratch / name).mkdir()
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"), "TRITON_CACHE_DIR": str(scratch / "triton")}
    return {"TMPDIR": str(scratch / "tmp"), **caches}


def _waited_for(process: subprocess.Popen[bytes], log: Path, deadline_s: float, shown: str) -> int:
    """The exit code. Raises subprocess.TimeoutExpired, and NoJob where much was printed, which could fill the disk."""
    end = time.monotonic() + deadline_s
    while (left_s := end - time.monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(min(LOOK_S, left_s))
        _expect_few_lines(log, shown)
    raise subprocess.TimeoutExpired(process.args, deadline_s)


def _expect_few_lines(log: Path, shown: str) -> None:
    if log.stat().st_size > OUTPUT_LIMIT:
        raise NoJob(f"{shown} printed over {OUTPUT_LIMIT >> 20} MiB in its first steps: let it print less")
