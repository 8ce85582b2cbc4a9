"""One measurement at a time on a machine: a second would spoil both."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from tipbench.errors import UserError


class Busy(UserError):
    """Another run holds the lock; the message says which."""


@contextmanager
def only_run() -> Iterator[None]:
    """Hold the machine's lock. Raises Busy.

    The lock is the name of a socket, which all users of the machine share and which is no file: a file in /tmp may be
    tidied away, or lie in a /tmp of one's own. The kernel drops it with its holder, also at `kill -9`.

    TIPBENCH_LOCK names another lock: the tests' tiny runs neither wait for a measurement nor stop one.
    """
    name = f"\0tipbench {hashlib.sha256(os.environ.get('TIPBENCH_LOCK', '').encode()).hexdigest()}"
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(name)
        except OSError:
            holder = _holder(name)
            raise Busy(
                f"another run{f' (process {holder})' if holder else ''} is measuring on this machine; two runs at once "
                "would spoil both. Wait for it to end."
            ) from None
        lock.listen()
        yield


def _holder(name: str) -> int:
    """The process that holds the lock; 0 where the kernel does not tell, as of other containers."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)  # nobody accepts, and only so many may wait for that
        try:
            asking.connect(name)
            return int(struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
        except OSError:
            return 0
