"""Disable gradient calculation for validation and inference.

As long as a parameter requires a gradient, every operation on it also writes down how to go back:
a node of the autograd graph, with the tensors the backward pass would need. Inference never goes
back. `torch.no_grad()` writes nothing down; `torch.inference_mode()` also drops the version counters,
and its results can never enter a graph later.

Why people write the baseline: `model.eval()` looks as if it did this. It does not; it changes what
dropout and batch normalisation compute, and all sides here are in eval mode.

What to expect: little time where operations are large, more where they are small, and a lower
peak of memory, because no intermediate result is kept. PyTorch's TransformerEncoder gains most: only
without gradients does it take its fused path.
"""

import torch
from torch import nn

from benchmarks.jobs.image_classification import RunResNet, image_classification
from benchmarks.jobs.language_model import text_encoder
from tipbench.tip.words import *

TIP = Tip(
    id="no-grad",
    title="Disable gradient calculation for inference",
    do="with torch.no_grad(): outputs = model(batch)  # nn.TransformerEncoder then returns zeros at padding",
    ways={
        "inference_mode": "with torch.inference_mode(): outputs = model(batch)  # not to train with, or change in place"
    },
    when="inference still records gradients (under no_grad nn.TransformerEncoder returns zeros at padding)",
    against="gradients recorded",
    guide=("A1.2", "M5"),
    claim=Claim.FASTER,
    called="no_grad",
    mechanism=falls("autograd nodes behind the output", lambda step: autograd_nodes(step())),
)


def no_grad(job: Job) -> None:
    """The tip, on any inference job: as if the model were called within `with torch.no_grad():`."""
    job.model.forward = torch.no_grad()(job.model.forward)


def inference_mode(job: Job) -> None:
    """The newer way."""
    job.model.forward = torch.inference_mode()(job.model.forward)


class SmallOperations(Pair):
    """A chain of small operations on a parameter that requires a gradient."""

    sizes = Sizes(dict(operations=100, elements=1000), test=dict(operations=10))

    def chain(self) -> Step:
        factor = nn.Parameter(torch.rand(self.size["elements"], device=self.device) / 100 + 1)

        def step() -> torch.Tensor:
            y = torch.ones_like(factor)
            for _ in range(self.size["operations"]):
                y = y * factor
            return y

        return step

    def baseline(self) -> Step:
        return self.chain()

    def optimized(self) -> Step:
        return torch.no_grad()(self.chain())

    @variant
    def inference_mode(self) -> Step:
        return torch.inference_mode()(self.chain())


class _Inference(MacroPair, apply=no_grad, inference_mode=inference_mode):
    """The tip on a whole inference job. The output is kept until the next step, as by a user who reads it."""

    task = "inference"

    def step_of(self, job: Job) -> Step:
        return job.step


class ResNetInference(_Inference, RunResNet):
    """ResNet-18 run over JPEG files, on a CPU loading included: few and large operations."""

    def job(self) -> Job:
        return image_classification(self.device, model="resnet18", train=False, **self.size)


class TransformerEncoderInference(_Inference):
    """PyTorch's TransformerEncoder run over text: without gradients it takes its fused path."""

    sizes = Sizes(
        dict(layers=6, width=256, context=256, batch=4),
        M=dict(layers=8, width=512, batch=16),
        L=dict(layers=12, width=768, context=512),
        XL=dict(batch=64),
        test=dict(layers=1, width=16, context=8, batch=2),
    )

    def job(self) -> Job:
        return text_encoder(self.device, **self.size)


def writes_a_graph(job: Job) -> str:
    if job.optimizer is not None:
        return "the job trains, which needs gradients"
    wanted = any(parameter.requires_grad for parameter in job.model.parameters())
    return "" if wanted and torch.is_grad_enabled() else "no gradients are calculated already"


ON_ANY_JOB = (Way(no_grad, writes_a_graph, mends=True),)
