"""The runner's end of the pipe: starts a worker process, asks it, and ends it whatever it does.

The worker's end is `harness.worker_main`. Measurements travel as JSON over a Unix socket, never on
stdout; what the worker prints goes to a file that is shown when it fails.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import psutil

from harness.fork_server import Forked, ForkServer, ServerGone
from harness.launch import Surroundings
from harness.native import with_path
from harness.nodes import NodeLost, RanksThere, Rendezvous
from harness.record import PairInfo

OUTPUT_LIMIT = 16 << 20
"""Bytes a worker may print before it is a failure; a flood would fill the disk."""

TORCHRUN_ENDS = 15.0
"""Seconds until torchrun has seen that a rank is gone, has ended the others, and has left."""

OWN = ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "OMP_NUM_THREADS")
"""Variables that each worker has of its own; torch reads them when they are needed, not at import. The last is
for the ranks of a forked torchrun."""

PRELOADED = ("torchvision",)
"""Packages that a pair's needs may name, imported before its file: by the server of forked workers, or by all
processes of a launch at once, where their builds would do it one after the other."""

WHERE = signal.SIGUSR1
"""The signal at which a worker writes where it is."""

WHERE_S = 1.0
"""Seconds that it may take; one that has not yet come so far as to listen is ended by the signal."""

START_DEADLINE = 120.0
"""Seconds until a worker has imported torch and the pair's file."""


def preloaded(info: PairInfo) -> list[str]:
    """Those of PRELOADED that a pair needs."""
    return [package for package in PRELOADED if package in info.needs]


