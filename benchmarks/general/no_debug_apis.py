"""Switch debug APIs off for real runs.

Anomaly mode stores a stack trace with every operation and checks every gradient for NaN; the profiler
writes down every operation. Both are for finding an error, and cost time as long as they are on.

Why people write the baseline: the switch was turned on to find a NaN, and stayed. Here the `baseline`
is the forgotten switch, `optimized` the same step without it.

What to expect: much less time where operations are small, as each has its share of the writing down; little
where they are large. Nothing is gained by a program that never switched them on.
"""

import torch
from torch import nn

from benchmarks.jobs.image_classification import image_classification
from tipbench.tip.counts import stack_traces
from tipbench.tip.job import Job, MacroPair
from tipbench.tip.needs import torchvision
from tipbench.tip.pair import Claim, Equal, Pair, Step, Tip
from tipbench.tip.process import within

TIP = Tip(
    id="no-debug-apis",
    title="Switch debug APIs off for real runs",
    guide=("A1.8",),
    claim=Claim.AVOIDS,
)


def anomaly_mode() -> torch.autograd.set_detect_anomaly:
    """`torch.autograd.detect_anomaly()`, less the warning that it prints each time."""
    return torch.autograd.set_detect_anomaly(True)


def profiler() -> torch.profiler.profile:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])


class _PerceptronTraining(Pair):
    """Training a small multilayer perceptron."""

    equal = Equal.BITWISE
    sizes = {"layers": 8, "batch": 64, "width": 128}
    test_sizes = {"layers": 2, "batch": 4, "width": 8}

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


class AnomalyMode(_PerceptronTraining):
    """`detect_anomaly` left on around the training of a small multilayer perceptron."""

    @within(anomaly_mode)
    def baseline(self) -> Step:
        return self.training()

    def optimized(self) -> Step:
        return self.training()

    def mechanism(self, step: Step) -> int:
        """stack traces recorded"""
        return stack_traces(step)


class Profiler(_PerceptronTraining):
    """`torch.profiler.profile` left on around the same training."""

    @within(profiler)
    def baseline(self) -> Step:
        return self.training()

    def optimized(self) -> Step:
        return self.training()

    def mechanism(self, step: Step) -> int:
        """profilers watching"""
        step()
        return int(torch._C._autograd._profiler_enabled())


class ResNetTraining(MacroPair):
    """`detect_anomaly` left on around the training of a ResNet-18 on JPEG files."""

    needs = (torchvision(),)
    # The gradients of convolutions are added up on a GPU in no fixed order. That puts a few ReLUs on the other side
    # of zero, and then whole gradients differ: so both sides are compared with fp64.
    equal = Equal.REFERENCE
    tolerance = 1e-2
    sizes = {"batch": 4, "pixels": 64}
    on_gpu = {"batch": 32, "pixels": 224}
    test_sizes = {"batch": 4, "pixels": 64}

    def job(self) -> Job:
        return image_classification(self.device, model="resnet18", train=True, **self.size)

    def reference(self) -> Step:
        job = self.job()
        job.model.double()
        job.convert_inputs(torch.Tensor.double)
        return job.step

    @within(anomaly_mode)
    def baseline(self) -> Step:
        return self.job().step

    def optimized(self) -> Step:
        return self.job().step

    def mechanism(self, step: Step) -> int:
        """stack traces recorded"""
        return stack_traces(step)
