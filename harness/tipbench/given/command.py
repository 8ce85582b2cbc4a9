"""A whole program as a job: one step runs it once. Only its process settings can be changed.

Its words may hold secrets, so they are in no file and on no page: they come in a variable, and its program names it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from tipbench.given.forms import GivenStep
from tipbench.given.survey import COMMAND_TYPED, program_of
from tipbench.given.target import BadJob
from tipbench.machine import keeper


class GivenCommand(GivenStep):
    """A command, run in a folder; its output is discarded."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        super().__init__(self._run)
        self.command, self.folder = list(command), folder
        self.name = program_of(command)

    def _run(self) -> None:
        # A file, as a pipe has its end only when every process that the command left behind has ended.
        with tempfile.TemporaryFile() as errors:
            process = subprocess.run(
                [sys.executable, "-IS", keeper.__file__, str(os.getpid()), *self.command],
                cwd=self.folder,
                env={name: value for name, value in os.environ.items() if name != COMMAND_TYPED},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                check=False,
            )
            if process.returncode:
                errors.seek(0)
                last_line = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise BadJob(f"it left with exit code {process.returncode}{': ' if last_line else ''}{last_line}")


def job_of_command() -> GivenCommand:
    """The job of the command in COMMAND_TYPED: the function that builds it, like the one in a person's own file."""
    folder, *command = json.loads(os.environ[COMMAND_TYPED])
    return GivenCommand(command, folder)
