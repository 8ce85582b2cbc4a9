"""Freeze the weights of a compiled model that only infers, on a CPU.

`torch.compile` does not know that weights stay as they are. With inductor's setting `freezing` they are constants
of the compiled code: a batch normalisation is folded into the convolution before it, and weights are laid out
beforehand as oneDNN and MKL like them. On top of that inductor can write matrix products of its own, if they are
faster than the libraries' (`max_autotune`).

Why people write the baseline: it is the model as written. Who compiles for inference often leaves it at
`model.compile()`, the tip `compile-modes`, which is to be compared with this one.

What to expect: what compiling brings, and more where convolutions or linear layers take much of the time. Freezing
is paid for in every process, as frozen graphs are not cached, and `max_autotune` tries several kernels for each
shape. Frozen weights cannot be trained or loaded anew.

`tipbench advise` does not try it: `torch.compile(model, options={"freezing": True})` alone does not freeze, tried
on torch 2.15: the front end reads the setting as well, and sees it only where it is set while the model is called
for the first time, without gradients.
"""

from functools import partial

import torch
from torch import nn

from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import RunGPT
from tipbench.tip.words import *

TIP = Tip(
    id="frozen-weights",
    title="Freeze the weights of a model compiled for inference",
    do=(
        "example, _ = next(iter(loader))\n"
        "torch.set_grad_enabled(False)  # in each thread that infers: else frozen code is not used\n"
        'model.eval().compile(options={"freezing": True})  # to infer alone; load weights before\n'
        "from torch._inductor import config as inductor\n"
        "with inductor.patch(freezing=True): model(example.to(device))  # compiles"
    ),
    ways={
        "max_autotune": (
            "example, _ = next(iter(loader))\n"
            "torch.set_grad_enabled(False)  # in each thread that infers: else frozen code is not used\n"
            'model.eval().compile(options={"freezing": True, "max_autotune": True})  # to infer alone\n'
            "from torch._inductor import config as inductor\n"
            "with inductor.patch(freezing=True): model(example.to(device))  # compiles"
        ),
    },
    when="the model only infers, for minutes, in batches of few shapes",
    against="eager mode",
    guide=("M14",),
    claim=Claim.FASTER,
    called="freezing",
    once="compiling",
    one_of="compiled model",
    mechanism=Mechanism(
        "operations dispatched, and those on packed weights",
        lambda step: [operations(step), calls(step, "mkldnn::*") + calls(step, "mkl::*")],
        lambda baseline, optimized: optimized[0] < baseline[0],
    ),
    why_not="Convolutions and matrix products take nearly all of the time, and on both sides they are the libraries'.",
)


def freeze(job: Job, **options: bool) -> None:
    """The tip, on any inference job whose batches all have the same shape."""
    inputs, _ = next(iter(job.loader()))
    compile_frozen(job.model, inputs.to(job.device), **options)


def compile_frozen(model: nn.Module, example: torch.Tensor, **options: bool) -> None:
    # The option keeps the frozen code apart from other code of the same model in this process. What freezes is the
    # setting, which must hold during the first call, and gradients must be off.
    model.compile(options={"freezing": True, **options})
    with torch._inductor.config.patch(freezing=True), torch.no_grad():
        model(example)


autotuned = partial(freeze, max_autotune=True)


class ResNetInference(RunResNet, apply=freeze, max_autotune=autotuned):
    """ResNet-18 run over JPEG files, loading included."""

    devices = ("cpu",)
    needs = (compiler(), torchvision())


class GPTInference(RunGPT, apply=freeze, max_autotune=autotuned):
    """A small GPT run over text."""

    devices = ("cpu",)
    needs = (compiler(),)
