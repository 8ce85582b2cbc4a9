"""Train the matrices of a model with Muon, or all of it with Adafactor, in place of AdamW.

Muon makes the update of a whole matrix orthogonal, so that no direction in it is larger than another; embeddings, the
last layer and vectors stay with AdamW. Adafactor keeps means of the squared gradient for rows and columns alone, in
place of two numbers for each parameter.

Why people write the baseline: AdamW is what examples use.

What to expect: with Muon fewer steps, each of which takes longer. Of matrices of width m its products are as many as
those of a step of 5 m tokens: little where a batch has hundreds of thousands, and much in the small training here. With
Adafactor less memory for the optimizer, and here a worse score than AdamW's at any rate that was tried.

How the rates were chosen: `python -m benchmarks.training.muon --tune`, with seeds that are never counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn
from torch.optim import Adafactor, AdamW, Muon, Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from benchmarks.jobs.lessons import BATCH, NEXT_BYTE, RATE, Course, Learning, adamw, tune
from benchmarks.jobs.tuning import Tuned, geometric
from tipbench.tip.counting import count
from tipbench.tip.words import *


def optimizers(step: Step) -> list[str]:
    """The kinds of optimizers that a step calls."""
    called: list[Optimizer] = []
    with register_optimizer_step_pre_hook(lambda optimizer, *_: called.append(optimizer)):
        step()
    return sorted({type(optimizer).__name__ for optimizer in called})


TIP = Tip(
    id="muon",
    title="Train with Muon or Adafactor in place of AdamW",
    do=(
        "class MuonAndAdamW(torch.optim.Optimizer):  # one optimizer, to a schedule and to state_dict()\n"
        "    def __init__(self, *parts):\n"
        "        self.parts = parts\n"
        "        super().__init__([group for part in parts for group in part.param_groups], {})\n"
        "    def step(self, closure=None):\n"
        "        for group in self.param_groups:\n"
        '            part = self.parts["betas" in group]  # those of AdamW have betas\n'
        "            part.state, part.param_groups = self.state, [group]\n"
        "            part.step()\n"
        "# where you construct the optimizer; tune lr\n"
        "*hidden, last = [layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)]\n"
        "rest = [weight for weight in model.parameters() if all(weight is not matrix for matrix in hidden)]\n"
        'muon = torch.optim.Muon(hidden, lr=0.01, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")\n'
        "optimizer = MuonAndAdamW(muon, torch.optim.AdamW(rest, lr=0.01))"
    ),
    ways={"adafactor": "optimizer = torch.optim.Adafactor(model.parameters(), lr=0.01)  # tune lr"},
    when="you train a model of linear layers from scratch with AdamW, and tune the rate anew",
    against="AdamW, each at the learning rate that suits it best",
    guide=("M32",),
    claim=Claim.SOONER_AT_TARGET,
    evidence="muon.toml",
    called="Muon",
    mechanism=changes("optimizers in a step", optimizers),
    why_not="For matrices of width m Muon multiplies as much as a step of 5 m tokens does, and here a batch has 512.",
)


class MuonAndAdamW(Optimizer):
    """Muon for hidden matrices, AdamW for the rest."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        *hidden, _ = [layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)]
        rest = [weight for weight in model.parameters() if all(weight is not matrix for matrix in hidden)]
        muon = Muon(hidden, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
        self.parts = (muon, AdamW(rest, lr=rate))
        super().__init__([group for part in self.parts for group in part.param_groups], {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()


def adafactor(model: nn.Module, rate: float) -> Optimizer:
    return Adafactor(model.parameters(), lr=rate)


RATES: Mapping[Callable[[nn.Module, float], Optimizer], Tuned] = {
    adamw: RATE,
    MuonAndAdamW: Tuned(geometric(0.002, 1.6), 0.00819),
    adafactor: Tuned(geometric(0.01, 1.8), 0.0324),
}


def course(optimizer: Callable[[nn.Module, float], Optimizer], batch: int = BATCH) -> Course:
    return Course(replace(NEXT_BYTE, optimizer=optimizer), RATES[optimizer].chosen, batch=batch)


class NextByte(Learning):
    """A small GPT learns to predict the next byte of Python source text. Timed: an optimizer step."""

    def baseline(self) -> Training:
        return course(adamw, **self.size).on(self.device)

    def optimized(self) -> Training:
        return course(MuonAndAdamW, **self.size).on(self.device)

    @variant
    def adafactor(self) -> Training:
        return course(adafactor, **self.size).on(self.device)


if __name__ == "__main__":
    trials = [(made.__name__, course(made), rates, None) for made, rates in RATES.items() if made is not adamw]
    count(NextByte, tune=lambda: tune(trials))
