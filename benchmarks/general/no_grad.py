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

from benchmarks.jobs.image_classification import RunResNet, image_classification
from benchmarks.jobs.language_model import RunEncoder, text_encoder
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

    sizes = RunEncoder.sizes.but(M=dict(batch=16), L=dict(batch=16), test=dict(context=8, batch=2))

    def job(self) -> Job:
        return text_encoder(self.device, **self.size)


def writes_a_graph(job: Job) -> str:
    if job.optimizer is not None:
        return "the job trains, which needs gradients"
    wanted = any(parameter.requires_grad for parameter in job.model.parameters())
    return "" if wanted and torch.is_grad_enabled() else "no gradients are calculated already"


ON_ANY_JOB = (Way(no_grad, writes_a_graph, mends=True),)
