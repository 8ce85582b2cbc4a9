"""Compile the optimizer's step.

An optimizer written in Python dispatches a dozen small operations for each parameter. `torch.compile` makes
one graph of the whole step, and fuses the operations of each parameter into one loop over it.

The learning rate must then be a tensor. A number is compiled in as a constant, and a scheduler that changes
it would have the step compiled anew; a tensor is an input of the graph, and may change. No scheduler runs here,
but the tip is shown as it has to be applied where one does.

Why people write the baseline: `torch.compile(model)` is taken to cover training, but the optimizer is no part
of the model.

What to expect: the optimizer's part of a step several times shorter where parameters are many and small.
Compiling takes longer the more parameters there are: see after how many steps it has paid. For an optimizer
that has a `fused` implementation that one needs no compiler (the tip `fused-optimizer`); compiling works for
the others too.
"""

import torch
from torch import nn

from benchmarks.jobs.language_model import language_model
from tipbench.tip.counts import operations
from tipbench.tip.job import Job, MacroPair
from tipbench.tip.needs import compiler
from tipbench.tip.pair import Claim, Pair, Step, Tip

TIP = Tip(
    id="compiled-optimizer",
    title="Compile the optimizer",
    guide=("M11",),
    claim=Claim.FASTER,
)


def compile_optimizer(job: Job) -> None:
    """The tip, on any training job."""
    assert job.optimizer is not None
    compile_step(job.optimizer)


def compile_step(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])
    optimizer.step = torch.compile(optimizer.step)  # type: ignore[assignment, method-assign]


class ManyParameters(Pair):
    """One AdamW step of 16 small parameters, as biases and norms are, whose gradients are given."""

    needs = (compiler(),)
    sizes = {"parameters": 16, "elements": 1000}
    test_sizes = {"parameters": 5, "elements": 10}

    def parameters(self) -> nn.ParameterList:
        elements = self.size["elements"]
        model = nn.ParameterList(torch.randn(elements, device=self.device) for _ in range(self.size["parameters"]))
        for parameter in model:
            parameter.grad = torch.randn(elements, device=self.device)
        return model

    def baseline(self) -> Step:
        model = self.parameters()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step() -> nn.Module:
            optimizer.step()
            return model

        return step

    def optimized(self) -> Step:
        model = self.parameters()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        compile_step(optimizer)

        def step() -> nn.Module:
            optimizer.step()
            return model

        return step

    def mechanism(self, step: Step) -> int:
        """operations dispatched"""
        return operations(step)


class GPTTraining(MacroPair):
    """Training a small GPT with AdamW."""

    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    needs = (compiler(),)
    sizes = {"layers": 2, "width": 128, "context": 64, "batch": 2}
    on_gpu = {"layers": 6, "width": 512}
    test_sizes = {"layers": 1, "width": 16, "context": 8, "batch": 2}

    def job(self) -> Job:
        return language_model(self.device, activation=nn.GELU, **self.size)

    def apply(self, job: Job) -> None:
        compile_optimizer(job)

    def mechanism(self, step: Step) -> int:
        """operations dispatched"""
        return operations(step)
