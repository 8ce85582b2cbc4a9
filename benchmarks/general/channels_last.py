"""Use the channels_last memory format for vision models.

An image tensor of shape (batch, channels, height, width) can lie in memory channel after channel, as
it does by default, or pixel after pixel with all channels of a pixel side by side: channels_last.
The shape stays the same, the strides differ. The fast convolutions of oneDNN and of tensor cores want
the second order; given the first they convert on every call, or take a slower way.

Why people write the baseline: it is the default, and nothing warns of it.

What to expect: a gain in convolutional networks, largest in low precision on tensor cores. It can also
be slower (pytorch issues #50036, #82699), when an operation in between has no channels_last kernel.
"""

import torch
from torch import nn

from benchmarks.gpu.amp import amp
from benchmarks.jobs.image_classification import RunResNet, TrainResNet, image_inference
from tipbench.tip.words import *

TIP = Tip(
    id="channels-last",
    title="Use the channels_last memory format",
    do=(
        "# where .view() raises, of weights and gradients too: .reshape(); no LBFGS; safetensors: .contiguous()\n"
        "model = model.to(memory_format=torch.channels_last)  # before DDP\n"
        "outputs = model(batch.to(memory_format=torch.channels_last))  # of four dimensions"
    ),
    guide=("A1.6",),
    when="the model has 2-d convolutions, no 3-d ones, no .view(), and loads no fused=True optimizer state from before",
    claim=Claim.FASTER,
    mechanism=falls("layers whose output is not channels_last", not_channels_last),
    published="8-35 % on V100 with AMP, 26-76 % on Xeon 8380 (PyTorch memory-format tutorial)",
    note="sometimes slower: pytorch issues #50036, #82699",
    why_not=(
        "On a CPU, oneDNN brings either layout into a blocked one of its own where that pays, so little is left "
        "to gain; the published figures are of Tensor Cores and of a 40-core Xeon."
    ),
)


def channels_last(job: Job) -> None:
    """The tip, on any vision job. Parameters, and images on their way in, are converted; the rest follows."""
    job.model.to(memory_format=torch.channels_last)
    job.convert_inputs(lambda x: x.to(memory_format=torch.channels_last) if x.dim() == 4 else x)


class Convolution(Pair):
    """One 3x3 convolution, forward only."""

    sizes = Sizes(dict(batch=8, channels=64, pixels=56), L=dict(batch=64), test=dict(batch=2, channels=4, pixels=8))
    flush_l2 = True

    def convolution(self) -> nn.Conv2d:
        channels = self.size["channels"]
        return nn.Conv2d(channels, channels, kernel_size=3, padding=1, device=self.device).requires_grad_(False)

    def images(self) -> torch.Tensor:
        pixels = self.size["pixels"]
        return torch.randn(self.size["batch"], self.size["channels"], pixels, pixels, device=self.device)

    def baseline(self) -> Step:
        conv, images = self.convolution(), self.images()
        return lambda: conv(images)

    def optimized(self) -> Step:
        conv = self.convolution().to(memory_format=torch.channels_last)
        images = self.images().to(memory_format=torch.channels_last)
        return lambda: conv(images)


class ResNetTraining(TrainResNet, apply=channels_last):
    """ResNet-18 trained on JPEG files, on a CPU loading included."""


def channels_last_and_amp(job: Job) -> None:
    """The tip, on a job in mixed precision."""
    channels_last(job)
    amp(job)


class ResNetTrainingInBfloat16(TrainResNet, untuned=amp, apply=channels_last_and_amp):
    """The same in mixed precision on both sides: the guide's main case, for Tensor Cores."""

    against = "bfloat16 in the default memory format"
    needs = (*TrainResNet.needs, bfloat16())
    equal = Equal.LOSSY
    tolerance = 1e-1  # as of the tip amp


class ResNetInference(RunResNet, apply=channels_last):
    """ResNet-18 run over JPEG files, on a CPU loading included. The tip does not need `no_grad`; a user has it."""

    sizes = RunResNet.sizes.but(test=dict(batch=4, pixels=64))


class MobileNetInference(ResNetInference):
    """MobileNetV2 run over JPEG files. Its 3x3 convolutions, all but the first, are depthwise: a channel each."""

    sizes = ResNetInference.sizes.but(dict(batch=8))

    def job(self) -> Job:
        return image_inference(self.device, model="mobilenet_v2", **self.size)


ON_ANY_JOB = (Way(channels_last, needs_convolutions),)
