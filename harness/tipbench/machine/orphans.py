"""No process outlives the run that started it, however the run ends, and none leaves its shared memory behind."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

LIBC = ctypes.CDLL(None)
"""Loaded beforehand: between fork and exec nothing may be."""

SIGKILL_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

LOOK_S = 0.5
"""Between two looks at how much a process printed."""

CLEANED_S = 6.0
"""Most seconds for shared memory to be removed: torch_shm_manager looks every 2 s, and took 3.9 s."""

REGISTERED = "/dev/shm/__KMP_REGISTERED_LIB_{pid}_{user}"
"""Where Intel's and LLVM's OpenMP register a process, which removes the file unless it is killed."""


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel end this process, and those it forks, with the one that started them, as after `kill -9`.

    parent: the process id of the one that started this, if the caller knows it. If that has ended before the kernel was
    asked, nothing would end this one, so it exits.
    """
    _ask_kernel()
    os.register_at_fork(after_in_child=_ask_kernel)
    if parent is not None and os.getppid() != parent:
        sys.exit("the process that started this one has ended")


def _ask_kernel() -> None:
    LIBC.prctl(SIGKILL_WITH_PARENT, signal.SIGKILL)


def run_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours in a process that ends with this one, from its first moment: importing
    torch takes seconds, in which `kill -9` of this process left it running for ever."""
    return [sys.executable, "-P", "-m", __name__, str(os.getpid()), module, *arguments]


def spawn(command: Sequence[str], env: Mapping[str, str], output: Path) -> subprocess.Popen[bytes]:
    """Start a process that prints into the file `output`."""
    with output.open("wb") as printed:
        # Its own session: one signal reaches everything it starts, and the terminal's Ctrl-C none.
        return subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True
        )


class OutputFlood(Exception):
    """A process printed so much that it could fill the disk."""


def wait_for(process: subprocess.Popen[bytes], output: Path, deadline_s: float, most: int) -> int:
    """The exit code of a process of `spawn`. Raises subprocess.TimeoutExpired, and OutputFlood where it printed over
    `most` bytes."""
    end = time.monotonic() + deadline_s
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
        if output.stat().st_size > most:
            raise OutputFlood
        if process.returncode is not None:
            return process.returncode
        if time.monotonic() > end:
            raise subprocess.TimeoutExpired(process.args, deadline_s)


def ending_words(code: int) -> str:
    """How a process with this exit code ended."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"


def kill_tree(pid: int) -> list[psutil.Process]:
    """Kill a process, its group and all that it started, but for those that remove its shared memory once it has ended:
    these are returned, for `end_cleaners`.

    Killed with it, they left what a DataLoader with torch's file_system strategy, or a `SharedMemory`, held in
    /dev/shm, which is memory of the machine until it restarts.
    """
    descendants: list[psutil.Process] = []
    with suppress(psutil.Error):
        # torchrun gives each rank a session of its own, out of reach of one killpg.
        descendants = psutil.Process(pid).children(recursive=True)
    cleaners = [process for process in descendants if _cleans_up(process)]
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL) if cleaners else os.killpg(pid, signal.SIGKILL)
    for process in descendants:
        with suppress(psutil.Error):
            process.resume() if process in cleaners else process.kill()
    for ended in (pid, *(process.pid for process in descendants)):
        with suppress(OSError):  # most have none
            Path(REGISTERED.format(pid=ended, user=os.getuid())).unlink()
    return cleaners


def end_cleaners(pid: int, cleaners: Sequence[psutil.Process]) -> None:
    """Wait for what `kill_tree(pid)` has left to do its work, then kill it and what is left of the group."""
    if cleaners:
        end = time.monotonic() + CLEANED_S
        while any(map(_runs, cleaners)) and time.monotonic() < end:
            time.sleep(0.05)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        for process in cleaners:
            with suppress(psutil.Error):
                process.kill()


def _cleans_up(process: psutil.Process) -> bool:
    """Whether it removes shared memory. One that has only just been started may not have a command line yet: on a busy
    machine that was so of 228 of 400, and a tracker taken for something else was killed with the rest."""
    with suppress(psutil.Error):
        words = " ".join(process.cmdline())
        return not words or process.name() == "torch_shm_manager" or "multiprocessing.resource_tracker" in words
    return False


def _runs(process: psutil.Process) -> bool:
    """Whether it has not ended: the one that would collect its exit code has, so a zombie may stay for a while."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


if __name__ == "__main__":
    _, parent, name, *sys.argv[1:] = sys.argv
    die_with_parent(int(parent))
    runpy.run_module(name, run_name="__main__", alter_sys=True)
