"""What several tips bring together, on one job of each kind of work.

Gains do not multiply: two tips may save the same time, and what the first leaves of a step is all that the second can
shorten. So the tips that such a job can always follow are followed at once here; `without_...` leaves out one of them,
and `only_...` follows the first, so that a page can add them one by one. No guide gives this as a tip, and no count of
answers holds it. On a GPU these are the first things to know of it: a run on one begins with them.
"""

from collections.abc import Callable

from benchmarks.general.channels_last import channels_last
from benchmarks.gpu.amp import amp
from benchmarks.jobs.image_classification import RunResNet, TrainResNet
from benchmarks.jobs.language_model import RunGPT, TrainGPT
from benchmarks.modern.compile_modes import compile_model
from benchmarks.modern.fused_optimizer import fused_optimizer
from tipbench.tip.words import *

TIP = Tip(
    id="together",
    title="Follow several tips together",
    guide=(),
    claim=Claim.FASTER,
    ways={
        "only_amp": "",
        "only_channels_last": "",
        "without_amp": "",
        "without_channels_last": "",
        "without_compile_modes": "",
        "without_fused_optimizer": "",
    },
    once="following these",
    mechanism=changes("operations dispatched", operations),
)


def all_of(*tips: Callable[[Job], None]) -> Callable[[Job], None]:
    """Follow them one after the other."""

    def follow(job: Job) -> None:
        for tip in tips:
            tip(job)

    return follow


def operations_and_low_precision(step: Step) -> str:
    return f"{operations(step)}, {low_precision_outputs(step)}"


class GPTTraining(
    TrainGPT,
    apply=all_of(amp, fused_optimizer, compile_model),
    only_amp=amp,
    without_amp=all_of(fused_optimizer, compile_model),
    without_fused_optimizer=all_of(amp, compile_model),
    without_compile_modes=all_of(amp, fused_optimizer),
):
    """Training a small GPT."""

    needs = (compiler(), bfloat16())
    equal = Equal.LOSSY
    tolerance = 1e-2  # as of the tip amp


class ResNetInference(
    RunResNet,
    apply=all_of(channels_last, compile_model),
    without_channels_last=compile_model,
    without_compile_modes=channels_last,
):
    """ResNet-18 run over JPEG files, on a CPU loading included."""

    needs = (compiler(), torchvision())


class ResNetTraining(
    TrainResNet,
    apply=all_of(channels_last, amp, fused_optimizer),
    only_channels_last=channels_last,
    without_channels_last=all_of(amp, fused_optimizer),
    without_amp=all_of(channels_last, fused_optimizer),
    without_fused_optimizer=all_of(channels_last, amp),
):
    """ResNet-18 trained on photos that are on the GPU already. Compiling it would take minutes of a short loan."""

    devices = ("cuda",)
    needs = (gpu(), *TrainResNet.needs, bfloat16())
    equal = Equal.LOSSY
    tolerance = 1e-1  # as of the tip amp


class GPTInference(RunGPT, apply=all_of(amp, compile_model), without_amp=compile_model, without_compile_modes=amp):
    """A small GPT run over text. PyTorch's own TransformerEncoder leaves its fast path where it is compiled."""

    devices = ("cuda",)
    needs = (gpu(), compiler(), bfloat16())
    equal = Equal.LOSSY
    tolerance = 1e-2
    mechanism = changes("operations dispatched, and modules whose output has 16 bits", operations_and_low_precision)
