"""A process between a person's command and the one that measures it, so that nothing which the command has started
lives on: neither after the command itself, nor after `kill -9` of the one that measures.

It is run as a file, without `site`: it starts in some milliseconds, and each of them is a part of the command's time.
"""

import ctypes
import os
import signal
import sys

PARENT_ENDED, SUBREAPER = 1, 36
"""PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER of prctl(2)."""


def main(parent: str, *command: str) -> int:
    """Run a command for the process with that id. Returns its exit code, 128 and its number after a signal."""
    prctl = ctypes.CDLL(None).prctl
    prctl(SUBREAPER, 1)  # what loses its parent becomes a child of this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    prctl(PARENT_ENDED, signal.SIGTERM)
    try:
        if os.getppid() != int(parent):
            return 1
        started = os.posix_spawnp(command[0], command, os.environ, setsigdef=[signal.SIGTERM])
        code = os.waitstatus_to_exitcode(os.waitpid(started, 0)[1])
        return code if code >= 0 else 128 - code
    except OSError as error:
        print(f"{command[0]} cannot be run: {error.strerror}", file=sys.stderr)
        return 127
    finally:
        _end_children()


def _end_children() -> None:
    """End all children, and what becomes a child meanwhile as its parent has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                        os.kill(int(name), signal.SIGKILL)
            except (OSError, IndexError):  # it has ended meanwhile
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
