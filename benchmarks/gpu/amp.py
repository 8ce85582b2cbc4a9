"""Use automatic mixed precision.

Tensor cores, and the bfloat16 units of recent processors, multiply numbers of 16 bits faster than those of 32, and
there is half as much to move. `torch.autocast` runs matrix products and convolutions in 16 bits and keeps sums, norms
and losses in 32; the parameters stay in 32 bits.

Why people write the baseline: float32 is the default, and always precise enough.

What to expect: much where large matrix products rule, on hardware that has such units; little, or a loss,
where small operations rule. Activations take half the memory. Results differ in the third digit: the error against
fp64 is measured and shown, and so is the accuracy that whole trainings end with. bfloat16 has the range of float32.
float16 has not, and needs a `GradScaler`: that is the way for GPUs before compute capability 8.0, which do not multiply
bfloat16. Its first steps may overflow, and are skipped then; a scheduler that is stepped all the same warns
(https://github.com/pytorch/pytorch/issues/55585).
"""

import math

import torch
from torch import nn

from benchmarks.gpu.tensor_cores import tensor_cores
from benchmarks.jobs.image_classification import TrainResNet
from benchmarks.jobs.language_model import TWICE_THE_BATCH, TrainGPT
from benchmarks.jobs.lessons import NEXT_BYTE, RATE, Course
from tipbench.tip.counting import count
from tipbench.tip.words import *

TIP = Tip(
    id="amp",
    title="Use automatic mixed precision",
    do=(
        "# backward() stays outside; evaluate without it; an LSTM may raise (pytorch#187334)\n"
        "# `outputs` are in bfloat16, and so is a loss of your own formula: give it outputs.float()\n"
        "# what your code writes by index, scatters or adds into a tensor of another dtype: value.to(that dtype)\n"
        "# in place of Sigmoid and BCELoss: BCEWithLogitsLoss\n"
        "with torch.autocast(torch.device(device).type, dtype=torch.bfloat16): outputs = model(batch); loss "
        "= criterion(outputs, targets)"
    ),
    ways={
        "float16": (
            "scaler = torch.amp.GradScaler(torch.device(device).type)  # save and load it, too; no LSTM on a CPU\n"
            "with torch.autocast(torch.device(device).type, dtype=torch.float16): outputs = model(batch); loss = "
            "criterion(outputs, targets)\n"
            "scaler.scale(loss).backward()\n"
            "scaler.unscale_(optimizer)  # here you clip, if you do\n"
            "scaler.step(optimizer)\n"
            "scaler.update()"
        ),
    },
    when="two digits in outputs are enough, as for classes or words: a regression may lose accuracy",
    against="float32 (TF32 on cards)",
    guide=("A3.6", "B4"),
    claim=Claim.FASTER,
    evidence="amp.toml",
    called="bfloat16",
    mechanism=appears("modules whose output has 16 bits", low_precision_outputs),
    published='"up to 3x" on Tensor Cores (PyTorch Performance Tuning Guide)',
    note="torch.cuda.amp, which the guides show, is deprecated: use torch.amp",
    why_not="Casts are operations too: they cost what 16 bits save, where products are small or their units slow.",
)


def autocast(device: torch.device) -> torch.autocast:
    """`with` it around code, or call a function with it: then it is around that function's calls."""
    return torch.autocast(device.type, dtype=torch.bfloat16)


def amp(job: Job) -> None:
    """The tip, on any job: forward pass and loss in bfloat16. The backward pass follows the forward's types."""
    job.model.forward = autocast(job.device)(job.model.forward)
    job.loss = autocast(job.device)(job.loss)


@requires(gpu())
def amp_in_float16(job: Job) -> None:
    """The same in float16. The scaler keeps small gradients from becoming 0, and skips steps that overflow."""
    scaler = torch.amp.GradScaler(job.device.type)
    optimizer = job.optimizer
    assert optimizer is not None

    def backward(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(job.device.type, dtype=torch.float16):
            loss = job.loss(job.model(job.convert(inputs.to(job.device))), targets.to(job.device))
        scaler.scale(loss).backward()
        return loss.detach()

    def run(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, nn.Module]:
        loss = backward(inputs, targets)
        scaler.step(optimizer)
        scaler.update()
        return loss, job.model

    # From the default scale, 2**16, first steps overflow and are skipped: of these nothing could be compared. So the
    # scale falls beforehand, on one batch and without a step of the optimizer.
    scale = math.inf
    with torch.random.fork_rng(devices=()):  # the loader draws a seed
        first = next(iter(job.loader()))
        while scaler.get_scale() < scale:
            scale = scaler.get_scale()
            backward(*first)
            scaler.unscale_(optimizer)
            scaler.update()
    optimizer.zero_grad()

    job.run = run  # type: ignore[method-assign]


class Accuracy(Pair):
    """What the rounding costs in accuracy: whole trainings of a small GPT on Python source text, at a constant rate.

    The network is too small for its time to say anything.
    """

    equal = Equal.TARGET
    sizes = Sizes(dict(batch=16), test=dict(batch=2))

    def course(self, autocast: bool) -> Training:
        return Course(NEXT_BYTE, RATE.chosen, batch=self.size["batch"], autocast=autocast).on(self.device)

    def baseline(self) -> Training:
        return self.course(autocast=False)

    @requires(bfloat16())
    def optimized(self) -> Training:
        return self.course(autocast=True)


def tf32_if_any(job: Job) -> None:
    """Nobody trains in full float32 on a GPU that has TF32; on others it does nothing."""
    if job.device.type == "cuda":
        tensor_cores(job)


class _Training(MacroPair, untuned=tf32_if_any, apply=amp, float16=amp_in_float16):
    equal = Equal.LOSSY
    tolerance = 1e-2

    @requires(bfloat16())
    def optimized(self) -> Step:
        return super().optimized()


class ResNetTraining(_Training, TrainResNet):
    """ResNet-18 trained on JPEG files, on a CPU loading included."""

    # bfloat16 rounds to 8 bits, in every layer forward and back: gradients of the first layers are off by
    # some hundredths, as in anybody's training with it.
    tolerance = 1e-1


class GPTTraining(_Training, TrainGPT):
    """Training a small GPT."""


class TwiceTheBatch(_Training, TrainGPT):
    """The same with a batch twice as large: in 16 bits it takes about what half of it takes in float32."""

    sizes = TWICE_THE_BATCH


def around_a_step() -> torch.autocast:
    """The tip, on a step that nobody can look into."""
    return autocast(torch.device("cuda" if torch.cuda.is_initialized() else "cpu"))


def trains(job: Job) -> str:
    return "" if job.optimizer else "of an inference it is a way of half-precision"


ON_ANY_JOB = (Way(amp, trains, needs=(bfloat16(),), changes_numbers=True, around=around_a_step),)


if __name__ == "__main__":
    count(Accuracy)
