"""What small networks learn in over a thousand steps, and how well they do on data that was held out.

`NEXT_BYTE`: a GPT of two blocks predicts the next byte of Python source text; `NEXT_BYTE_BY_LSTM`: an LSTM does. They
see the text two and a half times, and the last tenth of it never. `CLEAN_PHOTOS`: convolutions take noise off photos;
`CLEAN_PHOTOS_PLAIN`: more of them without normalisation. Whole photos are held out: patches of one photo are too much
alike. A step takes 20 ms at most on one thread, so that a training takes half a minute.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

import numpy as np
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import default_collate

from benchmarks.jobs.images import PHOTOS, photo
from benchmarks.jobs.language_model import GPT, VOCABULARY, SourceText
from benchmarks.jobs.tuning import Tuned, geometric
from tipbench.tip.words import *

STEPS = 1500
"""Optimizer steps of a training, after which it is scored."""

BATCH = 16
"""Samples of an optimizer step."""

LOOK = 25 * BATCH
"""Samples after which held-out data are looked at."""

HELD_OUT = 64
"""Held-out samples that are looked at."""

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
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
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
        longest: steps after which a training that has not reached the target is given up, if more than `steps`.
        autocast: forward pass and loss are computed in bfloat16.
        max_norm: to which gradients are clipped.
    """

    lesson: Lesson
    rate: float
    schedule: Schedule = constant
    batch: int = BATCH
    steps: int = STEPS
    short: int = 0
    longest: int = 0
    autocast: bool = False
    max_norm: float = math.inf

    @property
    def settings(self) -> str:
        """In words, the lesson left out."""
        named = {**vars(self), "schedule": self.schedule.__name__}
        return ", ".join(f"{name}={value}" for name, value in named.items() if name != "lesson")

    def on(self, device: torch.device, samples: int = 0) -> Training:
        """The training, and a step of it that takes so many samples: one batch, or several smaller ones."""
        model, count = self.lesson.network().to(device), max(1, samples // self.batch)
        taken = self.optimizer_steps(model, self.steps, device)

        def step() -> tuple[torch.Tensor, nn.Module]:
            return torch.stack([next(taken) for _ in range(count)]).mean(), model

        train = functools.partial(self.train, device=device)
        return Training(
            step, train, self.lesson.target, self.batch, count, lower_is_better=True, settings=self.settings
        )

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
                if self.max_norm < math.inf:
                    clip_grad_norm_(model.parameters(), self.max_norm)
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
        """One training, scored after so many steps."""
        torch.manual_seed(seed)
        model = self.lesson.network().to(device)
        reached, score, look, last = 0, math.inf, max(1, LOOK // self.batch), max(steps, self.longest)
        for number, _ in enumerate(islice(self.optimizer_steps(model, steps, device), last), 1):
            if number % look == 0 or number == steps:
                loss = self.lesson.score(model, device)
                reached = reached or (number if loss <= self.lesson.target else 0)
                score = loss if number <= steps else score
            if reached and number >= steps:
                break
        return Trained(reached or last, reached > 0, score)


class Learning(Pair):
    """Timed: an optimizer step. Counted: whole trainings to a target."""

    task = "training"
    scale = "macro"
    equal = Equal.TARGET
    sizes = Sizes(dict(batch=BATCH), test=dict(batch=2))


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

RATE = Tuned(geometric(0.0005, 1.34, 11), 0.00696)
"""For NEXT_BYTE: the constant learning rate with the best score, by `python -m benchmarks.training.one_cycle`."""


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


def small_lstm() -> nn.Module:
    return LSTM(width=64, layers=1)


def sgd(model: nn.Module, rate: float, momentum: float = 0.0) -> Optimizer:
    return SGD(model.parameters(), lr=rate, momentum=momentum)


NEXT_BYTE_BY_LSTM = replace(NEXT_BYTE, network=small_lstm, optimizer=sgd, target=2.03)

# ---- photos without noise ----

PIXELS = 32
"""Height and width of a patch."""

NOISE = 25 / 255
"""Standard deviation of the noise, of values from 0 to 1."""

NEVER_SEEN = ("cat", "coffee")
"""Photos that are held out."""


class Denoiser(nn.Module):
    """Noisy (batch, 3, height, width) in, the same without what it takes for noise out."""

    def __init__(self, noise: nn.Module) -> None:
        super().__init__()
        self.noise = noise

    def forward(self, noisy: torch.Tensor) -> torch.Tensor:
        clean: torch.Tensor = noisy - self.noise(noisy)
        return clean


def small_dncnn() -> nn.Module:
    """DnCNN (Zhang et al. 2017, arXiv:1608.03981) with five convolutions of 16 channels."""
    between: list[nn.Module] = []
    for _ in range(3):
        between += [nn.Conv2d(16, 16, kernel_size=3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    first, last = nn.Conv2d(3, 16, kernel_size=3, padding=1), nn.Conv2d(16, 3, kernel_size=3, padding=1)
    return Denoiser(nn.Sequential(first, nn.ReLU(), *between, last))


def small_vdsr() -> nn.Module:
    """Ten convolutions without normalisation, their parameters drawn as VDSR's (Kim et al. 2016, arXiv:1511.04587)."""
    modules: list[nn.Module] = []
    for before, after in itertools.pairwise([3, *[16] * 9, 3]):
        convolution = nn.Conv2d(before, after, kernel_size=3, padding=1)
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
        nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        modules += [convolution, nn.ReLU()]
    return Denoiser(nn.Sequential(*modules[:-1]))


def squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Half the squared error of a patch, summed over its pixels; the mean over a batch."""
    return (outputs - targets).square().sum() / (2 * len(outputs))


@functools.cache
def photos(held_out: bool) -> list[torch.Tensor]:
    """(3, height, width), values from 0 to 255, at half their height and width."""
    places = [place for name, place in PHOTOS.items() if (name in NEVER_SEEN) == held_out]
    return [torch.from_numpy(np.array(photo(place).reduce(2))).permute(2, 0, 1) for place in places]


def patches(count: int, held_out: bool = False) -> Batch:
    """(with noise, without), from photos and places that are drawn at random."""
    drawn = []
    for _ in range(count):
        chosen = photos(held_out)[int(torch.randint(len(photos(held_out)), ()))]
        top, left = (int(torch.randint(extent - PIXELS + 1, ())) for extent in chosen.shape[1:])
        drawn.append(chosen[:, top : top + PIXELS, left : left + PIXELS])
    clean = torch.stack(drawn).float() / 255
    return clean + NOISE * torch.randn_like(clean), clean


@functools.cache
def unseen_patches() -> Batch:
    """HELD_OUT patches of the photos that are held out."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(0)
        return patches(HELD_OUT, held_out=True)


CLEAN_PHOTOS = Lesson(
    network=small_dncnn,
    optimizer=adamw,
    samples=patches,
    held_out=unseen_patches,
    loss=nn.MSELoss(),
    target=0.0019,
)
CLEAN_PHOTOS_PLAIN = replace(
    CLEAN_PHOTOS, network=small_vdsr, optimizer=functools.partial(sgd, momentum=0.9), loss=squared_error, target=8.0
)

# ---- how settings are chosen ----


def tune(trials: Iterable[tuple[str, Course, Tuned, Tuned | None]]) -> None:
    """Print how courses go at the rates that were tried, and with the lengths at the best of these. trials: of each
    course its name, itself, its rates, and its lengths; None for a constant rate."""
    with ProcessPoolExecutor(available_cores(), initializer=torch.set_num_threads, initargs=(1,)) as processes:

        def score(name: str, course: Course, steps: int) -> float:
            taught = functools.partial(course.taught, device=torch.device("cpu"), steps=steps)
            found = list(processes.map(taught, SET_ASIDE[:4]))
            reached, scores = sum(one.reached for one in found), [one.score for one in found]
            print(
                f"{name} at {course.rate:.4g}, {steps} steps: score {fmean(scores):.4g} ({min(scores):.4g} to "
                f"{max(scores):.4g}), {sum(one.steps for one in found) / max(reached, 0.5):.0f} steps to the target, "
                f"{reached} of {len(found)} reach it",
                flush=True,
            )
            return fmean(scores) if math.isfinite(fmean(scores)) else math.inf

        for name, course, rates, lengths in trials:
            scores = {rate: score(name, replace(course, rate=rate), course.steps) for rate in rates.tried}
            best = min(scores, key=scores.__getitem__)
            for length in lengths.tried if lengths else ():
                score(name, replace(course, rate=best), int(length))
