"""Pairs whose optimized step writes into, or closes, descriptors that are not its own: the worker's among them."""

import os
import socket
import time
from contextlib import suppress

import torch

from tipbench.tip.mechanism import falls, stays
from tipbench.tip.pair import Claim, Pair, Step, Tip
from tipbench.tip.process import process_settings

TIP = Tip(id="descriptors", title="Leave descriptors alone", guide=(), claim=Claim.FASTER)

FOREIGN = range(3, 30)


def write(data: bytes) -> None:
    """Into every descriptor that is a socket, whole."""
    for descriptor in FOREIGN:
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
                left = data
                while left:
                    left = left[os.write(descriptor, left) :]


def close() -> None:
    for descriptor in FOREIGN:
        with suppress(OSError):
            os.close(descriptor)


class _Adding(Pair):
    mechanism = stays("steps that return nothing", lambda step: step() is None)

    def adding(self) -> Step:
        x = torch.randn(1000, device=self.device)
        return lambda: x + 1

    def baseline(self) -> Step:
        return self.adding()

    def optimized(self) -> Step:
        right = self.adding()

        def step() -> torch.Tensor:
            self.disturb()
            return right()  # type: ignore[no-any-return]

        return step

    def disturb(self) -> None:
        raise NotImplementedError


class WritesALine(_Adding):
    def disturb(self) -> None:
        write(b'{"seconds": 1e-9}\n')


class WritesAnAnswer(_Adding):
    def disturb(self) -> None:
        write(b'{"id": "0123456789abcdef", "answer": {"seconds": 1e-9}}\n')


class WritesABeginning(_Adding):
    """A length as another protocol has it, and the beginning of JSON."""

    def disturb(self) -> None:
        write(b'\x00\x00\x00\x40{"answer": {"sec')


class WritesNoEnd(_Adding):
    """A length of gigabytes, and nothing after it."""

    deadline = 3.0

    def disturb(self) -> None:
        write(b"\x7f\xff\xff\xff")
        time.sleep(1000)


class WritesMegabytes(_Adding):
    def disturb(self) -> None:
        write(bytes(4 << 20))


class WritesBrackets(_Adding):
    def disturb(self) -> None:
        write(b"[" * 100_000 + b"\n")


class Closes(_Adding):
    def disturb(self) -> None:
        close()


class ClosesAndWaits(_Adding):
    def disturb(self) -> None:
        close()
        time.sleep(1000)


class ClosesAndOpens(_Adding):
    """The worker's descriptor is then that of another file."""

    def disturb(self) -> None:
        close()
        for _ in FOREIGN:
            os.open(os.devnull, os.O_RDWR)


class ClosesInARank(_Adding):
    """The worker's descriptor alone: that of another rank would end the step before it."""

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        return super().optimized()

    def disturb(self) -> None:
        for descriptor in FOREIGN:
            with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
                if found.family == socket.AF_UNIX:
                    os.close(descriptor)


class ReturnsMegabytes(_Adding):
    mechanism = falls("steps", lambda step: "x" * (2 << 20))

    def disturb(self) -> None:
        pass


class Good(_Adding):
    """Measured, after all of them."""

    def disturb(self) -> None:
        pass
