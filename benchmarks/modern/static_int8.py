"""Convolve integers of 8 bits in a model that only infers, on a CPU.

PyTorch 2 Export quantization, which is in torchao, exports the model as a graph and watches a few batches go through
it: from the ranges of their activations come the scales, which are the same for every batch after ("static"). Inductor
then has oneDNN convolve integers of 8 bits, whose products AVX512-VNNI and AMX compute several times as fast as those
of float32 numbers. From layer to layer activations stay in 8 bits, so that there is a quarter as much to move.

Why people write the baseline: float32 is what the model was trained in, and needs neither an export nor batches to
calibrate with. Both sides are compiled with frozen weights, as the tip `frozen-weights` says, so that quantizing alone
is measured.

What to expect: much where convolutions take most of the time. Outputs are off by some hundredths; what that costs on
photos that were held out is what `HeldOutError` counts, and of a model of your own only its own score tells. Calibrate
with hundreds of inputs like those to come: what lies outside of their ranges is cut off.

Three traps have been reported. Without frozen weights nothing is lowered to kernels of 8 bits, and the model is
slower than in float32 (as perhaps in https://github.com/pytorch/pytorch/issues/144434). Exported with `strict=False`,
the default, a module that is called twice, as ResNet calls its ReLU, cannot be quantized
(https://github.com/pytorch/ao/issues/4478). And the quantizer must be torchao's: that of `torch.ao` did nothing in some
versions (https://github.com/pytorch/pytorch/issues/160095).
"""

from collections.abc import Iterable
from itertools import islice

import torch
from torch import nn

from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.lessons import CLEAN_PHOTOS, Course
from benchmarks.modern.dynamic_int8 import INT8_NEEDS, trained_before
from benchmarks.modern.frozen_weights import freeze
from tipbench.tip.counting import count
from tipbench.tip.words import *

TIP = Tip(
    id="static-int8",
    title="Quantize convolutions statically to 8 bits for inference",
    do=(
        "from itertools import islice  # and pip install torchao; do this before another model is compiled or frozen\n"
        "from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e\n"
        "from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86\n"
        "torch.set_grad_enabled(False)  # in each thread that infers: else frozen code is not used\n"
        "example, _ = next(iter(loader))\n"
        "quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())\n"
        "model = prepare_pt2e(torch.export.export(model.eval(), (example,), strict=True).module(), quantizer)"
        "  # to infer alone\n"
        "for calibrating, _ in islice(loader, 4): model(calibrating)"
        "  # sets the scales: rather a hundred batches, shuffled\n"
        "model = convert_pt2e(model)\n"
        'model.compile(options={"freezing": True})\n'
        "from torch._inductor import config as inductor\n"
        "with inductor.patch(freezing=True): model(example)  # compiles\n"
        "# it has no eval() and no train(): leave them out"
    ),
    when="batches have one shape, the last too (others raise), it runs for minutes, and the model's score bears it",
    against="float32, compiled with frozen weights",
    guide=("M15",),
    claim=Claim.FASTER,
    evidence="static_int8.toml",
    called="static quantization",
    once="calibrating and compiling",
    one_of="compiled model",
    mechanism=appears("kernels that multiply integers of 8 bits", int8_kernels),
    why_not="Little of the time is that of convolutions and linear layers.",
)


RATE = 0.00579
"""Of the constant rates that were tried for CLEAN_PHOTOS (harness/decisions.md, "Schedules, tuned alike")."""


def quantized(model: nn.Module, batches: Iterable[torch.Tensor]) -> nn.Module:
    """The model for batches of the same shape as these, which set its scales. The model itself stays as it is."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    batches = list(batches)
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, (batches[0],), strict=True).module(), quantizer)
    with torch.no_grad():
        for batch in batches:
            prepared(batch)
    converted: nn.Module = convert_pt2e(prepared)
    return converted


def quantize(job: Job) -> None:
    """The tip, on any inference job whose batches all have the same shape."""
    job.model = quantized(job.model, [inputs for inputs, _ in islice(job.loader(), 4)])
    freeze(job)


class HeldOutError(Pair):
    """What the rounding costs on photos that were held out: convolutions learn in float32 to take noise off photos,
    and are quantized then.

    The network is too small for its time to say much.
    """

    devices = ("cpu",)
    needs = INT8_NEEDS
    equal = Equal.TARGET
    sizes = Sizes(dict(batch=16), test=dict(batch=2))

    def course(self) -> Course:
        return Course(CLEAN_PHOTOS, RATE, batch=self.size["batch"])

    def baseline(self) -> Training:
        return trained_before(self.course(), lambda model: model)

    def optimized(self) -> Training:
        batches = [inputs for inputs, _ in (CLEAN_PHOTOS.samples(64) for _ in range(4))]
        return trained_before(self.course(), lambda model: quantized(model, batches))


class ResNetInference(RunResNet, untuned=freeze, apply=quantize):
    """ResNet-18 run over JPEG files, loading included."""

    devices = ("cpu",)
    needs = (*INT8_NEEDS, torchvision())
    equal = Equal.LOSSY
    tolerance = 1e-1

    @process_settings(own_process=True)
    def optimized(self) -> Step:
        """A strict export drops all compiled code of its process: the baseline would compile again, and not freeze."""
        return super().optimized()


if __name__ == "__main__":
    count(HeldOutError)
