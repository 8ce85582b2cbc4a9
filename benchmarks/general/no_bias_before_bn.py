"""Leave out the bias of a convolution that batch normalisation follows.

In training, batch normalisation subtracts the mean of each channel from it. A bias adds the same number to
the whole channel, so it is part of that mean and gone again; and batch normalisation has a bias of its own.
`nn.Conv2d(..., bias=False)` saves adding it, its gradient (a sum over all pixels of the batch), and a
parameter for the optimizer.

Why people write the baseline: `bias=True` is the default of `nn.Conv2d`, and nothing warns of it.

What to expect: little. A bias is one addition for each number of the output, for which a 3x3 convolution
multiplies and adds nine times for each channel of its input. On CPUs oneDNN does the addition within the
convolution: both sides dispatch the same operations.

The first steps are alike on both sides, but for the bias itself. A model that has been trained with it must
keep it: the means that batch normalisation has gathered for inference contain it.
"""

import itertools
from typing import Any

import torch
from torch import nn

from benchmarks.jobs.image_classification import image_classification
from benchmarks.jobs.images import PHOTOS
from tipbench.tip.words import *


def biases_taken_away(step: Step) -> int:
    """Calls of convolutions with a bias whose output itself is what a batch normalisation is called with."""
    latest: Any = None

    def takes_away(module: nn.Module, inputs: Any, output: Any) -> bool:
        nonlocal latest
        if isinstance(module, nn.Conv2d):
            latest = output if module.bias is not None else None
        return isinstance(module, nn.BatchNorm2d) and inputs[0] is latest

    return over_modules(step, takes_away)


TIP = Tip(
    id="no-bias-before-bn",
    title="Leave out the bias of convolutions before batch normalisation",
    do=(
        "# with your other arguments; a checkpoint with these biases fits no more\n"
        "nn.Sequential(nn.Conv2d(channels, filters, kernel_size=3, padding=1, bias=False), nn.BatchNorm2d(filters))"
    ),
    guide=("A1.3", "B9"),
    claim=Claim.FASTER,
    mechanism=falls("biases that batch normalisation takes away", biases_taken_away),
    note="the guide says that torchvision's models do so already: its ResNets do, its vgg*_bn do not",
    why_not=(
        "On a CPU, oneDNN adds the bias while it writes the convolution's result, so leaving it out saves its "
        "gradient alone: one sum over what the backward pass reads anyway."
    ),
)


def no_bias_before_bn(job: Job) -> None:
    """The tip, on any job whose model is not trained yet: as if it had been written with `bias=False`."""
    convolutions = biased_before_bn(job.model)
    gone = {conv.bias for conv in convolutions}
    for conv in convolutions:
        conv.bias = None
    if job.optimizer is not None:
        for group in job.optimizer.param_groups:
            group["params"] = [parameter for parameter in group["params"] if parameter not in gone]


def biased_before_bn(model: nn.Module) -> list[nn.Conv2d]:
    """Convolutions with a bias that batch normalisation follows in an nn.Sequential."""
    return [
        first
        for sequence in model.modules()
        if isinstance(sequence, nn.Sequential)
        for first, second in itertools.pairwise(sequence)
        if isinstance(first, nn.Conv2d) and first.bias is not None and isinstance(second, nn.BatchNorm2d)
    ]


class ConvolutionAndNorm(Pair):
    """One 3x3 convolution and batch normalisation, forward and backward."""

    sizes = Sizes(
        dict(batch=8, channels=32, pixels=56), L=dict(batch=64, channels=64), test=dict(batch=2, channels=4, pixels=8)
    )

    def training(self, bias: bool) -> Step:
        channels, pixels = self.size["channels"], self.size["pixels"]
        shape = self.size["batch"], channels, pixels, pixels
        images = torch.randn(shape, device=self.device, requires_grad=True)
        upstream = torch.randn(shape, device=self.device)
        # Last: drawing the bias must not shift what is drawn for both sides.
        conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=bias, device=self.device)
        model = nn.Sequential(conv, nn.BatchNorm2d(channels, device=self.device))
        shared = [images, *(parameter for parameter in model.parameters() if parameter is not conv.bias)]
        wanted = shared if conv.bias is None else [*shared, conv.bias]

        def step() -> list[torch.Tensor]:
            output = model(images)
            gradients = torch.autograd.grad(output, wanted, upstream)
            # The gradient of the bias, which is rounding noise and comes last, has no counterpart.
            return [output.detach(), *gradients[: len(shared)]]

        return step

    def baseline(self) -> Step:
        return self.training(bias=True)

    def optimized(self) -> Step:
        return self.training(bias=False)


class WideConvolutionAndNorm(ConvolutionAndNorm):
    """The same with eight times the channels: 64 times the work for each pixel, as deep in a large model."""

    sizes = ConvolutionAndNorm.sizes.but(dict(channels=256, pixels=14), L=dict(channels=512), test=dict(channels=8))


class VGGTraining(MacroPair, apply=no_bias_before_bn):
    """The convolutions of torchvision's `vgg11_bn` trained on JPEG files, on a CPU loading included.

    In place of its classifier, whose 120 million parameters would cost more than the convolutions, it has
    one linear layer, as in later networks.
    """

    task = "training"
    needs = (torchvision(),)
    sizes = Sizes(dict(batch=8, pixels=64), L=dict(batch=32, pixels=224), test=dict(batch=4, pixels=32))
    # Rounding puts a few ReLUs on the other side of zero, and then whole gradients differ, on both sides
    # alike: so both are compared with fp64, by the error over all outputs together.
    equal = Equal.REFERENCE
    tolerance = 1e-2

    def job(self) -> Job:
        # Imported here: it takes a second, which pairs without images should not pay at their start.
        from torchvision.models import vgg

        features = vgg.make_layers(vgg.cfgs["A"], batch_norm=True)
        for layer in features:
            if isinstance(layer, nn.Conv2d):  # as torchvision's VGG does
                assert layer.bias is not None
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(layer.bias)
            elif isinstance(layer, nn.BatchNorm2d):
                # By zeros, as torchvision has them, half of all ReLUs are closed and many nearly so: rounding alone
                # then changes gradients by hundredths, and a comparison of both sides would have to allow that.
                nn.init.constant_(layer.bias, 2.0)
        model = nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, len(PHOTOS)))
        return image_classification(self.device, model, train=True, **self.size)

    def step_of(self, job: Job) -> Step:
        """One batch, of which the loss and the parameters that both sides have are returned."""
        alone = {conv.bias for conv in biased_before_bn(job.model)}
        shared = nn.ParameterList([parameter for parameter in job.model.parameters() if parameter not in alone])

        def step() -> tuple[torch.Tensor, nn.Module]:
            loss, _ = job.step()
            return loss, shared

        return step
