"""No tip at all: the same code on both sides, so the only honest verdict is "no difference", or "at most 3 %".

Whatever these pairs show beside 0 % is error: of the machine, or of the harness. Every run
carries them, and the report prints them first, as this run's noise floor. They are chosen to be
hard to measure: large temporaries (the heap's layout changes their cost up to 2.5 times from one
process to the next), threads that wait for each other, many operations of a microsecond each.
"""

import torch
from torch import nn

from tipbench.tip.words import *

TIP = Tip(
    id="control",
    title="Identical code on both sides",
    guide=(),
    claim=Claim.FASTER,
    mechanism=stays("operations dispatched", operations),
    status="control: the verdict must be no difference, or at most 3 %",
)


class _Control(Pair):
    """Both sides are built by `build`."""

    equal = Equal.BITWISE
    truth = {"optimized": 1.0}

    def build(self) -> Step:
        raise NotImplementedError

    def baseline(self) -> Step:
        return self.build()

    def optimized(self) -> Step:
        return self.build()


class Pointwise(_Control):
    """Five operations, each with a temporary of 1 MB, on a GPU of 256 MB."""

    sizes = Sizes(dict(elements=2**18), L=dict(elements=2**26), test=dict(elements=1000))
    flush_l2 = True

    def build(self) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)
        return lambda: x * 0.5 * (1 + torch.erf(x / 1.41421))


class Convolution(_Control):
    """One 3x3 convolution, by all threads."""

    sizes = Sizes(dict(batch=8, channels=64, pixels=56), L=dict(batch=64), test=dict(batch=1, channels=4, pixels=8))
    flush_l2 = True

    def build(self) -> Step:
        channels, pixels = self.size["channels"], self.size["pixels"]
        conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, device=self.device).requires_grad_(False)
        images = torch.randn(self.size["batch"], channels, pixels, pixels, device=self.device)
        return lambda: conv(images)


class Copy(_Control):
    """A copy between two tensors that no cache holds."""

    sizes = Sizes(dict(elements=2**24), L=dict(elements=2**26), test=dict(elements=1000))
    flush_l2 = True

    def build(self) -> Step:
        source = torch.randn(self.size["elements"], device=self.device)
        copied = torch.empty_like(source)
        return lambda: copied.copy_(source)


class TrainingStep(_Control):
    """Forward, backward and optimizer step of a small multilayer perceptron."""

    sizes = Sizes(dict(batch=256, width=512), test=dict(batch=4, width=8))

    def build(self) -> Step:
        width = self.size["width"]
        model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)).to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        inputs = torch.randn(self.size["batch"], width, device=self.device)
        targets = torch.randint(10, (self.size["batch"],), device=self.device)

        def step() -> tuple[torch.Tensor, nn.Module]:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            return loss.detach(), model

        return step


class SmallOperations(_Control):
    """A chain of operations so small that only their dispatch costs time."""

    sizes = Sizes(dict(operations=200, elements=64), test=dict(operations=10))

    def build(self) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)

        def step() -> torch.Tensor:
            y = x
            for _ in range(self.size["operations"]):
                y = y + x
            return y

        return step


class OwnSurroundings(Pointwise):
    """Each side in a process of its own, as tips that change the process settings need it.

    TIPBENCH_SIDE is read by nobody: it only makes the two sides' process settings differ.
    """

    @process_settings(env={"TIPBENCH_SIDE": "a"})
    def baseline(self) -> Step:
        return self.build()

    @process_settings(env={"TIPBENCH_SIDE": "b"})
    def optimized(self) -> Step:
        return self.build()
