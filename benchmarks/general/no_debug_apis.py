"""Switch debug APIs off for real runs.

Anomaly mode stores a stack trace with every operation and checks every gradient for NaN; the profiler
writes down every operation. Both are for finding an error, and cost time as long as they are on.

Why people write the baseline: the switch was turned on to find a NaN, and stayed. Here the `baseline`
is the forgotten switch, `optimized` the same step without it.

What to expect: much less time where operations are small, as each has its share of the writing down; little
where they are large. Nothing is gained by a program that never switched them on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import nn

from benchmarks.jobs.image_classification import TrainResNet
from tipbench.tip.words import *

TIP = Tip(
    id="no-debug-apis",
    title="Switch debug APIs off for real runs",
    do="torch.autograd.set_detect_anomaly(False)  # and take out any `with detect_anomaly():`",
    when="you have left one on",
    against="anomaly mode left on",
    guide=("A1.8",),
    claim=Claim.FASTER,
    mechanism=falls("stack traces recorded", stack_traces),
)


def anomaly_mode() -> torch.autograd.set_detect_anomaly:
    """`torch.autograd.detect_anomaly()`, less the warning that it prints each time."""
    return torch.autograd.set_detect_anomaly(True)


def profiler() -> torch.profiler.profile:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


def profilers_watching(step: Step) -> int:
    step()
    return int(torch._C._autograd._profiler_enabled())


class Profiler(Pair):
    """`torch.profiler.profile` left on around the training of a small multilayer perceptron."""

    mechanism = falls("profilers watching", profilers_watching)
    equal = Equal.BITWISE
    sizes = Sizes(dict(layers=8, batch=64, width=128), test=dict(layers=2, batch=4, width=8))

    def training(self) -> Step:
        width = self.size["width"]
        hidden = [layer for _ in range(self.size["layers"]) for layer in (nn.Linear(width, width), nn.ReLU())]
        model = nn.Sequential(*hidden, nn.Linear(width, 10)).to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        inputs = torch.randn(self.size["batch"], width, device=self.device)
        targets = torch.randint(10, (self.size["batch"],), device=self.device)

        def step() -> tuple[torch.Tensor, nn.Module]:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            return loss.detach(), model

        return step

    @within(profiler)
    def baseline(self) -> Step:
        return self.training()

    def optimized(self) -> Step:
        return self.training()


class ResNetTraining(TrainResNet):
    """`detect_anomaly` left on around the training of a ResNet-18 on JPEG files."""

    @within(anomaly_mode)
    def baseline(self) -> Step:
        return self.applied(as_it_is)

    def optimized(self) -> Step:
        return self.applied(as_it_is)


@contextmanager
def no_anomaly_mode() -> Iterator[None]:
    """Off, also where a step turns it on itself."""
    with torch.autograd.set_detect_anomaly(False), patch.object(torch, "set_anomaly_enabled", lambda *_, **__: None):
        yield


ON_ANY_JOB = (
    Way(
        applies=anomaly_mode_on,
        do="# and take `with torch.autograd.detect_anomaly():` out of the step\n" + TIP.do,
        switch=no_anomaly_mode,
        mends=True,
    ),
)
