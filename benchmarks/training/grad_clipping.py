"""Clip gradients, all tensors at once.

`clip_grad_norm_(parameters, 0.5)` scales all gradients down together where their norm is above 0.5, so that
one bad batch cannot throw the weights far off. It is a cost in time, and buys stability.

The norm and the scaling need two operations for each gradient. `clip_grad_norm_` calls them tensor by
tensor from Python (`foreach=False`), or hands all tensors over at once. The second is what it does by
default, on CPUs as on CUDA GPUs; optimizers, in contrast, work tensor by tensor on CPUs by default.

Why people write the baseline: a training loop does without clipping until it diverges. And clipping tensor by
tensor was the only way before torch 2.0, and a loop over `parameter.grad` of one's own still is: there the
baseline is the old way on purpose.

What to expect: clipping makes a step slower (`LSTMTraining`), and that is all it does while gradients are below
the threshold. Where the learning rate is high, trainings diverge without it, which the mechanism of that pair
counts. Handing all tensors over at once saves nearly all launches of the clipping on a GPU. On a CPU both ways
run the same loops inside, and only the calls from Python are saved: a part of the clipping where tensors are
small, next to nothing of a whole step.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from benchmarks.jobs.language_model import VOCABULARY, SourceText, TrainGPT
from tipbench.tip.words import Claim, Job, MacroPair, Mechanism, Pair, Sizes, Step, Tip, falls, operations

TIP = Tip(
    id="grad-clipping",
    title="Clip gradients, all tensors at once",
    guide=("B8",),
    claim=Claim.AVOIDS,
    mechanism=falls("operations dispatched", operations),
    note=(
        "Clipping costs time and buys stability: LSTMTraining shows both, the other pairs the faster way to clip, "
        "the default since torch 2.0. With a GradScaler call unscale_ first."
    ),
)

MAX_NORM = 0.5


def grad_clipping(job: Job, foreach: bool | None = None) -> None:
    """The tip, on any training job: clip between the backward pass and the optimizer's step."""
    assert job.optimizer is not None
    parameters = [parameter for group in job.optimizer.param_groups for parameter in group["params"]]

    def clip(*_: Any) -> None:
        clip_grad_norm_(parameters, MAX_NORM, foreach=foreach)

    job.optimizer.register_step_pre_hook(clip)


class SmallGradients(Pair):
    """Clipping five hundred small gradients, which are set anew before, all with one copy."""

    sizes = Sizes(dict(parameters=500, elements=1000), test=dict(parameters=10, elements=100))

    def gradients(self) -> tuple[nn.ParameterList, torch.Tensor, torch.Tensor]:
        """(the parameters, the memory all their gradients lie in, what that holds before clipping)."""
        count, elements = self.size["parameters"], self.size["elements"]
        unclipped = torch.randn(count, elements, device=self.device)
        memory = torch.zeros_like(unclipped)
        model = nn.ParameterList([nn.Parameter(torch.zeros(elements, device=self.device)) for _ in range(count)])
        for parameter, gradient in zip(model.parameters(), memory, strict=True):
            parameter.grad = gradient
        return model, memory, unclipped

    def clipping(self, foreach: bool | None) -> Step:
        model, memory, unclipped = self.gradients()
        parameters = list(model.parameters())

        def step() -> tuple[torch.Tensor, nn.Module]:
            memory.copy_(unclipped)
            return clip_grad_norm_(parameters, MAX_NORM, foreach=foreach), model

        return step

    def baseline(self) -> Step:
        return self.clipping(foreach=False)

    def optimized(self) -> Step:
        return self.clipping(foreach=None)


class GPTTraining(TrainGPT, untuned=partial(grad_clipping, foreach=False), apply=grad_clipping):
    """Training a narrow GPT of twelve blocks, clipped in each step: many gradients, none of them large."""

    sizes = Sizes(
        dict(layers=12, width=64, context=64, batch=2),
        gpu=dict(width=512),
        test=dict(layers=1, width=16, context=8),
    )


class LSTM(nn.Module):
    """Bytes (batch, tokens) in, scores of the next byte (batch, VOCABULARY, tokens) out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.bytes(tokens))
        scores: torch.Tensor = self.head(states)
        return scores.transpose(1, 2)


HIGH_RATE = 40.0
"""A learning rate for SGD that is too high without clipping."""


class LSTMTraining(MacroPair, apply=grad_clipping):
    """Training a small LSTM on source text, without clipping and with it.

    Timed at a learning rate of 1, where the first gradients are below the threshold: both sides then do the same,
    but for the clipping. The mechanism trains at HIGH_RATE, where they do not.
    """

    sizes = Sizes(dict(width=32, context=64, batch=8, trainings=8, steps=60), test=dict(trainings=2))

    def job(self) -> Job:
        model = LSTM(self.size["width"]).to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        data = SourceText(self.size["context"])
        return Job(model, data, self.device, optimizer=optimizer, batch_size=self.size["batch"])

    @property
    def mechanism(self) -> Mechanism:
        return falls("trainings that end worse than by guessing, at a learning rate of 40", self.diverging)

    def diverging(self, step: Step) -> int:
        def raise_rate(optimizer: Optimizer, *_: Any) -> None:
            for group in optimizer.param_groups:
                group["lr"] = HIGH_RATE

        _, model = step()
        handle = register_optimizer_step_pre_hook(raise_rate)
        try:
            return sum(self.diverges(step, model, seed) for seed in range(self.size["trainings"]))
        finally:
            handle.remove()

    def diverges(self, step: Step, model: LSTM, seed: int) -> bool:
        """Whether the loss, averaged over the last ten steps from fresh weights, is above that of a guess."""
        torch.manual_seed(seed)
        for module in (model.bytes, model.lstm, model.head):
            module.reset_parameters()
        losses = [step()[0].item() for _ in range(self.size["steps"])]
        return not sum(losses[-10:]) / 10 < math.log(VOCABULARY)  # not finite is no less either
