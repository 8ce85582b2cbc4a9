"""Multiply float32 numbers in bfloat16, on a CPU with AMX.

oneDNN, which multiplies matrices and convolves on CPUs, can round float32 numbers to bfloat16 where it multiplies
them, and add up in float32. Weights, activations and gradients stay float32, and so does every other operation: that is
what distinguishes it from `autocast`, which casts tensors and has most operations work on 16 bits. oneDNN does so with
AMX. On a CPU with AVX512-BF16 alone its log shows float32 kernels all the same (oneDNN 3.13).

Why people write the baseline: it is the default.

What to expect: faster matrix products and convolutions at 8 bits of precision, and nothing anywhere else. Casting takes
time too, so small products gain nothing. Whether a training bears it is a question of its score, as with `amp`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch

from benchmarks.gpu.tensor_cores import precision
from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="bfloat16-products",
    title="Multiply float32 numbers in bfloat16 on a CPU with AMX",
    do='torch.backends.mkldnn.matmul.fp32_precision = "bf16"\ntorch.backends.mkldnn.conv.fp32_precision = "bf16"',
    against="float32 in full precision",
    guide=("M12",),
    claim=Claim.FASTER,
    mechanism=appears("kernels that multiply in bfloat16", bfloat16_kernels),
    why_not="Rounding the operands takes time too: small products cost what bfloat16 saves.",
)

PARTS: Any = torch.backends.mkldnn
"""Its type does not say that it has the parts `matmul` and `conv`."""


@contextmanager
def bfloat16_products() -> Iterator[None]:
    """The tip, as long as it is in force."""
    with precision(PARTS.matmul, "bf16"), precision(PARTS.conv, "bf16"):
        yield


def in_bfloat16(job: Job) -> None:
    """The tip, on any job; in a program of one's own it is two lines at the start."""
    job.run = bfloat16_products()(job.run)  # type: ignore[method-assign]


class _Products(Pair):
    devices = ("cpu",)
    needs: ClassVar[tuple[Need, ...]] = (amx(),)
    equal = Equal.LOSSY
    tolerance = 1e-2


class GPTTraining(_Products, TrainGPT, apply=in_bfloat16):
    """Training a small GPT."""


class ResNetInference(_Products, RunResNet, apply=in_bfloat16):
    """ResNet-18 run over JPEG files, loading included."""

    needs = (amx(), torchvision())


ON_ANY_JOB = (Way(switch=bfloat16_products, needs=(amx(),), devices=("cpu",), changes_numbers=True),)
