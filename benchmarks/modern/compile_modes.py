"""Choose a mode of torch.compile.

`torch.compile(model)` fuses what lies between matrix products and convolutions, and leaves these to the
libraries. Its modes go further. `mode="max-autotune-no-cudagraphs"` tries several kernels for each matrix
product and keeps the fastest. `mode="reduce-overhead"` launches a GPU's kernels as one CUDA graph: that is the
tip `cuda-graphs`. For inference there is freezing, which is a setting of inductor and no mode: the weights
become constants, so a batch normalisation is folded into the convolution before it, and on a CPU the weights
are laid out beforehand as oneDNN likes them.

Why people write the baseline: it is the model as written; compiling it takes seconds, and a C++ compiler.

On a CPU the two modes change nothing here: compiled in either, the pairs below called the same operations as
without (tried on torch 2.15). So they are variants for GPUs.

What to expect: a gain where the operations around convolutions and matrix products take much of the time.
Compiling is a one-off cost, and freezing pays it again in every process, as frozen graphs are not cached.
Frozen weights cannot be trained or loaded anew.

`torch.compile(model, options={"freezing": True})` alone does not freeze, tried on torch 2.15: the front end
reads the setting as well, and sees it only where it is set while the model is called for the first time.
"""

import torch
from torch import nn

from benchmarks.jobs.image_classification import image_classification
from tipbench.tip.counts import calls, operations
from tipbench.tip.job import Job, MacroPair
from tipbench.tip.needs import compiler, gpu, torchvision
from tipbench.tip.pair import Claim, Pair, Step, Tip, requires, variant

TIP = Tip(
    id="compile-modes",
    title="Compile the model, and choose the mode",
    guide=("M2",),
    claim=Claim.FASTER,
    published="CPU, ResNet-18: 2.3x",
    note='the official guide\'s torch.compile(m, "reduce-overhead") is a TypeError: mode must be given by name',
    why_not="The convolutions take nearly all of the time, and compiled or not these are oneDNN's.",
)


def compile_model(job: Job) -> None:
    """The tip, on any job whose batches all have the same shape."""
    job.model.compile()


def freeze(job: Job) -> None:
    """The same with frozen weights, on any inference job."""
    inputs, _ = next(iter(job.loader()))
    compile_frozen(job.model, inputs.to(job.device))


def compile_frozen(model: nn.Module, example: torch.Tensor) -> None:
    # The option keeps the frozen code apart from other code of the same model in this process. What freezes
    # is the setting, which must hold during the first call, and gradients must be off.
    model.compile(options={"freezing": True})
    with torch._inductor.config.patch(freezing=True), torch.no_grad():
        model(example)


def dispatched_and_packed(step: Step) -> list[int]:
    """Operations one warm step dispatches, and oneDNN's on weights laid out beforehand, which freezing brings."""
    return [operations(step), calls(step, "mkldnn::*")]


class ConvolutionBlock(Pair):
    """A 3x3 convolution, batch normalisation and ReLU, forward only."""

    needs = (compiler(),)
    sizes = {"batch": 2, "channels": 64, "pixels": 56}
    on_gpu = {"batch": 64}
    test_sizes = {"batch": 1, "channels": 8, "pixels": 8}

    def block(self) -> nn.Module:
        channels = self.size["channels"]
        convolution = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU()).to(self.device).eval()

    def images(self) -> torch.Tensor:
        pixels = self.size["pixels"]
        return torch.randn(self.size["batch"], self.size["channels"], pixels, pixels, device=self.device)

    def baseline(self) -> Step:
        block, images = self.block(), self.images()
        return torch.no_grad()(lambda: block(images))

    def optimized(self) -> Step:
        block, images = self.block(), self.images()
        block.compile()
        return torch.no_grad()(lambda: block(images))

    @variant
    def freezing(self) -> Step:
        block, images = self.block(), self.images()
        compile_frozen(block, images)
        return torch.no_grad()(lambda: block(images))

    @variant
    @requires(gpu(1))
    def max_autotune(self) -> Step:
        block, images = self.block(), self.images()
        block.compile(mode="max-autotune-no-cudagraphs")
        return torch.no_grad()(lambda: block(images))

    @variant
    @requires(gpu(1))
    def reduce_overhead(self) -> Step:
        block, images = self.block(), self.images()
        block.compile(mode="reduce-overhead")
        # The next replay overwrites the output, so whoever keeps it clones it.
        return torch.no_grad()(lambda: block(images).clone())

    def mechanism(self, step: Step) -> list[int]:
        """operations dispatched, and those on packed weights"""
        return dispatched_and_packed(step)

    def engaged(self, baseline: list[int], optimized: list[int]) -> bool:
        return optimized[0] < baseline[0]


class ResNetInference(MacroPair):
    """ResNet-18 run over JPEG files, loading included."""

    needs = (compiler(), torchvision())
    sizes = {"batch": 4, "pixels": 112}
    on_gpu = {"batch": 32, "pixels": 224}
    test_sizes = {"batch": 1, "pixels": 32}

    def job(self) -> Job:
        return image_classification(self.device, model="resnet18", train=False, **self.size)

    def apply(self, job: Job) -> None:
        compile_model(job)

    def baseline(self) -> Step:
        return torch.no_grad()(super().baseline())

    def optimized(self) -> Step:
        return torch.no_grad()(super().optimized())

    @variant
    def freezing(self) -> Step:
        job = self.job()
        freeze(job)
        return torch.no_grad()(job.step)

    @variant
    @requires(gpu(1))
    def max_autotune(self) -> Step:
        job = self.job()
        job.model.compile(mode="max-autotune-no-cudagraphs")
        return torch.no_grad()(job.step)

    @variant
    @requires(gpu(1))
    def reduce_overhead(self) -> Step:
        job = self.job()
        job.model.compile(mode="reduce-overhead")
        return torch.no_grad()(lambda: job.step().clone())

    def mechanism(self, step: Step) -> list[int]:
        """operations dispatched, and those on packed weights"""
        return dispatched_and_packed(step)

    def engaged(self, baseline: list[int], optimized: list[int]) -> bool:
        return optimized[0] < baseline[0]
