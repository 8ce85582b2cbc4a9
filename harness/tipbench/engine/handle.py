"""The runner's handle of a worker: its process, the channel to it, and the diagnosis when it does not answer.

The worker's end is `tipbench.worker`. Measurements come over a Unix socket, never on stdout; what the worker prints
goes to a file that is shown when it fails.
"""

from __future__ import annotations

import json
import select
import socket
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tipbench.engine.diagnose import Evidence, unreadable
from tipbench.engine.fork_server import ForkServer, ServerGone
from tipbench.engine.process import Process
from tipbench.machine.native import find_programs
from tipbench.machine.orphans import spawn
from tipbench.machine.temporary import full
from tipbench.records.record import PairInfo
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason
from tipbench.worker.protocol import Channel, Unreadable

OWN_VARIABLES = ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "OMP_NUM_THREADS")
"""Environment variables that differ between workers; torch reads them when it needs them, not at import. The last is
for the ranks of a forked torchrun."""

PRELOADED = ("torchvision",)
"""Packages in a pair's needs that are imported before its file: by the fork server, or by all processes of a launch at
the same time, whose builds would otherwise import them one after the other."""

SPOILT = "spoilt"
"""Name of a file in a compile cache that no further worker uses, as one of its workers was ended while it may have been
compiling: torch takes a library that a killed linker has begun for a whole one."""

DEADLINE = 300.0
"""Seconds that a worker may take to answer one request before it is ended."""

START_DEADLINE = 120.0
"""Seconds in which a worker must have imported torch and the pair's file."""


def packages_to_preload(info: PairInfo) -> list[str]:
    """The packages of PRELOADED that a pair needs."""
    return [package for package in PRELOADED if package in info.needs]


class WorkerFailed(Exception):
    """A worker did not answer, or answered with a failure.

    Attributes:
        why: the reason.
        variant: the only variant that failed; empty where that is unknown.
    """

    def __init__(self, why: Reason, variant: str = "") -> None:
        super().__init__(f"{why.kind}: {why.text}")
        self.why = why
        self.variant = variant


class WorkerHandle(Protocol):
    """What the runner needs of a worker; tests give it a fake one."""

    def ready(self) -> None: ...

    def begin(self, command: str, **arguments: Any) -> None: ...

    def finish(self) -> Any: ...

    def ask(self, command: str, **arguments: Any) -> Any: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def kill(self) -> None: ...

    def end(self) -> None: ...


class Worker:
    """One worker process, or one torchrun group of them, for one pair and one set of process settings."""

    def __init__(
        self,
        info: PairInfo,
        settings: ProcessSettings,
        env: Mapping[str, str],
        folder: Path,
        scratch: Path,
        server: ForkServer | None = None,
    ) -> None:
        """Start it; `ready` waits for it. `scratch` is an empty folder that the worker may fill.

        server: forks it, and has the same environment except for OWN_VARIABLES; None: start a fresh process. Raises
        ServerGone.
        """
        self._scratch = scratch
        self._spoilt = Path(env["TORCHINDUCTOR_CACHE_DIR"]).with_name(SPOILT)
        self._begun: deque[str] = deque()
        self._channel: Channel | None = None
        task = {
            "file": str(folder.parent / info.file),
            "folder": str(folder),
            "pair": info.pair,
            "device": info.device,
            "size": dict(info.sizes),
            "imports": packages_to_preload(info),
            "without": settings.without,
            "reports": str(scratch),
        }
        path, output = scratch / "socket", scratch / "output"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(1)
        ranks, words = settings.ranks, json.dumps(task)
        try:
            if server:
                own = {name: env[name] for name in OWN_VARIABLES if name in env}
                pid = server.fork(ranks, path, words, own, output)
                self.process = Process(pid, partial(server.reap, pid), ranks)
            else:
                command = [sys.executable, "-P", "-m", "tipbench.worker", str(ranks), str(path), words]
                started = spawn([*find_programs(settings.prefix), *command], env, output)
                self.process = Process(started.pid, started.wait, ranks)
        except ServerGone:
            self._listening.close()
            raise
        self.evidence = Evidence(self.process, scratch, Path(info.file).name)

    def ready(self) -> None:
        """Wait until the pair's file is imported. Raises WorkerFailed."""
        if self._channel is None:
            with self._diagnosed("starting", START_DEADLINE):
                if not self._wait(self._listening, START_DEADLINE):
                    raise TimeoutError
                connected, _ = self._listening.accept()
                self._channel = Channel(connected)
                self._channel.send({"command": "ready", "arguments": {}}, START_DEADLINE)
            self._answer("starting", START_DEADLINE)

    def begin(self, command: str, **arguments: Any) -> None:
        """Send one request; `finish` waits for its answer. Raises WorkerFailed."""
        self.ready()
        assert self._channel is not None
        doing = f"{command} {arguments.get('variant', '')}".strip()
        with self._diagnosed(doing, DEADLINE):
            self._channel.send({"command": command, "arguments": arguments}, DEADLINE)
        self._begun.append(doing)

    def finish(self) -> Any:
        """Sleep until the oldest begun request is answered. Raises WorkerFailed."""
        return self._answer(self._begun.popleft(), DEADLINE)

    def ask(self, command: str, **arguments: Any) -> Any:
        """Send one request and sleep until it is answered. Raises WorkerFailed."""
        self.begin(command, **arguments)
        return self.finish()

    def pause(self) -> None:
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> None:
        """End the process and everything it started, at once."""
        if self._channel is not None:
            self._channel.close()
        self.process.end()
        self._listening.close()

    def _answer(self, doing: str, deadline: float) -> Any:
        assert self._channel is not None
        with self._diagnosed(doing, deadline):
            answer = self._channel.receive(deadline, self._wait)
        if "failed" in answer:
            why = Reason(**answer["failed"])
            if no_room := full(self._scratch):
                why = Reason("temporary-folder-full", detail=f"{no_room}; {why.kind}: {why.text}")
            raise self._failed(why)
        return answer["answer"]

    def _failed(self, why: Reason) -> WorkerFailed:
        if why.is_chance:
            with suppress(OSError):
                self._spoilt.touch()
        return WorkerFailed(why)

    @contextmanager
    def _diagnosed(self, doing: str, deadline: float) -> Iterator[None]:
        """Turn the absence of an answer in the block into WorkerFailed with the cause."""
        try:
            yield
            return
        except Unreadable as why:
            failure = unreadable(str(why), doing)
        except TimeoutError:
            failure = self.evidence.silent(doing, deadline)
        except (EOFError, OSError):
            failure = self.evidence.closed(doing)
        raise self._failed(failure)

    def _wait(self, source: socket.socket, seconds: float) -> bool:
        """Sleep until `source` can be read; False after `seconds`. Raises EOFError once the worker has ended."""
        watched: list[Any] = [source, self.process.pidfd]
        readable, _, _ = select.select(watched, [], [], max(0.0, seconds))
        if readable and source not in readable:
            raise EOFError
        return bool(readable)
