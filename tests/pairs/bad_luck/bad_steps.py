"""Pairs whose optimized side is built wrong, or whose step ends badly."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, stays

TIP = Tip(id="bad-steps", title="End badly", guide=(), claim=Claim.FASTER)


def returned(step: Step) -> int:
    step()
    return 1


class _Bad(Pair):
    """The baseline is right; `optimized` ends in `bad`, at its first step."""

    mechanism = stays("steps that returned", returned)

    def baseline(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: x + 1

    def optimized(self) -> Step:
        return self.bad

    def bad(self) -> Any:
        raise NotImplementedError


class BuilderRaises(_Bad):
    def optimized(self) -> Step:
        raise LookupError("no weights here")


class BuilderReturnsNoStep(_Bad):
    def optimized(self) -> Step:
        return torch.ones(3)  # type: ignore[return-value]


class RaisesAtStepThree(_Bad):
    """Later than the checks step, so that it shows only when the step is repeated."""

    def optimized(self) -> Step:
        right, number = self.baseline(), count(1)

        def step() -> Any:
            if next(number) == 3:
                raise ValueError("three is too many")
            return right()

        return step


class Segfaults(_Bad):
    def bad(self) -> Any:
        return ctypes.string_at(0)


class Exits(_Bad):
    def bad(self) -> Any:
        print("last words")
        os._exit(3)


class SystemExits(_Bad):
    def bad(self) -> Any:
        sys.exit("enough")


class IsKilled(_Bad):
    def bad(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


class AllocatesTooMuch(_Bad):
    def bad(self) -> Any:
        return torch.empty(1 << 50)


class RaisesMemoryError(_Bad):
    def bad(self) -> Any:
        return bytearray(1 << 60)


class Hangs(_Bad):
    """With a child in a session of its own, as torchrun starts them: a signal to the group does not reach it."""

    def bad(self) -> Any:
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        Path(os.environ["TMPDIR"], "child").write_text(str(child.pid))
        time.sleep(1000)


class ClosesItsConnection(_Bad):
    """As a step does that closes every descriptor, to become a daemon."""

    def optimized(self) -> Step:
        right = self.baseline()

        def step() -> Any:
            for descriptor in range(3, 30):
                with suppress(OSError):
                    os.close(descriptor)
            return right()

        return step


class FloodsOutput(_Bad):
    """A megabyte each step: within bounds while it is checked, a flood once it is repeated."""

    def optimized(self) -> Step:
        right = self.baseline()

        def step() -> Any:
            print("x" * (1 << 20))
            return right()

        return step
