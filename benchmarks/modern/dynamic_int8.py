"""Multiply integers of 8 bits in the linear layers of a model that only infers, on a CPU.

torchao's `quantize_` rounds the weights of linear layers to 8 bits, once. Their inputs are rounded in every call, each
token on a scale of its own: that is what "dynamic" means, and why nothing must be calibrated. AVX512-VNNI and AMX
multiply such integers several times as fast as float32 numbers, and the weights take a quarter of the memory.

Why people write the baseline: float32 is what the model was trained in, so nobody has to look at its results anew.
Both sides are compiled with frozen weights, as the tip `frozen-weights` says, so that quantizing alone is measured.

What to expect: much where linear layers take most of the time, with few tokens as with many. Outputs are off by one or
two hundredths; what that costs in loss on held-out text is what `HeldOutLoss` counts, and of a model of your own only
its own score tells. Compile it: as written, rounding is a dozen small operations for each layer, which may cost more
than 8 bits save. Each new shape of the inputs is compiled anew (https://github.com/pytorch/ao/issues/4365).

`quantize_` passes over convolutions, for which there is `static-int8`, and over the projections of
`nn.MultiheadAttention`, so that little of PyTorch's own TransformerEncoder is quantized.

Weights alone are rounded by other configurations, and these brought nothing here. In float32 8 bits run no kernel of
their own, and 4 bits a slow one (torch 2.15, torchao 0.18). They are for models in bfloat16.
"""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import torch
from torch import nn

from benchmarks.jobs.language_model import RunGPT
from benchmarks.jobs.lessons import NEXT_BYTE, RATE, STEPS, Course
from benchmarks.modern.frozen_weights import compile_frozen, freeze
from tipbench.tip.counting import count
from tipbench.tip.words import *

TIP = Tip(
    id="dynamic-int8",
    title="Quantize linear layers dynamically to 8 bits for inference",
    do=(
        "from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_  # pip install torchao\n"
        "quantize_(model.eval(), Int8DynamicActivationInt8WeightConfig(set_inductor_config=False))  # to infer alone\n"
        "torch.set_grad_enabled(False)  # in each thread that infers: else frozen code is not used\n"
        "example, _ = next(iter(loader))\n"
        'model.compile(options={"freezing": True})\n'
        "from torch._inductor import config as inductor\n"
        "with inductor.patch(freezing=True): model(example.to(device))  # compiles\n"
        "# silently wrong in a process that has imported x86_inductor_quantizer, which static-int8 needs"
    ),
    when="the model's score bears it, it runs for minutes in batches of few shapes, without nn.TransformerEncoderLayer",
    against="float32, compiled with frozen weights",
    guide=("M15",),
    claim=Claim.FASTER,
    evidence="dynamic_int8.toml",
    called="dynamic quantization",
    once="quantizing and compiling",
    one_of="compiled model",
    mechanism=appears("kernels that multiply integers of 8 bits", int8_kernels),
    why_not="Rounding the inputs takes time too: small products cost what 8 bits save.",
)


INT8_NEEDS = (compiler(), int8(), torchao(), torch_from(2, 15))
"""torchao has not been tried with earlier versions of torch."""


def quantize(model: nn.Module) -> nn.Module:
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    # The settings of inductor that it would change are about GPUs, and would hold for the whole process.
    quantize_(model, Int8DynamicActivationInt8WeightConfig(set_inductor_config=False))
    return model


def infers_with_linear_layers(job: Job) -> str:
    if job.optimizer is not None:
        return "the job trains"
    kinds = {type(module) for module in job.model.modules()}
    if nn.TransformerEncoderLayer in kinds:
        return "nn.TransformerEncoderLayer takes no quantized weights"
    return "" if nn.Linear in kinds else "the model has no linear layers"


def quantized(job: Job) -> None:
    """The tip, on any inference job whose batches all have the same shape."""
    quantize(job.model)
    freeze(job)


def trained_before(course: Course, change: Callable[[nn.Module], nn.Module]) -> Training:
    """Networks that learn a lesson in float32, and are changed then. The step is inference."""
    lesson, device = course.lesson, torch.device("cpu")
    inputs, targets = lesson.held_out()
    model = change(lesson.network().eval().requires_grad_(False))
    compile_frozen(model, inputs)

    def train(seed: int) -> Trained:
        torch.manual_seed(seed)
        network = lesson.network()
        for _ in islice(course.optimizer_steps(network, STEPS, device), STEPS):
            pass
        with torch.no_grad():
            score = lesson.loss(change(network.eval())(inputs), targets).item()
        return Trained(STEPS, score <= lesson.target, score)

    infer = torch.no_grad()(lambda: model(inputs))
    return Training(infer, train, lesson.target, course.batch, lower_is_better=True, settings=course.settings)


class HeldOutLoss(Pair):
    """What the rounding costs in loss on held-out text: a small GPT is trained in float32, and quantized then.

    The network is too small for its time to say much.
    """

    devices = ("cpu",)
    needs = INT8_NEEDS
    equal = Equal.TARGET
    sizes = Sizes(dict(batch=16), test=dict(batch=2))

    def course(self) -> Course:
        return Course(NEXT_BYTE, RATE.chosen, batch=self.size["batch"])

    def baseline(self) -> Training:
        return trained_before(self.course(), lambda model: model)

    def optimized(self) -> Training:
        return trained_before(self.course(), lambda model: quantize(copy.deepcopy(model)))


class GPTInference(RunGPT, untuned=freeze, apply=quantized):
    """A small GPT run over text."""

    devices = ("cpu",)
    needs = INT8_NEEDS
    equal = Equal.LOSSY
    tolerance = 5e-2


def quantized_and_compiled(job: Job) -> None:
    """Whatever its batches are: the weights are frozen at the first call, within `freezing`."""
    quantize(job.model)
    job.model.compile(options={"freezing": True})


def freezing() -> AbstractContextManager[Any]:
    context: AbstractContextManager[Any] = torch._inductor.config.patch(freezing=True)
    return context


ON_ANY_JOB = (
    Way(
        quantized_and_compiled,
        infers_with_linear_layers,
        switch=freezing,
        needs=INT8_NEEDS,
        devices=("cpu",),
        changes_numbers=True,
    ),
)

if __name__ == "__main__":
    count(HeldOutLoss)
