"""Pairs that change what the other side runs with, and honest ones that change it back."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, process_settings, stays, within

TIP = Tip(id="switches", title="Change what the other side runs with", guide=(), claim=Claim.FASTER)


ENTERED = torch.inference_mode(), torch.autocast("cpu", torch.bfloat16)
"""Inference mode ends with the object that entered it."""


def change_every_switch() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cudnn.benchmark = True
    torch.backends.mkldnn.set_flags(False)
    torch.backends.cuda.enable_math_sdp(False)
    torch.set_num_threads(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_grad_enabled(False)
    for entered in ENTERED:
        entered.__enter__()
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    torch.set_flush_denormal(True)
    gc.disable()
    gc.set_threshold(100_000)
    sys.setswitchinterval(1.0)
    os.nice(1)
    os.environ["OMP_NUM_THREADS"] = "64"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class _Adding(Pair):
    mechanism = stays("nothing", lambda step: 0)

    def build(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: x + 1

    def changing(self, change: Callable[[], object]) -> Step:
        step = self.build()

        def changed() -> torch.Tensor:
            change()
            return step()  # type: ignore[no-any-return]

        return changed

    def baseline(self) -> Step:
        return self.build()

    def optimized(self) -> Step:
        return self.build()


class Builds(_Adding):
    """Changes everything in the build."""

    def optimized(self) -> Step:
        step = self.build()
        change_every_switch()
        return step


class Steps(_Adding):
    """Changes one in a step."""

    def optimized(self) -> Step:
        return self.changing(lambda: torch.set_default_dtype(torch.float64))


class StepsLater(_Adding):
    """Long after the check, in a block."""

    def optimized(self) -> Step:
        calls = count(1)

        def late() -> None:
            if next(calls) == 20:
                torch.set_num_threads(7)

        return self.changing(late)


class BeyondItsScope(_Adding):
    """A switch is declared, but another one is left changed."""

    @within(torch.no_grad)
    def optimized(self) -> Step:
        return self.changing(lambda: torch.set_num_threads(7))


class Baseline(_Adding):
    """It is the baseline that slows both sides down."""

    def baseline(self) -> Step:
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        return self.build()


@contextmanager
def seven_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(7)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Honest(_Adding):
    """Enters and leaves what it is about."""

    @within(seven_threads)
    def optimized(self) -> Step:
        return self.build()


class RestoresWhatItChanged(_Adding):
    """Within the build and within each step."""

    def optimized(self) -> Step:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            torch.ones(2, 2) @ torch.ones(2, 2)
        step = self.build()

        def restoring() -> torch.Tensor:
            with torch.no_grad(), seven_threads():
                return step()  # type: ignore[no-any-return]

        return restoring


class AloneInItsProcess(_Adding):
    """What cannot be undone is allowed to a variant with process settings of its own."""

    @process_settings(env={"TIPBENCH_SIDE": "alone"})
    def optimized(self) -> Step:
        torch.set_flush_denormal(True)
        torch.set_num_threads(1)
        return self.build()
