"""`tipbench advise train.py:job`, or `-- python train.py`: the command from the first word to the last.

An advice is a folder: `job.json`, the parts that are measured (`tipbench.advise.parts`), and the pages.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from tipbench.advise import curves
from tipbench.advise.folder import JOB_FILE, StoredJob, Subject, new_folder, read_json
from tipbench.advise.job_words import headline, lost_cores, slow, where
from tipbench.advise.pairs import sides_alone
from tipbench.advise.parts import Advice
from tipbench.advise.surveyed import NoJob, absolute, is_command, job_environment, survey_job, write_command
from tipbench.engine.lock import only_run
from tipbench.given.survey import program_of
from tipbench.machine.activity import describe_load
from tipbench.machine.scratch import Scratch
from tipbench.records import store
from tipbench.report.output import ReportError, write_file
from tipbench.tip.wording import lines_of, plain, plural


@dataclass(frozen=True)
class AdviseOptions:
    """The options of the command.

    Attributes:
        job: FILE:NAME alone, or the words of a command.
        out: the folder in which the folder of this advice is made.
        budget_s: seconds after which nothing more is started; 0: until everything is decided.
        seed: of inputs, weights and block order.
        busy: whether to advise on a machine that other programs keep busy too.
    """

    job: Sequence[str]
    out: Path = Path("advice")
    budget_s: float = 1200.0
    seed: int = 0
    busy: bool = False

    @property
    def until(self) -> float:
        """When the budget is spent that begins now, as `time.monotonic` has it."""
        return time.monotonic() + self.budget_s if self.budget_s else math.inf

    @property
    def subject(self) -> Subject:
        """Raises NoJob where the job names no function of a file, and is no command."""
        if is_command(self.job):
            job, digest = program_of(self.job), sha256("\0".join(self.job).encode()).hexdigest()
        else:
            job, digest = absolute(self.job[0] if self.job else ""), ""
        return Subject(job, digest, str(Path.cwd()), self.seed, self.busy)


def begin(options: AdviseOptions) -> int:
    """Say which tips pay on a person's job, and which of them together. Returns the exit code; raises UserError.

    One lock is held from the survey to the last part: another run between two parts would spoil what it ran beside.
    """
    subject, until = options.subject, options.until
    with only_run(), job_environment(subject.job, options.job if subject.is_command else ()):
        return _begin(options, subject, until)


def _begin(options: AdviseOptions, subject: Subject, until: float) -> int:
    out = Path(os.path.realpath(options.out))
    if not options.busy and (busy := describe_load()):
        # Another user names the programs.
        print(f"{plain(busy)}; unless they end there will be no advice (--busy: all the same)", file=sys.stderr)
    if subject.is_command:
        folder = new_folder(out, Path(subject.job).stem)
        try:
            survey = survey_job(_target(folder, subject), until)
        except BaseException:  # no job, or an interruption
            shutil.rmtree(folder)
            raise
    else:
        target = subject.job
        survey = survey_job(target, until)
        file, _, name = target.rpartition(":")
        folder = new_folder(out, f"{Path(file).stem}-{name}")
    first = [headline(survey), *lost_cores(survey), *where(survey), *slow(survey)]
    print(lines_of("\n".join(first)), file=sys.stderr)
    within_s = min(curves.SHORT_SWEEP_S, curves.SWEEP_SHARE * options.budget_s or math.inf)
    measured = curves.measure_curves(subject.job, curves.sweeps_of(survey, options.budget_s), within_s)
    survey = curves.choose_workers(survey, measured)
    job = StoredJob(subject, survey, measured)
    write_file(folder / JOB_FILE, json.dumps(asdict(job), indent=1).encode())
    print(f"{plural(len(sides_alone(survey)), 'tip')} to try, into {folder}", file=sys.stderr)
    return _continue(folder, job, until)


def print_sweeps(options: AdviseOptions, sweeps: Sequence[str]) -> int:
    """Print how the rate and the memory of a job depend on each of `curve.SWEEPS`. Returns the exit code; raises
    UserError."""
    subject = options.subject
    if subject.is_command:
        raise NoJob("a command sets its workers, batch and threads itself: name a function that builds the job")
    if busy := describe_load():
        print(f"{plain(busy)}, and the numbers below hold beside them", file=sys.stderr)
    with only_run(), job_environment(subject.job):
        for curve in curves.measure_curves(subject.job, sweeps, curves.LONG_SWEEP_S):
            print(lines_of("\n".join(curves.lines(curve))), end="\n\n", flush=True)
    return 0


def resume(folder: Path, options: AdviseOptions) -> int:
    """Go on with an advice that was interrupted, or with more time. Returns the exit code; raises UserError.

    The job and its options are typed again, as a command's words are stored nowhere.
    """
    folder = Path(os.path.realpath(folder))
    job = read_json(folder / JOB_FILE, StoredJob)
    again = _again(folder, job.subject)
    if job.subject.folder != str(Path.cwd()):
        again = f"cd {shlex.quote(job.subject.folder)} && {again}"
    if not options.job:
        raise NoJob(f"{folder}: to continue runs the job again, so name it: if you trust it, type {plain(again)}")
    subject = options.subject
    if subject != job.subject:
        what = "is about another job, or was begun with other options"
        if subject == replace(job.subject, folder=subject.folder):
            what = f"was begun in {plain(job.subject.folder)}, where relative paths of the job begin"
        raise NoJob(f"{folder} {what}: if you trust it, type {plain(again)}")
    with only_run(), job_environment(subject.job, options.job if subject.is_command else ()):
        until = options.until
        return _continue(folder, job, until)


def _target(folder: Path, subject: Subject) -> str:
    """FILE:NAME of the job; of a command in a file that is written into the folder of the advice."""
    return f"{write_command(folder)}:job" if subject.is_command else subject.job


def _continue(folder: Path, job: StoredJob, until: float) -> int:
    try:
        with Scratch() as compiled:
            return Advice(folder, compiled, job, _target(folder, job.subject)).measure(until)
    except (ReportError, store.StoreError) as error:  # most often of a disk that is full
        raise NoJob(f"{error}\ncontinue with: {_again(folder, job.subject)}") from None
    except OSError as error:
        if not Path(os.fsdecode(error.filename or "/")).is_relative_to(folder):
            raise
        raise NoJob(
            f"{error.filename} cannot be written: {(error.strerror or str(error)).lower()}; let {folder} be a folder "
            "that you may write to, or begin a new advice with --out"
        ) from None


def _again(folder: Path, subject: Subject) -> str:
    return f"tipbench advise --resume {shlex.quote(str(folder))} {subject.words}"
