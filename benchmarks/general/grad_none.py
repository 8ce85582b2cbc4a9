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

from functools import partial

import torch
from torch import nn

from benchmarks.jobs.language_model import language_model
from tipbench.tip.counts import calls
from tipbench.tip.job import Job, MacroPair
from tipbench.tip.pair import Claim, Pair, Step, Tip

TIP = Tip(
    id="grad-none",
    title="Set gradients to None instead of zero",
    guide=("A1.4",),
    claim=Claim.FASTER,
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


def zero_gradients(job: Job, set_to_none: bool) -> None:
    """As if the job's loop called `optimizer.zero_grad(set_to_none=...)`."""
    assert job.optimizer is not None
    job.optimizer.zero_grad = partial(job.optimizer.zero_grad, set_to_none=set_to_none)  # type: ignore[method-assign]


class SmallParameters(Pair):
    """A whole training step of five hundred small parameters, whose operations are small too."""

    sizes = {"parameters": 500, "elements": 1000}
    test_sizes = {"parameters": 10, "elements": 100}

    def parameters(self) -> list[nn.Parameter]:
        elements = self.size["elements"]
        return [nn.Parameter(torch.randn(elements, device=self.device)) for _ in range(self.size["parameters"])]

    def inputs(self) -> torch.Tensor:
        return torch.randn(self.size["elements"], device=self.device)

    def loss(self, parameters: list[nn.Parameter], inputs: torch.Tensor) -> torch.Tensor:
        total = parameters[0] * inputs
        for parameter in parameters[1:]:
            total = total + parameter * inputs
        return total.square().mean()

    def baseline(self) -> Step:
        parameters, inputs = self.parameters(), self.inputs()
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
        model = nn.ParameterList(parameters)

        def step() -> tuple[torch.Tensor, nn.Module]:
            optimizer.zero_grad(set_to_none=False)
            loss = self.loss(parameters, inputs)
            loss.backward()
            optimizer.step()
            return loss.detach(), model

        return step

    def optimized(self) -> Step:
        parameters, inputs = self.parameters(), self.inputs()
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
        model = nn.ParameterList(parameters)

        def step() -> tuple[torch.Tensor, nn.Module]:
            optimizer.zero_grad()
            loss = self.loss(parameters, inputs)
            loss.backward()
            optimizer.step()
            return loss.detach(), model

        return step

    def mechanism(self, step: Step) -> int:
        """tensors filled with zeros"""
        return calls(step, "aten::zero_")


class GPTTraining(MacroPair):
    """Training a GPT with AdamW on small batches, so that the parameters matter beside the activations."""

    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    sizes = {"layers": 3, "width": 256, "context": 64, "batch": 2}
    on_gpu = {"layers": 12, "width": 768}
    test_sizes = {"layers": 1, "width": 16, "context": 8}

    def job(self) -> Job:
        return language_model(self.device, activation=nn.GELU, **self.size)

    def baseline(self) -> Step:
        job = self.job()
        zero_gradients(job, set_to_none=False)
        return job.step

    def apply(self, job: Job) -> None:
        grad_none(job)

    def mechanism(self, step: Step) -> int:
        """tensors filled with zeros"""
        return calls(step, "aten::zero_")
