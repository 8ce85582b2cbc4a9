"""Pairs whose optimized step closes descriptors that are not its own: the worker's among them."""

import os
import socket
from contextlib import suppress

import torch

from tipbench.tip.mechanism import falls, stays
from tipbench.tip.pair import Claim, Pair, Step, Tip
from tipbench.tip.process import process_settings

TIP = Tip(id="descriptors", title="Leave descriptors alone", guide=(), claim=Claim.FASTER)

FOREIGN = range(3, 30)


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


class Closes(_Adding):
    def disturb(self) -> None:
        close()


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
