"""Let cuDNN try out its convolution algorithms.

cuDNN has several ways to compute a convolution, and picks one by rules. With `torch.backends.cudnn.benchmark = True`
it runs them all at the first call with a shape it has not seen, times them, and keeps the fastest for that shape.

Why people write the baseline: it is off by default, since results may differ in rounding from run to run.

What to expect: some per cent, or nothing where the rules had picked well. Each new shape costs a search, so where
shapes keep changing it is a loss: that is the pair `ChangingShapes`. The search is what `ResNetTraining` costs once.

The setting is the process's, and so is what cuDNN has chosen: PyTorch keeps it by shapes, types and precision, not by
the setting. In one process the search would find every shape decided already, so it has a process of its own here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import torch
from torch import nn

from benchmarks.jobs.image_classification import TrainResNet, image_classification
from tipbench.tip.words import *

TIP = Tip(
    id="cudnn-benchmark",
    title="Let cuDNN try out its convolution algorithms",
    do="torch.backends.cudnn.benchmark = True",
    guide=("A3.3", "B5"),
    claim=Claim.FASTER,
    once="cuDNN's trials",
    mechanism=rises("kernels run for shapes that are new to cuDNN, those it tries out included", first_kernels),
    note=(
        "torch.backends.cudnn.flags(benchmark=True) also sets enabled=False, its default: pass enabled=True, or set "
        "torch.backends.cudnn.benchmark."
    ),
)


@contextmanager
def searching() -> Iterator[None]:
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def cudnn_benchmark(job: Job) -> None:
    """The tip, on any job; in a program of one's own it is one line at the start."""
    job.run = searching()(job.run)  # type: ignore[method-assign]


class ChangingShapes(Pair):
    """A 3x3 convolution on images whose width is another one in every step."""

    devices = ("cuda",)
    needs = (gpu(1),)
    tolerance = 1e-3  # two algorithms add up in another order
    sizes = Sizes(dict(batch=8, channels=64, pixels=64), test=dict(batch=1, channels=4, pixels=8))

    def build(self) -> Step:
        channels, pixels = self.size["channels"], self.size["pixels"]
        layer = nn.Conv2d(channels, channels, kernel_size=3, padding=1, device=self.device).requires_grad_(False)
        images = torch.randn(self.size["batch"], channels, pixels, 2 * pixels, device=self.device)
        numbers = count()

        def step() -> torch.Tensor:
            # A width and what it leaves of twice the pixels, so every step has the same work. The heights make
            # the shapes new for many more steps than there are widths.
            number = next(numbers)
            width, height = 1 + number % (2 * pixels - 1), pixels - number // (2 * pixels - 1) % (pixels // 2)
            left, right = images[:, :, :height, :width], images[:, :, :height, width:]
            return torch.cat([layer(left), layer(right)], dim=3)

        return step

    def baseline(self) -> Step:
        return self.build()

    @process_settings(own_process=True)
    @within(searching)
    def optimized(self) -> Step:
        return self.build()


class ResNetTraining(TrainResNet, apply=cudnn_benchmark):
    """ResNet-50 trained on photos that are on the card."""

    devices = ("cuda",)
    needs = (gpu(1), torchvision())

    def job(self) -> Job:
        return image_classification(self.device, model="resnet50", train=True, **self.size)

    @process_settings(own_process=True)
    def optimized(self) -> Step:
        return super().optimized()


ON_ANY_JOB = (Way(applies=needs_convolutions, own_process="searching", switch=searching, devices=("cuda",)),)
