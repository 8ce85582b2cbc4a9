"""A whole program as a job: one step is one run of it, of which only the surroundings can be changed."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence

from tipbench.given.forms import GivenStep
from tipbench.given.target import BadJob


class GivenCommand(GivenStep):
    """A command, run in a folder; its output is thrown away."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        super().__init__(self._run)
        self.command, self.folder = list(command), folder
        self.name = shlex.join(command)

    def _run(self) -> None:
        try:
            ended = subprocess.run(
                self.command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
            )
        except OSError as error:
            raise BadJob(f"{self.command[0]} cannot be run: {error.strerror}") from None
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise BadJob(f"it left with exit code {ended.returncode}{': ' if said else ''}{said}")


def running(command: Sequence[str], folder: str) -> Callable[[], GivenCommand]:
    """The function that builds such a job, as a person's own file has one."""
    return lambda: GivenCommand(command, folder)
