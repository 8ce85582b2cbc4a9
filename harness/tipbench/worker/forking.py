"""The fork server's process, which imports torch and forks workers; the parent's end is `engine/fork_server.py`.

Started as `python -m tipbench.worker.forking FD`, where FD is its end of a socket pair.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tipbench.machine.orphans import die_with_parent
from tipbench.worker.protocol import CONNECTION_LOST, Channel
from tipbench.worker.serve import run_worker


def _become_worker(ranks: int, path: str, task: str, env: Mapping[str, str], output: str) -> None:
    """In the forked process: do what `python -m tipbench.worker` does, and never return."""
    code = 1
    try:
        printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.close(printed)
        os.environ.update(env)
        tempfile.tempdir = None  # importing torch may have cached it
        run_worker(ranks, path, task)
        code = 0
    except BaseException:
        traceback.print_exc()
    with suppress(OSError):  # the step closed stdout, or the disk is full
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def import_all() -> None:
    """Import what every worker needs, and `torch._dynamo`, which otherwise the first optimizer, torchvision or
    compilation would import, taking a second."""

    # In torch 2.11 importing its inductor asks whether there is a GPU. Answered by CUDA, that question bars every
    # process forked later from CUDA ("Cannot re-initialize CUDA in forked subprocess"); answered by NVML, it does not.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

    import torch._dynamo  # noqa: F401

    import tipbench.worker.session  # noqa: F401


def main(descriptor: str) -> None:
    die_with_parent()
    channel = Channel(socket.socket(fileno=int(descriptor)))
    import_all()
    try:
        while True:
            channel.send({"answer": _done(channel, **channel.receive())})
    except EOFError:
        return
    except OSError:  # an imported module closed the descriptor, or reused its number
        sys.exit(CONNECTION_LOST)


def _done(channel: Channel, command: str, arguments: dict[str, Any]) -> int:
    """Do what was requested, and return the answer."""
    if command == "reap":
        _, status = os.waitpid(arguments["pid"], 0)
        return os.waitstatus_to_exitcode(status)
    if command == "preload":
        with suppress(Exception):  # the worker gets the same error, and reports it
            importlib.import_module(arguments["module"])
        return 0
    if command == "fork":
        return _forked(channel, arguments)
    assert command == "ready", command
    return 0


def _forked(channel: Channel, arguments: dict[str, Any]) -> int:
    """Fork a worker, and return its process id. The worker closes its copy of the server's connection."""
    pid = os.fork()
    if pid == 0:
        channel.close()
        os.setpgid(0, 0)
        _become_worker(**arguments)
    # Both processes make the worker's process group, so that it exists, whichever runs first, before it is signalled.
    with suppress(OSError):
        os.setpgid(pid, pid)
    return pid


if __name__ == "__main__":
    main(*sys.argv[1:])
