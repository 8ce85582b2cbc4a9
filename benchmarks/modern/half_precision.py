"""Run a model that infers in half precision: weights, inputs and activations in 16 bits.

`model.bfloat16()` rounds the weights once, to the range of float32 and 8 binary digits. Products run on units for
bfloat16, and there is half as much to read and write. `autocast` rounds float32 weights anew in each call.

Why people write the baseline: float32 is what the model was trained in, so nobody has to look at its results anew.

What to expect: much where products take most of the time, or reading the weights does, as with few tokens at once.
The error against fp64 is shown; what it costs in score only your own data tell.

Traps. Outputs come in bfloat16, in which softmax and sums lose digits, and which NumPy does not have: convert them.
Inputs are rounded too, so a year is lost; tokens are integers and stay. Where `forward` makes float32 tensors of its
own, such as a mask, it raises or goes on in float32: `autocast` fits. `model.to(dtype)` would also make complex buffers
real. float16 ends at 65,504; it is for cards before compute capability 8.0. CPUs without units for a type may take
hundreds of times as long (https://github.com/pytorch/pytorch/issues/146508). Under
`autocast`, PyTorch's TransformerEncoder on a card leaves its fused path.
"""

from functools import partial
from operator import methodcaller
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from benchmarks.gpu.amp import amp, tf32_if_any
from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import RunEncoder, RunGPT
from tipbench.tip.words import *

TIP = Tip(
    id="half-precision",
    title="Run a model that infers in half precision",
    do=(
        "model.bfloat16()  # load the weights before; if forward() itself makes float32 tensors, use autocast instead\n"
        "outputs = model(batch.bfloat16() if batch.is_floating_point() else batch).float()  # each tensor it returns"
    ),
    ways={
        "autocast": (
            "# an LSTM may raise (pytorch#187334)\n"
            "with torch.autocast(torch.device(device).type, dtype=torch.bfloat16): outputs = model(batch)\n"
            "outputs = outputs.float()  # on a CPU nn.TransformerEncoder raises with a padding mask (pytorch#107663)"
        ),
        "float16": (
            "model.half()  # load the weights before; numbers beyond 65,504 become infinite\n"
            "outputs = model(batch.half() if batch.is_floating_point() else batch).float()  # each tensor it returns"
        ),
    },
    when="the model only infers, and its score, measured again in 16 bits, is good enough",
    against="float32 (TF32 on cards)",
    guide=("M26",),
    claim=Claim.FASTER,
    called="bfloat16 weights",
    one_of="half precision",
    mechanism=appears("modules whose output has 16 bits", low_precision_outputs),
    why_not="Little of the time is that of products, convolutions and reading weights; loading takes as long as ever.",
)


def halve(job: Job, half: Any = methodcaller("bfloat16")) -> None:
    """The tip, on any inference job whose model makes no float32 tensors itself. half: of modules and of tensors."""

    def floats(change: Any, tensors: Any) -> Any:
        return tree_map_only(torch.Tensor, lambda each: change(each) if each.is_floating_point() else each, tensors)

    half(job.model)
    convert, run = job.convert, job.run
    job.convert_inputs(lambda inputs: floats(half, convert(inputs)))
    job.run = lambda *batch: floats(torch.Tensor.float, run(*batch))  # type: ignore[method-assign]


FLOAT16, AUTOCAST = requires(gpu())(partial(halve, half=methodcaller("half"))), requires(bfloat16())(partial(amp))


class _Inference(MacroPair, untuned=tf32_if_any, apply=halve, autocast=AUTOCAST, float16=FLOAT16):
    equal, tolerance = Equal.LOSSY, 3e-2

    @requires(bfloat16())
    def optimized(self) -> Step:
        return super().optimized()


class GPTInference(_Inference, RunGPT):
    """A small GPT run over text."""


class ResNetInference(_Inference, RunResNet):
    """ResNet-18 run over JPEG files, on a CPU loading included."""


class EncoderInference(_Inference, RunEncoder):
    """PyTorch's own TransformerEncoder run over text."""


def infers_in_float32(job: Job) -> str:
    is_float32 = any(parameter.dtype is torch.float32 for parameter in job.model.parameters())
    return "the job trains" if job.optimizer else "" if is_float32 else "the model has no weights in float32"


ON_ANY_JOB = (
    Way(halve, infers_in_float32, needs=(bfloat16(),), changes_numbers=True),
    Way(amp, infers_in_float32, name="autocast", do=TIP.ways["autocast"], needs=(bfloat16(),), changes_numbers=True),
)
