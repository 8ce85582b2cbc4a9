"""What a person's job is, from processes of its own: nothing of theirs is imported here."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tipbench.errors import UserError
from tipbench.given.curve import JobCurve
from tipbench.given.survey import COMMAND_TYPED, Survey, WayHere
from tipbench.machine.controls import HEAP, callers, preloading
from tipbench.machine.orphans import OutputFlood, end_cleaners, ending_words, kill_tree, run_module, spawn, wait_for
from tipbench.machine.scratch import Scratch
from tipbench.machine.temporary import writing_to
from tipbench.report.output import write_file
from tipbench.tip.wording import lines_of, plain
from tipbench.worker.protocol import OUTPUT_LIMIT

DEADLINE_S = 600.0
"""Building a job four times, of which one may take a minute, and two steps of each; no longer than the whole budget."""

_NEEDED = 0.3
"""Share of the budget, or of DEADLINE_S, after which a survey leaves out what a job can be measured without."""

_LATE = 5
"""Times as long as a sweep may run its steps, until it is ended: jobs are built, and workers started, besides."""


class NoJob(UserError):
    """What was named is no job that can be measured; the message says why."""


def absolute(target: str) -> str:
    """`train.py:job` with the file's whole path. Raises NoJob where it names no file."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise NoJob(f"{target!r} names no function: write a Python file and a function in it, such as train.py:job")
    file = Path(os.path.realpath(place))
    if not file.is_file():
        raise NoJob(f"{place} is no file: name a Python file and a function in it, such as train.py:job")
    return f"{file}:{name}"


COMMAND_FILE = "command.py"

COMMAND = '''"""The command that was typed. It may hold secrets, so it comes in a variable of the process."""

from tipbench.given.command import job_of_command as job
'''


def is_command(job: Sequence[str]) -> bool:
    """Whether these words are a command, and no FILE:NAME."""
    return len(job) > 1 or (len(job) == 1 and ":" not in job[0] and shutil.which(job[0]) is not None)


def write_command(folder: Path) -> Path:
    """A file whose function `job` runs the command in the variable COMMAND_TYPED."""
    file = folder / COMMAND_FILE
    write_file(file, COMMAND.encode())
    return file


@contextmanager
def job_environment(target: str, command: Sequence[str] = ()) -> Iterator[None]:
    """Have this process, and all that it starts, hold what a job's own program would find in its environment: what its
    file sets before it imports torch, and a command's own words. Raises TemporaryFolderFull."""
    more = {COMMAND_TYPED: json.dumps([str(Path.cwd()), *command])} if command else early_variables(target)
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def early_variables(target: str) -> dict[str, str]:
    """What a job's file sets of the environment before it imports torch."""
    try:
        return msgspec.convert(_answer(target, callers(), module="variables"), dict[str, str])
    except NoJob:  # what is wrong with the file is said when its job is run
        return {}


def survey_job(target: str, until: float = math.inf) -> Survey:
    """Run the job of an absolute target. until: when it must be over, as `time.monotonic` has it. Raises NoJob, and
    TemporaryFolderFull."""
    deadline_s = max(1.0, min(DEADLINE_S, until - time.monotonic()))
    answer = _answer(target, callers(), "survey", str(_NEEDED * deadline_s), deadline_s=deadline_s)
    return msgspec.convert(answer, Survey)


def sweep_job(target: str, what: str, within_s: float) -> JobCurve:
    """Time the job at several values of one setting. what: one of SWEEPS. within_s: seconds for its steps. Raises
    NoJob, and TemporaryFolderFull."""
    deadline_s = _LATE * within_s + _NEEDED * DEADLINE_S
    env = HEAP | callers()  # as both sides of each comparison have it
    return msgspec.convert(_answer(target, env, what, str(within_s), deadline_s=deadline_s), JobCurve)


def environment_of(ways: Sequence[WayHere], env: Mapping[str, str]) -> dict[str, str]:
    """These variables with what the ways set, their libraries before others in LD_PRELOAD."""
    libraries = dict.fromkeys(library for way in ways for library in way.preload)
    return {**env, **{name: value for way in ways for name, value in way.env.items()}, **preloading(libraries, env)}


def _answer(
    target: str, env: Mapping[str, str], *words: str, module: str = "answering", deadline_s: float = DEADLINE_S
) -> Any:
    """What a process of a module of `tipbench.given` writes. It works, compiles and prints in a folder of its own.
    Raises NoJob, and TemporaryFolderFull."""
    shown = target.rpartition("/")[2]
    with Scratch() as scratch, writing_to(scratch):
        file, log = scratch / "answer.json", scratch / "output"
        command = run_module(f"tipbench.given.{module}", target, str(file), *words)
        process = spawn(command, {**env, **_own_folders(scratch)}, log)
        try:
            code = wait_for(process, log, deadline_s, OUTPUT_LIMIT)
        except OutputFlood:
            raise NoJob(
                f"{shown} printed over {OUTPUT_LIMIT >> 20} MiB in its first steps: let it print less"
            ) from None
        except subprocess.TimeoutExpired:
            raise NoJob(
                f"{shown}: building the job and running its steps took over {deadline_s:.0f} s: if it needs as "
                "long, give a longer --budget; what runs a training belongs below "
                '`if __name__ == "__main__":`, as the file is imported, and a program that '
                "keeps the same cores busy can slow it down as much"
            ) from None
        finally:  # with all that it has started
            end_cleaners(process.pid, kill_tree(process.pid))
            process.wait()
        if not file.exists():
            last_lines = plain(" ".join(log.read_text(errors="replace").strip().split("\n")[-2:]))
            memory = "; most often the kernel's out-of-memory killer" if code == -signal.SIGKILL else ""
            raise NoJob(f"{shown}: its process {ending_words(code)}{memory}{f': {last_lines}' if last_lines else ''}")
        answer = json.loads(file.read_text())
    if "problem" in answer:
        raise NoJob(lines_of(answer["problem"]))
    return answer


def _own_folders(scratch: Path) -> dict[str, str]:
    """The variables of a process that writes temporary files and compiles in its own folder: in one whose name others
    can guess, they could put code that it would run."""
    for name in ("tmp", "inductor", "triton"):
        (scratch / name).mkdir()
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"), "TRITON_CACHE_DIR": str(scratch / "triton")}
    return {"TMPDIR": str(scratch / "tmp"), **caches}
