"""`tipbench advise train.py:job`, or `-- python train.py`: the command from the first word to the last.

An advice is a folder: the parts that are measured (`tipbench.advise.parts`), and the pages.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tipbench.advise import curves
from tipbench.advise.folder import new_folder
from tipbench.advise.job_words import headline, lost_cores, slow, where
from tipbench.advise.pairs import sides_alone
from tipbench.advise.parts import Advice
from tipbench.advise.surveyed import NoJob, absolute, is_command, job_environment, survey_job, write_command
from tipbench.engine.lock import only_run
from tipbench.given.survey import program_of
from tipbench.machine.activity import describe_load
from tipbench.machine.scratch import Scratch
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
    def command(self) -> Sequence[str]:
        """Its words; none of a function."""
        return self.job if is_command(self.job) else ()

    @property
    def target(self) -> str:
        """Absolute FILE:NAME of the function, or the name of the command's program. Raises NoJob."""
        return program_of(self.job) if self.command else absolute(self.job[0] if self.job else "")

    @property
    def until(self) -> float:
        """When the budget is spent that begins now, as `time.monotonic` has it."""
        return time.monotonic() + self.budget_s if self.budget_s else math.inf


def begin(options: AdviseOptions) -> int:
    """Say which tips pay on a person's job, and which of them together. Returns the exit code; raises UserError.

    One lock is held from the survey to the last part: another run between two parts would spoil what it ran beside.
    """
    target, until = options.target, options.until
    with only_run(), job_environment(target, options.command):
        return _begin(options, target, until)


def _begin(options: AdviseOptions, target: str, until: float) -> int:
    """target: as `AdviseOptions` has it."""
    out = Path(os.path.realpath(options.out))
    if not options.busy and (busy := describe_load()):
        # Another user names the programs.
        print(f"{plain(busy)}; unless they end there will be no advice (--busy: all the same)", file=sys.stderr)
    if options.command:
        folder = new_folder(out, Path(target).stem)
        try:
            target = f"{write_command(folder)}:job"
            survey = survey_job(target, until)
        except BaseException:  # no job, or an interruption
            shutil.rmtree(folder)
            raise
    else:
        survey = survey_job(target, until)
        file, _, name = target.rpartition(":")
        folder = new_folder(out, f"{Path(file).stem}-{name}")
    first = [headline(survey), *lost_cores(survey), *where(survey), *slow(survey)]
    print(lines_of("\n".join(first)), file=sys.stderr)
    within_s = min(curves.SHORT_SWEEP_S, curves.SWEEP_SHARE * options.budget_s or math.inf)
    measured = curves.measure_curves(options.target, curves.sweeps_of(survey, options.budget_s), within_s)
    survey = curves.choose_workers(survey, measured)
    print(f"{plural(len(sides_alone(survey)), 'tip')} to try, into {folder}", file=sys.stderr)
    try:
        with Scratch() as compiled:
            return Advice(folder, compiled, survey, measured, target, options.seed, options.busy).measure(until)
    except OSError as error:
        if not Path(os.fsdecode(error.filename or "/")).is_relative_to(folder):
            raise
        raise NoJob(
            f"{error.filename} cannot be written: {(error.strerror or str(error)).lower()}; let {folder} be a folder "
            "that you may write to, or begin a new advice with --out"
        ) from None


def print_sweeps(options: AdviseOptions, sweeps: Sequence[str]) -> int:
    """Print how the rate and the memory of a job depend on each of `curve.SWEEPS`. Returns the exit code; raises
    UserError."""
    target = options.target
    if options.command:
        raise NoJob("a command sets its workers, batch and threads itself: name a function that builds the job")
    if busy := describe_load():
        print(f"{plain(busy)}, and the numbers below hold beside them", file=sys.stderr)
    with only_run(), job_environment(target):
        for curve in curves.measure_curves(target, sweeps, curves.LONG_SWEEP_S):
            print(lines_of("\n".join(curves.lines(curve))), end="\n\n", flush=True)
    return 0
