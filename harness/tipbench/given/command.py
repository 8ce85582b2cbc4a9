"""A whole program as a job: one step runs it once. Only its process settings can be changed."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence

from tipbench.given.forms import GivenStep
from tipbench.given.target import BadJob


class GivenCommand(GivenStep):
    """A command, run in a folder; its output is discarded."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        super().__init__(self._run)
        self.command, self.folder = list(command), folder
        self.name = shlex.join(command)

    def _run(self) -> None:
        try:
            process = subprocess.run(
                self.command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
            )
        except OSError as error:
            raise BadJob(f"{self.command[0]} cannot be run: {error.strerror}") from None
        if process.returncode:
            last_line = process.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise BadJob(f"it left with exit code {process.returncode}{': ' if last_line else ''}{last_line}")


def running(command: Sequence[str], folder: str) -> Callable[[], GivenCommand]:
    """A function that builds the job of a command, like the function in a person's own file."""
    return lambda: GivenCommand(command, folder)
