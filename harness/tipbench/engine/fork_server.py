"""A server process that has imported torch and forks workers, so that torch is imported once and not for every pair.

All pairs' workers of one launch come from one server. Each launch has another server, so that addresses and heap layout
still differ between launches. The server starts no thread and never initialises CUDA, since neither survives a fork.
NumPy's OpenBLAS has one thread, which it ends before each fork.

This is the parent's end; the server's is `tipbench.worker.forking`.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tipbench.worker.protocol import Channel, Unreadable, readable

ANSWER_S = 120.0
"""Seconds within which the server must answer; importing torch takes longest."""


class ServerGone(Exception):
    """The server no longer answers; start another one, or start the worker without a server."""


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
        self._asking = threading.Lock()  # several threads start workers and collect their exit codes
        self._gone = False
        self._preloaded: set[str] = set()

    def ready(self) -> None:
        """Wait until it has imported torch. Raises ServerGone."""
        self._ask("ready")

    def preload(self, module: str) -> None:
        """Import a module that each later worker would import. Raises ServerGone."""
        if module not in self._preloaded:
            self._ask("preload", module=module)
            self._preloaded.add(module)

    def fork(self, ranks: int, path: Path, task: str, env: Mapping[str, str], output: Path) -> int:
        """Fork a worker that connects to the socket `path`, prints into `output`, and sets `env` as well; its id.

        ranks: above 1, the worker is torchrun, which starts so many fresh ranks; rank 0 connects.

        Raises ServerGone.
        """
        return self._ask("fork", ranks=ranks, path=str(path), task=task, env=dict(env), output=str(output))

    def reap(self, pid: int) -> int:
        """The exit code of an ended worker, negative for a signal; -SIGKILL if the server has ended too. While the
        worker still runs, the server answers nobody else."""
        try:
            return self._ask("reap", pid=pid)
        except ServerGone:
            return -signal.SIGKILL

    def kill(self) -> None:
        """End it at once. For another thread than the one that waits for it, which then gets ServerGone."""
        self._process.kill()

    def end(self) -> None:
        """End the server; the kernel then ends its remaining workers."""
        self._gone = True
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def _ask(self, command: str, **arguments: Any) -> int:
        """The server's answer, a number. Raises ServerGone if it does not answer, then and at each later request."""
        with self._asking:
            try:
                if self._gone:
                    raise EOFError
                self._channel.send({"command": command, "arguments": arguments}, ANSWER_S)
                return int(self._channel.receive(ANSWER_S, readable)["answer"])
            except (EOFError, OSError, Unreadable):
                self._gone = True
                raise ServerGone from None
