"""Clip gradients.

`clip_grad_norm_(parameters, 0.5)` scales all gradients down together where their norm is above 0.5, so that
one bad batch cannot throw the weights far off. It is a cost in time, and buys stability.

Why people write the baseline: a training loop does without clipping until it diverges.

What to expect: clipping makes a step slower, and that is all it does while gradients are below the threshold. Where
the learning rate is high, trainings diverge without it, which the mechanism counts.

Clipping tensor by tensor (`foreach=False`) was the only way before torch 2.0; all at once is the default since.
"""

import math
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from benchmarks.jobs.language_model import VOCABULARY, SourceText
from tipbench.tip.words import Claim, Job, MacroPair, Mechanism, Sizes, Step, Tip, falls

TIP = Tip(
    id="grad-clipping",
    title="Clip gradients",
    do="torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
    when="a training diverges",
    guide=("B8",),
    claim=Claim.STEADIER,
    note="Clipping costs time and buys stability. With a GradScaler call unscale_ first.",
    no_micro="what clipping prevents shows in a whole training alone",
)

MAX_NORM = 0.5


def grad_clipping(job: Job) -> None:
    """The tip, on any training job: clip between the backward pass and the optimizer's step."""
    assert job.optimizer is not None
    parameters = [parameter for group in job.optimizer.param_groups for parameter in group["params"]]

    def clip(*_: Any) -> None:
        clip_grad_norm_(parameters, MAX_NORM)

    job.optimizer.register_step_pre_hook(clip)


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
