"""What several tips bring together, on one job of each kind of work.

Gains do not multiply: two tips may save the same time, and what the first leaves of a step is all that the second can
shorten. So the tips that such a job can always follow are followed at once here, and `without_...` leaves out one of
them. No guide gives this as a tip, and no count of answers holds it.
"""

from collections.abc import Callable

import torch

from benchmarks.general.channels_last import channels_last
from benchmarks.gpu.amp import amp
from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import TrainGPT
from benchmarks.modern.compile_modes import compile_model
from benchmarks.modern.fused_optimizer import fused_optimizer
from tipbench.tip.words import (
    Claim,
    Equal,
    Job,
    Step,
    Tip,
    bfloat16,
    changes,
    compiler,
    operations,
    torchvision,
    variant,
)

TIP = Tip(
    id="together",
    title="Follow several tips together",
    guide=(),
    claim=Claim.FASTER,
    ways={
        "without_amp": "",
        "without_channels_last": "",
        "without_compile_modes": "",
        "without_fused_optimizer": "",
    },
    once="compiling",
    mechanism=changes("operations dispatched", operations),
    no_micro="operations alone show nothing of what tips take from one another",
)


def all_of(*tips: Callable[[Job], None]) -> Callable[[Job], None]:
    """Follow them one after the other."""

    def follow(job: Job) -> None:
        for tip in tips:
            tip(job)

    return follow


class GPTTraining(TrainGPT, apply=all_of(amp, fused_optimizer, compile_model)):
    """Training a small GPT."""

    needs = (compiler(), bfloat16())
    equal = Equal.LOSSY
    tolerance = 1e-2  # as of the tip amp

    @variant
    def without_amp(self) -> Step:
        return self.applied(all_of(fused_optimizer, compile_model))

    @variant
    def without_fused_optimizer(self) -> Step:
        return self.applied(all_of(amp, compile_model))

    @variant
    def without_compile_modes(self) -> Step:
        return self.applied(all_of(amp, fused_optimizer))


class ResNetInference(RunResNet, apply=all_of(channels_last, compile_model)):
    """ResNet-18 run over JPEG files, on a CPU loading included."""

    needs = (compiler(), torchvision())

    def step_of(self, job: Job) -> Step:
        return torch.no_grad()(job.step)

    @variant
    def without_channels_last(self) -> Step:
        return self.applied(compile_model)

    @variant
    def without_compile_modes(self) -> Step:
        return self.applied(channels_last)
