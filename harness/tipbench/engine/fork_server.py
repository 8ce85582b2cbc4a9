"""A process that has imported torch and forks workers from it: the import is paid once, not by every pair.

The workers of one launch, of all pairs, come from one server; different launches have different
servers, so what a process is born with (addresses, heap layout) still differs from launch to launch.
The server starts no thread and never touches CUDA, which a fork would break in the worker. NumPy's
OpenBLAS has one thread, which it ends before each fork by itself.

This is the parent's end; the server's is `tipbench.worker.forking`. Linux only: elsewhere workers are started afresh.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tipbench.engine.channel import Channel, Closed, Late
from tipbench.worker.protocol import Unreadable

ANSWER_S = 120.0
"""Seconds in which the server answers; what takes longest is importing torch."""


class ServerGone(Exception):
    """The server does not answer any more; start another, or start the worker afresh."""


class ForkServer:
    """The parent's end: one server process in a given environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tipbench.worker.forking", str(theirs.fileno())],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._channel = Channel(ours)
        self._asking = threading.Lock()  # workers are started, and seen to have ended, by several threads
        self._ready = self._gone = False
        self._preloaded: set[str] = set()

    def ready(self) -> None:
        """Wait until it has imported torch. Raises ServerGone."""
        if not self._ready:
            self._ask("ready")
            self._ready = True

    def preload(self, module: str) -> None:
        """Import what the workers to come would each import for themselves. Raises ServerGone."""
        if module not in self._preloaded:
            self._ask("preload", module=module)
            self._preloaded.add(module)

    def fork(self, ranks: int, path: Path, task: str, env: Mapping[str, str], output: Path) -> Forked:
        """Fork a worker that connects to the socket `path`, prints into `output`, and has `env` set besides.

        ranks: above 1 it is torchrun, which starts so many fresh ones; rank 0 of them connects.

        Raises ServerGone.
        """
        pid = self._ask("fork", ranks=ranks, path=str(path), task=task, env=dict(env), output=str(output))
        return Forked(self, pid)

    def reap(self, pid: int) -> int:
        """The exit code of an ended worker, negative for a signal; -SIGKILL where the server went with it."""
        try:
            return self._ask("reap", pid=pid)
        except ServerGone:
            return -signal.SIGKILL

    def end(self) -> None:
        """End the server; the kernel ends what is left of its workers."""
        self._gone = True
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def _ask(self, command: str, **arguments: Any) -> int:
        """The server's answer, a number. Once it has failed to answer nothing more is sent to it."""
        with self._asking:
            try:
                if self._gone:
                    raise Closed
                self._channel.request(command, arguments, ANSWER_S)
                return int(self._channel.answer(ANSWER_S)["answer"])
            except (Closed, Late, Unreadable, KeyError):
                self._gone = True
                raise ServerGone from None


class Forked:
    """A forked worker, with what `Process` needs of `subprocess.Popen`."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        if self._code is None:
            with suppress(ProcessLookupError):  # the server and what it forked are gone
                watched = os.pidfd_open(self.pid)
                try:
                    if not select.select([watched], [], [], timeout)[0]:
                        raise subprocess.TimeoutExpired("worker", timeout or 0.0)
                finally:
                    os.close(watched)
            self._code = self._server.reap(self.pid)
        return self._code
