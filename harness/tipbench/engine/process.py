"""A worker's process, started afresh or forked: pausing it, ending it, and seeing that it has ended."""

from __future__ import annotations

import functools
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress

import psutil

from tipbench.engine.fork_server import ServerGone
from tipbench.machine.orphans import end_cleaners, kill_tree


class Process:
    """A worker's process, or torchrun and the ranks that it starts."""

    def __init__(self, pid: int, wait: Callable[[], int], ranks: int) -> None:
        """wait: returns its exit code, negative for a signal, once it has ended. Raises ServerGone where it is gone
        already, and with it the server that has forked it."""
        self.pid = pid
        self.ranks = ranks
        self._wait = wait
        self._code: int | None = None
        self._ended = False
        self._cleaners: list[psutil.Process] = []
        try:
            self.pidfd = os.pidfd_open(self.pid)
            """A descriptor that can be read once the process, torchrun with ranks, has ended."""
        except ProcessLookupError:
            raise ServerGone from None

    def exit_code(self, seconds: float | None) -> int | None:
        """The exit code, negative for a signal; None where it still runs after so many seconds. seconds: None: wait."""
        if self._code is None and select.select([self.pidfd], [], [], seconds)[0]:
            self._code = self._wait()
        return self._code

    def pythons(self) -> list[tuple[str, int]]:
        """(who, process id) of each process that runs the pair: the worker, or the ranks of its torchrun."""
        if self.ranks == 1:
            return [("it", self.pid)]
        with suppress(psutil.Error):
            children = [(child.environ().get("RANK"), child.pid) for child in psutil.Process(self.pid).children()]
            return sorted((f"rank {rank}", pid) for rank, pid in children if rank is not None)
        return []

    def pause(self) -> None:
        """Stop it and everything it started until `resume`, threads that spin included."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for group in self._groups:
            with suppress(ProcessLookupError):  # it has ended: the next answer shows it
                os.killpg(group, number)

    @functools.cached_property
    def _groups(self) -> set[int]:
        """Its process groups; torchrun gives each rank one of its own."""
        groups = {self.pid}
        if self.ranks > 1:
            with suppress(psutil.Error, ProcessLookupError):
                groups |= {os.getpgid(child.pid) for child in psutil.Process(self.pid).children(recursive=True)}
        return groups

    def kill(self) -> None:
        """End it and everything it started, at once. Another thread that waits for it learns that, and calls `end`."""
        if not (self._ended or self._cleaners):
            self._cleaners += kill_tree(self.pid)

    def end(self) -> None:
        """`kill`, and wait until it has ended. From then on its id may be another process's."""
        if self._ended:
            return
        self.kill()
        self._ended = True
        end_cleaners(self.pid, self._cleaners)
        self.exit_code(None)
        os.close(self.pidfd)
