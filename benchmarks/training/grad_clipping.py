"""Clip gradients.

`clip_grad_norm_(parameters, 0.25)` scales all gradients down together where their norm is above 0.25, so that one bad
batch cannot throw the weights far off. It is a cost in time, and buys stability.

Why people write the baseline: a training loop does without clipping until its loss jumps up or diverges. Who does not
clip lowers the rate until it does not, so both sides have the rate that suits them best.

What to expect: clipping makes a step slower, by the one look at all gradients, and that is all it does while their
norm is below the limit (`GPTTraining`). An LSTM trained with SGD ends alike with and without it, each at its best rate;
clipping allows higher rates, and so makes their choice easier. At the rate of 20, which PyTorch's example uses with
clipping, no training came to the target without it (`HighRate`). Ten convolutions without normalisation hardly learn
without clipping at any rate that does not end in NaN (`DenoiserTraining`). What else helps there is another optimizer:
AdamW without clipping came further still (harness/decisions.md, "Clipping, tuned alike").

How the rates were chosen: `python -m benchmarks.training.grad_clipping --tune` tries several on each side, with seeds
that are never counted.
"""

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from benchmarks.jobs.language_model import TrainGPT
from benchmarks.jobs.lessons import CLEAN_PHOTOS_PLAIN, NEXT_BYTE_BY_LSTM, Course, Learning, Lesson, tune
from benchmarks.jobs.tuning import Tuned, geometric
from tipbench.tip.counting import count
from tipbench.tip.words import *

LOOKED_AT = 20
"""Optimizer steps."""

HIGH_RATE, MAX_NORM = 20.0, 0.25
"""As in PyTorch's example of a language model (examples/word_language_model)."""


def large_gradients(step: Step) -> int:
    """Of the optimizer's next LOOKED_AT steps those whose gradients' norm is beyond the limit, or is no number."""
    large: list[bool] = []

    def look(optimizer: Optimizer, *_: Any) -> None:
        gradients = [weight.grad for group in optimizer.param_groups for weight in group["params"]]
        norm = torch.nn.utils.get_total_norm(gradients)
        large.append(not norm <= MAX_NORM * 1.001)

    with register_optimizer_step_pre_hook(look):
        while len(large) < LOOKED_AT:
            step()
    return sum(large)


TIP = Tip(
    id="grad-clipping",
    title="Clip gradients",
    do=(
        "loss.backward()\n"
        "# with a GradScaler: scaler.unscale_(optimizer) first\n"
        "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.25)"
        "  # cuts most of our steps; tune yours, with the rate\n"
        "optimizer.step()"
    ),
    when="a training's loss jumps up or diverges",
    against="no clipping, each at the learning rate that suits it best",
    guide=("B8",),
    claim=Claim.FEWER_STEPS,
    evidence="grad_clipping.toml",
    called="clipping",
    mechanism=falls(f"gradients beyond the limit in {LOOKED_AT} steps", large_gradients),
    note="Clipping costs time and buys stability. With a GradScaler call unscale_ first.",
)


class _Clipping(Learning):
    """Timed: an optimizer step. Counted: steps until the target, each side at a rate of its own."""

    lesson: ClassVar[Lesson]
    rate: ClassVar[Tuned]
    """Without clipping."""
    rate_clipped: ClassVar[Tuned]

    def learning(self, rate: float, max_norm: float) -> Training:
        return Course(self.lesson, rate, max_norm=max_norm, batch=self.size["batch"]).on(self.device)

    def baseline(self) -> Training:
        return self.learning(self.rate.chosen, math.inf)

    def optimized(self) -> Training:
        return self.learning(self.rate_clipped.chosen, MAX_NORM)


class NextByteByLSTM(_Clipping):
    """An LSTM learns to predict the next byte of Python source text, with SGD."""

    lesson = NEXT_BYTE_BY_LSTM
    rate = Tuned(geometric(1.7, 1.8), 3.06)
    rate_clipped = Tuned(geometric(3.1, 1.8), 5.58)


class DenoiserTraining(_Clipping):
    """Ten convolutions without normalisation learn to take noise off photos, with SGD and momentum."""

    lesson = CLEAN_PHOTOS_PLAIN
    rate = Tuned(geometric(0.000031, 1.8, 5), 0.0001)
    rate_clipped = Tuned((0.0033, 0.006, 0.0108, 0.0194, 0.035, 0.063), 0.0194)


class HighRate(NextByteByLSTM):
    """The same at the rate of PyTorch's example on both sides: what clipping keeps from exploding."""

    scale = "micro"

    def learning(self, rate: float, max_norm: float) -> Training:
        return super().learning(HIGH_RATE, max_norm)


def grad_clipping(job: Job, max_norm: float) -> None:
    """The tip, on any training job: clip between the backward pass and the optimizer's step."""
    assert job.optimizer is not None
    parameters = [parameter for group in job.optimizer.param_groups for parameter in group["params"]]

    def clip(*_: Any) -> None:
        clip_grad_norm_(parameters, max_norm)

    job.optimizer.register_step_pre_hook(clip)


class GPTTraining(TrainGPT, apply=partial(grad_clipping, max_norm=1e6)):
    """What clipping costs where it has nothing to do: training a small GPT, with a limit that no gradient reaches."""

    scale = "micro"
    mechanism = appears("norms of all gradients", lambda step: calls(step, "aten::_foreach_norm"))


if __name__ == "__main__":
    trials = [
        (f"{pair.__name__}, {way}", Course(pair.lesson, 0.0, max_norm=max_norm), rates, None)
        for pair in (NextByteByLSTM, DenoiserTraining)
        for way, rates, max_norm in (("plain", pair.rate, math.inf), ("clipped", pair.rate_clipped, MAX_NORM))
    ]
    count(NextByteByLSTM, DenoiserTraining, HighRate, tune=lambda: tune(trials))
