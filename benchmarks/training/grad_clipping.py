"""Clip gradients.

`clip_grad_norm_(parameters, 0.25)` scales all gradients down together where their norm is above 0.25, so that
one bad batch cannot throw the weights far off. It is a cost in time, and buys stability.

Why people write the baseline: a training loop does without clipping until its loss jumps up or diverges.

What to expect: clipping makes a step slower, and that is all it does while gradients are below the threshold. Where the
learning rate is high it keeps a training on its way that would fail without it: at the rate below all 12 trainings
tried missed the target. Who does not clip can also lower the rate. `lower_rate` does, and halving it is enough to get
there: in 114 steps, where clipping at the high rate takes 98.

The job is that of PyTorch's own example of a language model (examples/word_language_model): an LSTM trained with
SGD, by default at a learning rate of 20 with gradients clipped at 0.25. Timed at the example's size; trainings are
counted on a smaller LSTM at the same settings, as 12 trainings of each side take most of a minute even so.

How the lower rate was chosen: `python -m benchmarks.training.grad_clipping` tries several, with seeds that no run
uses.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import default_collate

from benchmarks.jobs.language_model import VOCABULARY, SourceText
from benchmarks.jobs.tuning import Tuned
from tipbench.tip.words import (
    SET_ASIDE,
    Claim,
    Equal,
    Job,
    MacroPair,
    Sizes,
    Step,
    Tip,
    Trained,
    Training,
    as_it_is,
    falls,
    variant,
)

RATE, MAX_NORM = 20.0, 0.25
"""As in PyTorch's example."""

LOWER_RATE = Tuned((3.0, 5.0, 7.0, 10.0, 14.0), 10.0)
"""The one with the fewest steps without clipping: 172, 135, 132, 114 and 211, with 12 seeds."""

TARGET = 2.2
"""Nats a byte on held-out text."""

HELD_OUT = 64
"""Windows of the last tenth of the text, evenly spread."""

LONGEST, LOOK = 200, 10
"""Optimizer steps of a training, and after how many of them the held-out text is looked at."""


def weights_moved(step: Step) -> float:
    """The norm of all changes of the weights by the optimizer's first step."""
    before: list[torch.Tensor] = []
    moved: list[float] = []

    def weights(optimizer: Optimizer) -> list[torch.Tensor]:
        return [weight.detach() for group in optimizer.param_groups for weight in group["params"]]

    def keep(optimizer: Optimizer, *_: Any) -> None:
        before[:] = [weight.clone() for weight in weights(optimizer)]

    def compare(optimizer: Optimizer, *_: Any) -> None:
        changes = [(now - then).norm() for now, then in zip(weights(optimizer), before, strict=True)]
        moved.append(torch.stack(changes).norm().item())

    handles = register_optimizer_step_pre_hook(keep), register_optimizer_step_post_hook(compare)
    step()
    for handle in handles:
        handle.remove()
    return round(moved[0], 3)


TIP = Tip(
    id="grad-clipping",
    title="Clip gradients",
    do=(
        "loss.backward()\n"
        "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.25)  # for this model: try others\n"
        "optimizer.step()"
    ),
    ways={"lower_rate": 'for group in optimizer.param_groups: group["lr"] /= 2  # once, before any scheduler is made'},
    when="a training's loss jumps up or diverges",
    guide=("B8",),
    claim=Claim.FEWER_STEPS,
    called="clipping",
    mechanism=falls("how far the first step moves the weights", weights_moved),
    note="Clipping costs time and buys stability. With a GradScaler call unscale_ first.",
    no_micro="what clipping prevents shows in a whole training alone",
)


def grad_clipping(job: Job) -> None:
    """The tip, on any training job: clip between the backward pass and the optimizer's step."""
    assert job.optimizer is not None
    parameters = [parameter for group in job.optimizer.param_groups for parameter in group["params"]]

    def clip(*_: Any) -> None:
        clip_grad_norm_(parameters, MAX_NORM)

    job.optimizer.register_step_pre_hook(clip)


def lower_rate(job: Job, rate: float = LOWER_RATE.chosen) -> None:
    """What else keeps a training from diverging."""
    assert job.optimizer is not None
    for group in job.optimizer.param_groups:
        group["lr"] = rate


class LSTM(nn.Module):
    """Bytes (batch, tokens) in, scores of the next byte (batch, VOCABULARY, tokens) out."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.bytes(tokens))
        scores: torch.Tensor = self.head(states)
        return scores.transpose(1, 2)


def lstm_job(device: torch.device, width: int, layers: int, batch: int, context: int) -> Job:
    model = LSTM(width, layers).to(device)
    return Job(model, SourceText(context), device, optimizer=SGD(model.parameters(), lr=RATE), batch_size=batch)


def train(change: Callable[[Job], None], seed: int, device: torch.device, batch: int, context: int) -> Trained:
    """A training from scratch of a job that `change` was applied to. Its score is the loss after LONGEST steps."""
    torch.manual_seed(seed)
    job = lstm_job(device, width=64, layers=1, batch=batch, context=context)
    change(job)
    windows = len(job.data) * 9 // 10  # type: ignore[arg-type]
    held_out = range(windows, windows * 10 // 9, windows // 9 // HELD_OUT)
    inputs, targets = default_collate([job.data[number] for number in held_out])
    reached = 0
    for number in range(1, LONGEST + 1):
        job.run(*default_collate([job.data[int(chosen)] for chosen in torch.randint(windows, (batch,))]))
        if number % LOOK == 0:
            with torch.no_grad():
                loss = job.loss(job.model(inputs.to(device)), targets.to(device)).item()
            reached = reached or (number if loss <= TARGET else 0)
    return Trained(reached or LONGEST, reached > 0, loss)


class LSTMTraining(MacroPair, apply=grad_clipping):
    """An LSTM of `layers` layers, `width` numbers a byte, trained on `batch` windows of `context` bytes."""

    task = "training"
    equal = Equal.TARGET
    trainings = 12
    sizes = Sizes(
        dict(width=200, layers=2, batch=20, context=35),
        M=dict(width=650),
        XL=dict(width=1500, batch=80),
        test=dict(width=16, layers=1),
    )

    def job(self) -> Job:
        return lstm_job(self.device, **self.size)

    def applied(self, change: Callable[[Job], None]) -> Training:
        batch, context = self.size["batch"], self.size["context"]
        trained = partial(train, change, device=self.device, batch=batch, context=context)
        return Training(super().applied(change), trained, TARGET, batch, lower_is_better=True)

    @variant
    def lower_rate(self) -> Step:
        return self.applied(lower_rate)


def tune() -> None:
    """Print how trainings without clipping go at several rates, with seeds that no run uses; and at RATE with it."""
    torch.set_num_threads(1)
    changes: dict[str, Callable[[Job], None]]
    changes = {f"{rate:g}, not clipped": partial(lower_rate, rate=rate) for rate in LOWER_RATE.tried}
    changes |= {f"{RATE:g}, not clipped": as_it_is, f"{RATE:g}, clipped": grad_clipping}
    for name, change in changes.items():
        found = [train(change, seed, torch.device("cpu"), batch=20, context=35) for seed in SET_ASIDE[:12]]
        reached = sum(one.reached for one in found)
        steps = sum(one.steps for one in found) / max(reached, 0.5)
        print(f"rate {name}: {steps:.0f} steps, {reached} of {len(found)} reach the target", flush=True)


if __name__ == "__main__":
    tune()
