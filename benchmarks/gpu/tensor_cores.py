"""Let tensor cores multiply matrices.

GPUs since Volta have units for small matrix products. They take numbers of 16 bits, and since Ampere TF32 as
well: float32 cut to 10 bits behind the point, with sums in float32. cuDNN's convolutions use TF32 unless set
otherwise. Matrix products do not, since torch 1.12: `torch.set_float32_matmul_precision("high")` allows it, or
`torch.backends.cuda.matmul.fp32_precision = "tf32"`, which is what is set here.

Why people write the baseline: nobody sets it, because nobody says that the default leaves these units idle.

What to expect: large matrix products several times faster, at a hundredth of float32's precision: the error
against fp64 is measured and shown. 16 bits bring another factor of two: that is the tip `amp`, and they want sizes that
are multiples of 8: that is the tip `pad-sizes`. Convolutions gain nothing, as they have TF32 already: that baseline
switches it off. On a CPU there is the tip `bfloat16-products`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="tensor-cores",
    title="Let tensor cores multiply matrices",
    do='torch.backends.cuda.matmul.fp32_precision = "tf32"  # torch refuses to mix it with allow_tf32',
    against="float32 in full precision",
    guide=("A3.1",),
    claim=Claim.FASTER,
    called="TF32",
    mechanism=rises("kernels on tensor cores", tensor_core_kernels),
    published="TF32 about 7x on a product of 10240 x 10240 matrices on an A100 (PyTorch: CUDA semantics)",
    note="cuDNN's convolutions use TF32 by default, matrix products do not",
)


CUDNN: Any = torch.backends.cudnn
"""Its type does not say that it has the parts `conv` and `rnn`."""


@contextmanager
def precision(of: Any, value: str) -> Iterator[None]:
    """With float32 numbers computed as `value`, such as "tf32". of: a part of torch.backends, such as cudnn.conv."""
    before = of.fp32_precision
    of.fp32_precision = value
    try:
        yield
    finally:
        of.fp32_precision = before


def tf32_products() -> Any:
    return precision(torch.backends.cuda.matmul, "tf32")


def tensor_cores(job: Job) -> None:
    """The tip, on any job; in a program of one's own it is one line at the start."""
    job.run = tf32_products()(job.run)  # type: ignore[method-assign]


class _TensorCores(Pair):
    """Sizes in exact tests are large enough for cuBLAS and cuDNN to take tensor cores."""

    devices = ("cuda",)
    needs: ClassVar[Any] = (gpu(1),)
    equal = Equal.LOSSY
    tolerance = 1e-2


class MatrixProduct(_TensorCores):
    """The product of two square matrices."""

    sizes = Sizes(dict(width=8192), test=dict(width=256))

    def product(self, dtype: torch.dtype = torch.float32) -> Step:
        width = self.size["width"]
        a, b = (torch.randn(width, width, device=self.device).to(dtype) for _ in range(2))
        return lambda: a @ b

    @within(partial(precision, torch.backends.cuda.matmul, "ieee"))
    def baseline(self) -> Step:
        return self.product()

    @requires(tf32())
    @within(tf32_products)
    def optimized(self) -> Step:
        return self.product()

    def reference(self) -> Step:
        return self.product(torch.float64)


class Convolution(_TensorCores):
    """A 3x3 convolution, forward and backward, with TF32 switched off, and as it is by default."""

    sizes = Sizes(dict(batch=32, channels=256, pixels=56), test=dict(batch=4, channels=64, pixels=16))

    def training(self, dtype: torch.dtype = torch.float32) -> Step:
        channels, pixels = self.size["channels"], self.size["pixels"]
        layer = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False, device=self.device).to(dtype)
        images = torch.randn(self.size["batch"], channels, pixels, pixels, device=self.device).to(dtype)

        def step() -> tuple[torch.Tensor, ...]:
            output = layer(images)
            return output.detach(), *torch.autograd.grad(output.square().mean(), list(layer.parameters()))

        return step

    @within(partial(precision, CUDNN.conv, "ieee"))
    def baseline(self) -> Step:
        return self.training()

    @requires(tf32())
    @within(partial(precision, CUDNN.conv, "tf32"))
    def optimized(self) -> Step:
        return self.training()

    def reference(self) -> Step:
        return self.training(torch.float64)


class GPTTraining(_TensorCores, TrainGPT, apply=tensor_cores):
    """Training a GPT in float32."""

    needs = (gpu(1), tf32())
    # TF32 rounds to 10 bits, in every layer forward and back, and AdamW divides a gradient by its own size.
    tolerance = 1e-1
    sizes = Sizes(
        dict(layers=6, width=768, context=256, batch=16),
        L=dict(layers=12, context=512),
        test=dict(layers=1, width=128, context=64, batch=4),
    )

    @within(partial(precision, torch.backends.cuda.matmul, "ieee"))
    def baseline(self) -> Step:
        return super().baseline()


ON_ANY_JOB = (Way(switch=tf32_products, needs=(tf32(),), devices=("cuda",), changes_numbers=True),)
