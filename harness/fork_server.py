"""A process that has imported torch and forks workers from it: the import is paid once, not by every pair.

The workers of one launch, of all pairs, come from one server; different launches have different
servers, so what a process is born with (addresses, heap layout) still differs from launch to launch.
The server starts no thread and never touches CUDA, which a fork would break in the worker. NumPy's
OpenBLAS has one thread, which it ends before each fork by itself.

Started as `python -m harness.fork_server FD`. Linux only: elsewhere workers are started afresh.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from harness.orphans import die_with_parent

AVAILABLE = sys.platform == "linux" and hasattr(os, "pidfd_open")


class ServerGone(Exception):
    """The server does not answer any more; start another, or start the worker afresh."""


class ForkServer:
    """The runner's end: one server process in a given environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.fork_server", str(theirs.fileno())],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._pipe = Connection(ours.detach())
        self._ready = False
        self._preloaded: set[str] = set()

    def ready(self) -> None:
        """Wait until it has imported torch. Raises ServerGone."""
        if not self._ready:
            self._received()
            self._ready = True

    def preload(self, module: str) -> None:
        """Import what the workers to come would each import for themselves. Raises ServerGone."""
        if module not in self._preloaded:
            self._ask({"import": module})
            self._preloaded.add(module)

    def fork(self, ranks: int, path: Path, task: str, env: Mapping[str, str], output: Path) -> Forked:
        """Fork a worker that connects to the socket `path`, prints into `output`, and has `env` set besides.

        ranks: above 1 it is torchrun, which starts so many fresh ones; rank 0 of them connects.

        Raises ServerGone.
        """
        request = {"ranks": ranks, "path": str(path), "task": task, "env": dict(env), "output": str(output)}
        return Forked(self, self._ask(request))

    def reap(self, pid: int) -> int:
        """The exit code of an ended worker, negative for a signal; -SIGKILL where the server went with it."""
        try:
            return self._ask({"reap": pid})
        except ServerGone:
            return -signal.SIGKILL

    def end(self) -> None:
        """End the server; the kernel ends what is left of its workers."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _ask(self, request: Mapping[str, object]) -> int:
        self.ready()
        try:
            self._pipe.send_bytes(json.dumps(request).encode())
        except OSError:
            raise ServerGone from None
        return self._received()

    def _received(self) -> int:
        try:
            return int(json.loads(self._pipe.recv_bytes()))
        except (OSError, EOFError):
            raise ServerGone from None


class Forked:
    """A forked worker, with what `Worker` needs of `subprocess.Popen`."""

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

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None


def _become_worker(request: Mapping[str, object]) -> None:
    """In the forked process: be `python -m harness.worker_main` from here on."""
    from harness.worker_main import work

    output = os.open(str(request["output"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    assert isinstance(request["env"], dict)
    os.environ.update(request["env"])
    tempfile.tempdir = None  # torch's import may have asked for it, and the answer was kept
    try:
        assert isinstance(request["ranks"], int)
        work(request["ranks"], str(request["path"]), str(request["task"]))
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(descriptor: str) -> None:
    die_with_parent()
    pipe = Connection(int(descriptor))
    # What every worker imports, and the second that the first optimizer, torchvision or compilation costs.
    import torch._dynamo  # noqa: F401

    import harness.clock
    import harness.equal
    import harness.memory  # noqa: F401

    pipe.send_bytes(json.dumps(os.getpid()).encode())
    while True:
        try:
            request = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        if "reap" in request:
            _, status = os.waitpid(request["reap"], 0)
            pipe.send_bytes(json.dumps(os.waitstatus_to_exitcode(status)).encode())
            continue
        if "import" in request:
            with suppress(Exception):  # the worker will meet the same, and tell it
                importlib.import_module(request["import"])
            pipe.send_bytes(b"0")
            continue
        pid = os.fork()
        if pid == 0:
            pipe.close()
            os.setpgid(0, 0)
            _become_worker(request)
        # A group of its own, made from both sides: whoever comes first, one signal reaches all of it.
        with suppress(OSError):
            os.setpgid(pid, pid)
        pipe.send_bytes(json.dumps(pid).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
