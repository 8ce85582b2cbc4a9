"""What a small network learns in over a thousand steps, and how well it does on data that was held out.

`NEXT_BYTE`: a GPT of two blocks predicts the next byte of Python source text. It sees the text two and a half times,
and the last tenth of it never. A step takes 10 ms on one thread.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

import torch
from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import default_collate

from benchmarks.jobs.language_model import GPT, SourceText
from benchmarks.jobs.tuning import TUNING_SEEDS
from tipbench.tip.words import Trained, Training, available_cores

STEPS = 1500
"""Optimizer steps of a training, after which it is scored."""

BATCH = 16
"""Samples of an optimizer step."""

LOOK = 25 * BATCH
"""Samples after which held-out data are looked at."""

HELD_OUT = 64
"""Held-out samples that are looked at."""

FEW_SEEDS = TUNING_SEEDS[:4]
"""With which each setting is tried."""

Batch = tuple[torch.Tensor, torch.Tensor]

Schedule = Callable[[Optimizer, int], LRScheduler | None]
"""Makes what changes an optimizer's rate after each step, for a training of so many steps."""


def constant(optimizer: Optimizer, steps: int) -> None:
    """The rate as it is."""


@dataclass(frozen=True)
class Lesson:
    """What is learned. The score is the loss on held-out data: lower is better.

    Attributes:
        network: makes it, with random parameters.
        optimizer: of a network, for a learning rate.
        samples: draws so many (inputs, targets) at random.
        held_out: (inputs, targets) that are never drawn, always the same.
        loss: of outputs and targets.
        target: the score that a training must reach: what nearly all trainings at the best constant rate come to.
    """

    network: Callable[[], nn.Module]
    optimizer: Callable[[nn.Module, float], Optimizer]
    samples: Callable[[int], Batch]
    held_out: Callable[[], Batch]
    loss: nn.Module
    target: float

    def score(self, model: nn.Module, device: torch.device) -> float:
        inputs, targets = (tensor.to(device) for tensor in self.held_out())
        model.eval()
        with torch.no_grad():
            loss: float = self.loss(model(inputs), targets).item()
        model.train()
        return loss


@dataclass(frozen=True)
class Course:
    """How a lesson is taught.

    Attributes:
        rate: the learning rate, the highest one of a schedule.
        schedule: how it changes.
        batch: samples of an optimizer step.
        steps: after so many the training is scored.
        short: steps of a schedule that reaches the target soonest, in a training of its own; 0 for the same one.
        autocast: forward pass and loss are computed in bfloat16.
    """

    lesson: Lesson
    rate: float
    schedule: Schedule = constant
    batch: int = BATCH
    steps: int = STEPS
    short: int = 0
    autocast: bool = False

    def on(self, device: torch.device) -> Training:
        """The training, and a step of it."""
        model = self.lesson.network().to(device)
        taken = self.optimizer_steps(model, self.steps, device)

        def step() -> tuple[torch.Tensor, nn.Module]:
            return next(taken), model

        train = functools.partial(self.train, device=device)
        return Training(step, train, self.lesson.target, self.batch, lower_is_better=True)

    def optimizer_steps(self, model: nn.Module, steps: int, device: torch.device) -> Iterator[torch.Tensor]:
        """The loss of one step after the other, for ever: a schedule that has come to its end begins anew."""
        optimizer = self.lesson.optimizer(model, self.rate)
        while True:
            scheduler = self.schedule(optimizer, steps)
            for _ in range(steps):
                inputs, targets = (tensor.to(device) for tensor in self.lesson.samples(self.batch))
                optimizer.zero_grad()
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.autocast):
                    loss = self.lesson.loss(model(inputs), targets)
                loss.backward()
                optimizer.step()
                if scheduler:
                    scheduler.step()
                yield loss.detach()

    def train(self, seed: int, device: torch.device) -> Trained:
        """A training from scratch: how soon it reaches the target, and its score in the end."""
        whole = self.taught(seed, device, self.steps)
        if not self.short:
            return whole
        soon = self.taught(seed, device, self.short)
        return Trained(soon.steps, soon.reached, whole.score)

    def taught(self, seed: int, device: torch.device, steps: int) -> Trained:
        """One training of so many steps."""
        torch.manual_seed(seed)
        model = self.lesson.network().to(device)
        reached, score, look = 0, math.inf, max(1, LOOK // self.batch)
        for number, _ in enumerate(islice(self.optimizer_steps(model, steps, device), steps), 1):
            if number % look == 0 or number == steps:
                score = self.lesson.score(model, device)
                if not reached and score <= self.lesson.target:
                    reached = number
        return Trained(reached or steps, reached > 0, score)


# ---- the next byte of a text ----

CONTEXT = 32
"""Bytes of a window."""


@functools.cache
def source_text() -> SourceText:
    return SourceText(CONTEXT, bytes_read=250_000)


def windows(count: int) -> Batch:
    """Windows of the first nine tenths of the text, drawn at random."""
    text = source_text()
    drawn: Batch = default_collate([text[int(chosen)] for chosen in torch.randint(len(text) * 9 // 10, (count,))])
    return drawn


@functools.cache
def last_windows() -> Batch:
    """HELD_OUT windows of the last tenth, evenly spread."""
    text = source_text()
    first = len(text) * 9 // 10
    places = range(first, len(text), (len(text) - first) // HELD_OUT)
    spread: Batch = default_collate([text[place] for place in places[:HELD_OUT]])
    return spread


def small_gpt() -> nn.Module:
    return GPT(layers=2, width=64, heads=4, context=CONTEXT, activation=nn.GELU)


def adamw(model: nn.Module, rate: float) -> Optimizer:
    return AdamW(model.parameters(), lr=rate)


NEXT_BYTE = Lesson(
    network=small_gpt,
    optimizer=adamw,
    samples=windows,
    held_out=last_windows,
    loss=nn.CrossEntropyLoss(),
    target=2.0,
)

# ---- how settings are chosen ----


def tune(
    courses: Mapping[str, Course], rates: Mapping[str, Iterable[float]], lengths: Mapping[str, Iterable[int]]
) -> None:
    """Print how each course goes at several rates, and with several lengths at the best of these.

    courses, rates, lengths: by the course's name; a course without lengths has a constant rate.
    """
    with ProcessPoolExecutor(available_cores(), initializer=torch.set_num_threads, initargs=(1,)) as processes:

        def score(name: str, rate: float, steps: int) -> float:
            course = replace(courses[name], rate=rate)
            taught = functools.partial(course.taught, device=torch.device("cpu"), steps=steps)
            found = list(processes.map(taught, FEW_SEEDS))
            reached, scores = sum(one.reached for one in found), [one.score for one in found]
            print(
                f"{name} at {rate:.4g}, {steps} steps: score {fmean(scores):.4g} ({min(scores):.4g} to "
                f"{max(scores):.4g}), {sum(one.steps for one in found) / max(reached, 0.5):.0f} steps to the target, "
                f"{reached} of {len(found)} reach it",
                flush=True,
            )
            return fmean(scores) if math.isfinite(fmean(scores)) else math.inf

        for name, course in courses.items():
            scores = {rate: score(name, rate, course.steps) for rate in rates[name]}
            best = min(scores, key=scores.__getitem__)
            for length in lengths.get(name, ()):
                score(name, best, length)
