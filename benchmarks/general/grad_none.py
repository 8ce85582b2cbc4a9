"""Set gradients to None instead of zero.

`optimizer.zero_grad(set_to_none=False)` fills every gradient with zeros, and the next backward pass reads
them, adds to them, and writes them back. With `optimizer.zero_grad()` there are no gradients until the
backward pass makes them: nothing is filled, and nothing is added.

Why people write the baseline: until torch 2.0 it was the default, and `set_to_none=False`, or a loop of
`parameter.grad.zero_()`, is in much code from before. Today the tip is to leave the default alone; the
baseline here is the old way on purpose.

What to expect: little, and most where parameters are many and small, or large beside a small batch. Part
of the saving is in the backward pass, so the whole step is timed. Between two steps the gradients' memory
is free.

The two ways differ for a parameter that gets no gradient in a step: a zero still moves momentum and decays
weights, None leaves the parameter alone. Here all get one.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import nn

from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="grad-none",
    title="Set gradients to None instead of zero",
    do="optimizer.zero_grad()",
    ways={"by_hand": ""},
    when="you pass set_to_none=False",
    against="optimizer.zero_grad(set_to_none=False)",
    guide=("A1.4",),
    claim=Claim.FASTER,
    called="zero_grad()",
    mechanism=falls("tensors filled with zeros", lambda step: calls(step, "aten::zero_")),
    status="default now (since torch 2.0)",
    note="zero gradients still move momentum, None does not",
    why_not=(
        "Zeroing is one pass over the gradients, next to a forward pass, a backward pass and an optimizer that "
        "each make several."
    ),
)


def grad_none(job: Job) -> None:
    """The tip, on any training job: `optimizer.zero_grad()` as it is since torch 2.0."""
    zero_gradients(job, set_to_none=True)


def grad_zero(job: Job) -> None:
    """The old way."""
    zero_gradients(job, set_to_none=False)


def zero_gradients(job: Job, set_to_none: bool) -> None:
    """As if the job's loop called `optimizer.zero_grad(set_to_none=...)`."""
    assert job.optimizer is not None
    job.optimizer.zero_grad = partial(job.optimizer.zero_grad, set_to_none=set_to_none)  # type: ignore[method-assign]


def grad_none_by_hand(job: Job) -> None:
    """The tip as the guide writes it, for torch before 1.7."""
    assert job.optimizer is not None
    job.optimizer.zero_grad = partial(forget, list(job.model.parameters()))  # type: ignore[method-assign]


def forget(parameters: Iterable[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None


class SmallParameters(Pair):
    """A whole training step of five hundred small parameters, whose operations are small too."""

    sizes = Sizes(dict(parameters=500, elements=1000), test=dict(parameters=10, elements=100))

    def training(self, clear: Callable[[torch.optim.Optimizer, nn.Module], None]) -> Step:
        count, elements = self.size["parameters"], self.size["elements"]
        model = nn.ParameterList(nn.Parameter(torch.randn(elements, device=self.device)) for _ in range(count))
        inputs = torch.randn(elements, device=self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

        def step() -> tuple[torch.Tensor, nn.Module]:
            clear(optimizer, model)
            loss = sum(parameter * inputs for parameter in model).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach(), model

        return step

    def baseline(self) -> Step:
        return self.training(lambda optimizer, model: optimizer.zero_grad(set_to_none=False))

    def optimized(self) -> Step:
        return self.training(lambda optimizer, model: optimizer.zero_grad())

    @variant
    def by_hand(self) -> Step:
        return self.training(lambda optimizer, model: forget(model.parameters()))


class FewParameters(SmallParameters):
    """A tenth as many of them."""

    sizes = Sizes(dict(parameters=50, elements=1000), test=dict(parameters=5, elements=100))


class ManyParameters(SmallParameters):
    """Ten times as many."""

    sizes = Sizes(dict(parameters=5000, elements=1000), test=dict(parameters=20, elements=100))


class GPTTraining(TrainGPT, untuned=grad_zero, apply=grad_none, by_hand=grad_none_by_hand):
    """Training a GPT with AdamW on small batches, so that the parameters matter beside the activations."""