class WorkerFailed(Exception):
    """A worker did not answer, or answered with a failure: the kind and reason of a failed record."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class Asked(Protocol):
    """What the runner needs of a worker; tests give it a fake one."""

    def ready(self) -> None: ...

    def begin(self, command: str, **arguments: Any) -> None: ...

    def finish(self) -> Any: ...

    def ask(self, command: str, **arguments: Any) -> Any: ...

    def pause(self) -> None: ...

    def go_on(self) -> None: ...

    def end(self) -> None: ...


class Worker:
    """One worker process, or one torchrun group of them, for one pair in given surroundings."""

    def __init__(
        self,
        info: PairInfo,
        surroundings: Surroundings,
        env: Mapping[str, str],
        folder: Path,
        scratch: Path,
        server: ForkServer | None = None,
        rendezvous: Rendezvous | None = None,
        there: Sequence[RanksThere] = (),
    ) -> None:
        """Start it; `ready` waits for it. `scratch` is an empty folder that the worker may fill.

        server: forks it, and has the environment already but for OWN; None: it is started afresh.
        rendezvous: how its torchrun finds those of other nodes. there: the ranks on them, already started.
        Raises ServerGone.
        """
        self.info = info
        self.ranks = surroundings.ranks
        self.there = there
        self.scratch = scratch
        self.output = scratch / "output"
        path = scratch / "socket"
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(1)
        self._connection: Connection | None = None
        self._begun: deque[str] = deque()
        task = {
            "file": str(folder.parent / info.file),
            "folder": str(folder),
            "pair": info.pair,
            "device": info.device,
            "imports": preloaded(info),
            "rendezvous": asdict(rendezvous) if rendezvous else None,
        }
        self._process: subprocess.Popen[bytes] | Forked
        if server:
            try:
                own = {name: env[name] for name in OWN if name in env}
                self._process = server.fork(self.ranks, path, json.dumps(task), own, self.output)
            except ServerGone:
                self._server.close()
                raise
        else:
            command = [
                *with_path(surroundings.prefix),
                *(sys.executable, "-m", "harness.worker_main"),
                *(str(surroundings.ranks), str(path), json.dumps(task)),
            ]
            with self.output.open("wb") as output:
                # Its own session: one signal reaches everything it starts, and the terminal's Ctrl-C none.
                self._process = subprocess.Popen(
                    command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
        self.death = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
        """A descriptor that can be read once the process, torchrun with ranks, has ended; None where there is none."""

    def ready(self) -> None:
        """Wait until the pair's file is imported. Raises WorkerFailed."""
        if not (came := self._wait(self._server, START_DEADLINE)):
            raise self._failure("starting", START_DEADLINE, hung=came is None)
        connected, _ = self._server.accept()
        self._connection = Connection(connected.detach())
        self._answer("starting", START_DEADLINE)

    def begin(self, command: str, **arguments: Any) -> None:
        """Send one request; `finish` waits for its answer. Raises WorkerFailed."""
        if self._connection is None:
            self.ready()
        assert self._connection is not None
        try:
            self._connection.send_bytes(json.dumps({"command": command, **arguments}).encode())
        except OSError:
            raise self._failure(command) from None
        self._begun.append(f"{command} {arguments.get('variant', '')}".strip())

    def finish(self) -> Any:
        """Sleep until the oldest begun request is answered. Raises WorkerFailed."""
        return self._answer(self._begun.popleft(), self.info.deadline)

    def ask(self, command: str, **arguments: Any) -> Any:
        """Send one request and sleep until its answer is there. Raises WorkerFailed."""
        self.begin(command, **arguments)
        return self.finish()

    def pause(self) -> None:
        """Stop the process and everything it started until `go_on`, threads that spin included."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for there in self.there:
            there.ask("pause" if number == signal.SIGSTOP else "go_on")
        for group in self._groups:
            with suppress(ProcessLookupError):  # it has died: the next answer tells
                os.killpg(group, number)

    @functools.cached_property
    def _groups(self) -> set[int]:
        """The process groups of the worker; torchrun gives each rank one of its own."""
        groups = {self._process.pid}
        if self.ranks > 1:
            with suppress(psutil.Error, ProcessLookupError):
                children = psutil.Process(self._process.pid).children(recursive=True)
                groups |= {os.getpgid(child.pid) for child in children}
        return groups

    def end(self) -> None:
        """End the process and everything it started, at once."""
        descendants: list[psutil.Process] = []
        with suppress(psutil.Error):
            # torchrun gives each rank a session of its own, out of reach of one killpg.
            descendants = psutil.Process(self._process.pid).children(recursive=True)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for descendant in descendants:
            with suppress(psutil.Error):
                descendant.kill()
        self._process.wait()
        if self._connection is not None:
            self._connection.close()
        self._server.close()
        if self.death is not None:
            os.close(self.death)
            self.death = None
        for there in self.there:
            with suppress(NodeLost):  # then its ranks have ended with it, and whoever asks next is told
                there.ask("end")

    def _answer(self, doing: str, deadline: float) -> Any:
        assert self._connection is not None
        if not (came := self._wait(self._connection, deadline)):
            raise self._failure(doing, deadline, hung=came is None)
        try:
            answer = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._failure(doing) from None
        if "failed" in answer:
            raise WorkerFailed(answer["failed"], answer["reason"])
        return answer["answer"]

    def _wait(self, source: Connection | socket.socket, deadline: float) -> bool | None:
        """Sleep until `source` can be read; False: the worker has died, here or on another node; None: too late.

        No polling where the kernel can watch the process (pidfd, Linux); once a second elsewhere.
        """
        end = time.monotonic() + deadline
        nodes = [there.node for there in self.there]
        watched = [source, *nodes] if self.death is None else [source, *nodes, self.death]
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select(watched, [], [], left if self.death is not None else min(1.0, left))
            if source in readable:
                return True
            if self.death in readable or self._process.poll() is not None:
                return False
            if any(there.ended() for there in self.there):
                return False
        return None

    def _failure(self, doing: str, deadline: float = START_DEADLINE, hung: bool = False) -> WorkerFailed:
        """Why there is no answer, from how the process ended. hung: nothing of it has, when the deadline came."""
        code: int | None = None
        # Its socket closes a moment before it is gone; torchrun looks once a second.
        ends = 0.0 if hung else 1.0 if self.ranks == 1 else TORCHRUN_ENDS
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(ends)
        # The first to fall is the cause: the other ranks then lose their connection to it. One that
        # died has left no report, only its exit code with torchrun.
        codes, told = self.ranks_left()
        now = time.time()
        reports = [(now - age, rank, report) for age, rank, report in told]
        for there in self.there:
            if told_there := there.ended(ends):
                codes |= {int(rank): code for rank, code in told_there["codes"].items()}
                reports += told_there["reports"]
        for rank in sorted(codes.keys() - {rank for _, rank, _ in reports}):
            return self._ended(codes[rank], f"rank {rank} ", doing)
        for _, _, failure in sorted(reports, key=lambda report: report[0]):
            return WorkerFailed(failure["failed"], failure["reason"])
        if code is None:
            places = [*self.whereabouts(), *(place for there in self.there for place in there.whereabouts())]
            where = f" when {', and '.join(places)}" if places else self._last_words()
            return WorkerFailed("hang", f"no answer within {deadline:g} s while doing: {doing}; ended{where}")
        return self._ended(code, "", doing)

    def whereabouts(self) -> list[str]:
        """Where in the pair's file its processes on this node are, such as "rank 1 was in no_sync.py, line 60"."""
        found = []
        for who, pid in self._pythons():
            before = self.output.stat().st_size
            with suppress(ProcessLookupError):
                os.kill(pid, WHERE)
            end = time.monotonic() + WHERE_S
            name = Path(self.info.file).name
            while time.monotonic() < end:
                with self.output.open("rb") as output:
                    output.seek(before)
                    # The innermost call is written first, after the name of each thread.
                    told = re.search(rb'/%s", line (\d+) in ' % re.escape(name.encode()), output.read())
                if told:
                    found.append(f"{who} was in {name}, line {int(told[1])}")
                    break
                time.sleep(0.05)
        return found

    def _pythons(self) -> list[tuple[str, int]]:
        """(who, process id) of each process that runs the pair: the worker, or the ranks of its torchrun."""
        if self.ranks == 1:
            return [("it", self._process.pid)]
        with suppress(psutil.Error):
            children = [
                (child.environ().get("RANK"), child.pid) for child in psutil.Process(self._process.pid).children()
            ]
            return sorted((f"rank {rank}", pid) for rank, pid in children if rank is not None)
        return []

    def ranks_left(self) -> tuple[dict[int, int], list[tuple[float, int, dict[str, str]]]]:
        """What ended ranks left on this node.

        ({rank: exit code that torchrun saw}, [(seconds ago, rank, failure that it reported before it ended)]).
        """
        seen = self.scratch / "exit-codes.json"
        codes = {int(rank): code for rank, code in json.loads(seen.read_text()).items()} if seen.exists() else {}
        now = time.time()
        reports = [
            (now - report.stat().st_mtime, int(report.stem.removeprefix("rank-")), json.loads(report.read_text()))
            for report in self.scratch.glob("rank-*.json")
        ]
        return codes, reports

    def _ended(self, code: int, who: str, doing: str) -> WorkerFailed:
        """The failure that an exit code tells of; negative: the signal."""
        if self.output.stat().st_size >= OUTPUT_LIMIT:
            return WorkerFailed("output flood", f"printed over {OUTPUT_LIMIT >> 20} MiB while doing: {doing}")
        if code == -signal.SIGKILL:
            return WorkerFailed(
                "killed", f"{who}ended by SIGKILL while doing: {doing}; most often the kernel's out-of-memory killer"
            )
        if code < 0:
            return WorkerFailed(
                "crashed", f"{who}{signal.Signals(-code).name} while doing: {doing}{self._last_words()}"
            )
        return WorkerFailed("exited", f"{who}left with exit code {code} while doing: {doing}{self._last_words()}")

    def _last_words(self) -> str:
        lines = [line.strip() for line in self.output.read_text(errors="replace")[-4000:].splitlines() if line.strip()]
        return f"; it last printed: {' / '.join(lines[-3:])[:400]}" if lines else ""
