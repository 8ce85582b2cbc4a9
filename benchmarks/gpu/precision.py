"""One job in every precision that a GPU multiplies: float32 as torch comes, TF32, 16 bits, and 8.

`tensor-cores`, `amp` and `compile-modes` are the tips; here each step of the ladder is set against the same float32. No
guide gives this as a tip, and no count of answers holds it. A ResNet's convolutions take TF32 as torch comes.

float8 has torch's own scaled products, with one scale for a whole tensor: inputs and weights are cut to 3 bits behind
the point (e4m3), gradients to 2 (e5m2), and results are in bfloat16. Scales are read from the tensors in each step,
which pays only if products are large and a compiler fuses it: uncompiled, float8 was slower than bfloat16
(https://github.com/pytorch/ao/issues/2262, https://github.com/pytorch/ao/issues/1297). So it stands beside bfloat16
that is compiled. Embeddings, norms and the head keep the precision of autocast.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import ScalingType, scaled_mm

from benchmarks.gpu.amp import amp, amp_in_float16
from benchmarks.gpu.tensor_cores import tensor_cores
from benchmarks.jobs.image_classification import TrainResNet
from benchmarks.jobs.language_model import TrainGPT, gpt_blocks
from benchmarks.modern.compile_modes import compile_model
from benchmarks.together import all_of
from tipbench.tip.words import *

STEPS = 20
"""After which the loss is read."""


def kernels_and_loss(step: Step) -> str:
    kernels = tensor_core_kernels(step)
    losses = [step()[0] for _ in range(STEPS)]
    return f"{kernels}, {losses[-1].item():.4f}"


TIP = Tip(
    id="precision",
    title="Train in every precision",
    guide=(),
    claim=Claim.FASTER,
    called="bfloat16",
    ways={"tf32": "", "float16": "", "compiled": "", "float8": ""},
    against="float32 as torch comes",
    mechanism=changes(f"kernels on tensor cores, and loss after {STEPS} steps more", kernels_and_loss),
)


def scaled(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The tensor in float8, and what to multiply it with to have it back."""
    factor = torch.finfo(dtype).max / tensor.abs().amax().float().clamp(min=1e-12)
    return (tensor * factor).to(dtype), factor.reciprocal()


def product(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> torch.Tensor:
    """a @ b in bfloat16; cuBLAS wants the first by rows and the second by columns. dtype: of the first."""
    of_all = ScalingType.TensorWise
    (rows, by_rows), (columns, by_columns) = (
        scaled(a.contiguous(), dtype),
        scaled(b.mT.contiguous(), torch.float8_e4m3fn),
    )
    result: torch.Tensor = scaled_mm(rows, columns.mT, by_rows, of_all, by_columns, of_all)
    return result


class Float8Product(torch.autograd.Function):
    """inputs @ weight.T, and both products of its backward pass, in float8."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(inputs, weight)
        return product(inputs, weight.mT)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, weight = ctx.saved_tensors
        far = torch.float8_e5m2
        return product(gradient, weight, far), product(gradient.mT, inputs, far)


class Float8Linear(nn.Linear):
    """Rows, inputs and outputs are multiples of 16."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        rows = Float8Product.apply(inputs.flatten(0, -2).bfloat16(), self.weight.bfloat16())
        outputs: torch.Tensor = rows.unflatten(0, inputs.shape[:-1])
        return outputs if self.bias is None else outputs + self.bias


def float8_layers(job: Job) -> None:
    """The linear layers of a GPT's blocks in float8, all else as in `amp`."""
    amp(job)
    for layer in gpt_blocks(job).modules():
        if isinstance(layer, nn.Linear):
            layer.__class__ = Float8Linear


compiled = all_of(amp, compile_model)
float8 = requires(float8_units())(all_of(float8_layers, compile_model))


class GPTTraining(TrainGPT, apply=amp, tf32=tensor_cores, float16=amp_in_float16, compiled=compiled, float8=float8):
    """Training a GPT."""

    devices = ("cuda",)
    needs = (gpu(1), bfloat16(), compiler())
    equal = Equal.LOSSY
    tolerance = 1e-1
    sizes = Sizes(
        dict(layers=6, width=768, context=256, batch=16),
        L=dict(layers=12, context=512),
        test=dict(layers=1, width=128, context=64, batch=4),
    )


class ResNetTraining(TrainResNet, apply=amp, float16=amp_in_float16):
    """Training ResNet-18 on photos that are on the card."""

    devices = ("cuda",)
    needs = (gpu(1), bfloat16(), *TrainResNet.needs)
    equal = Equal.LOSSY
    tolerance = 1e-1
