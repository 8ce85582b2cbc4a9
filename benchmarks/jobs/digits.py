"""Tell handwritten digits apart: real labels, and a convolutional network that learns them within a second or two.

The images are scikit-learn's copy of the test set of "Optical Recognition of Handwritten Digits" (UCI): 1,797
of 8 x 8 pixels. Every fourth of them, in an order shuffled once and for all, is held out from training.
"""

import functools
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim import SGD

from benchmarks.jobs.tuning import PROVING_SEEDS, TUNING_SEEDS
from tipbench.tip.words import Trained, Training

LOOK = 512
"""Images after which the held-out ones are looked at, or after each batch where that is larger."""

PROOFS = 2
"""Settings that must be confirmed before one of them is chosen."""


@functools.cache
def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(images, labels, held-out images, held-out labels); images are (count, 1, 8, 8), numbers from 0 to 1."""
    # scikit-learn is found, not imported: that takes a second.
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise FileNotFoundError("the digits of the package sklearn are needed: pip install scikit-learn")
    rows = np.loadtxt(Path(found.origin).parent / "datasets/data/digits.csv.gz", delimiter=",", dtype=np.float32)
    shuffled = torch.from_numpy(rows)[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    images, labels = (shuffled[:, :-1] / 16).view(-1, 1, 8, 8), shuffled[:, -1].long()
    held_out = torch.arange(len(images)) % 4 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def network(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, kernel_size=3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * 16, 10),
    )


@dataclass(frozen=True)
class Recipe:
    """How the network is trained, with SGD: batches of `batch` images at the learning rate `rate`.

    target: the share of held-out images that must be right. epochs: after which the score is taken. longest: epochs
    after which a training that has not reached its target is given up.
    """

    batch: int
    rate: float
    target: float
    epochs: int
    longest: int
    width: int = 16

    def optimizer_steps(self, model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Iterator[torch.Tensor]:
        """The loss of one optimizer step after the other, for ever; what is left of an epoch is dropped."""
        optimizer = SGD(model.parameters(), lr=self.rate, momentum=0.9)
        batches = len(images) // self.batch
        while True:
            for chosen in torch.randperm(len(images)).to(images.device).split(self.batch)[:batches]:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
                loss.backward()
                optimizer.step()
                yield loss.detach()

    def train(self, seed: int, device: torch.device) -> Trained:
        """A training from scratch. Its score is the share of held-out images that are right after `epochs`."""
        images, labels, held_out, truth = (tensor.to(device) for tensor in digits())
        torch.manual_seed(seed)
        model = network(self.width).to(device)
        epoch, every = len(images) // self.batch, max(1, LOOK // self.batch)
        last, at_target, score = epoch * self.longest, 0, 0.0
        for number, _ in enumerate(self.optimizer_steps(model, images, labels), 1):
            if number % every == 0 or number == epoch * self.epochs:
                found = right(model, held_out, truth)
                at_target = at_target or (number if found >= self.target else 0)
                score = found if number <= epoch * self.epochs else score
            if number >= last or (at_target and number >= epoch * self.epochs):
                break
        return Trained(at_target or last, at_target > 0, score)

    def on(self, device: torch.device, images: int) -> Training:
        """The training, and a step of it that takes `images` images: one batch, or several smaller ones."""
        model = network(self.width).to(device)
        inputs, labels, _, _ = (tensor.to(device) for tensor in digits())
        taken = self.optimizer_steps(model, inputs, labels)
        steps = images // self.batch

        def step() -> tuple[torch.Tensor, nn.Module]:
            return torch.stack([next(taken) for _ in range(steps)]).mean(), model

        return Training(step, lambda seed: self.train(seed, device), self.target, self.batch, steps)


def right(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of images whose label the model finds."""
    model.eval()
    with torch.no_grad():
        found: float = (model(images).argmax(dim=1) == labels).double().mean().item()
    model.train()
    return found


def tune(build: Callable[..., Recipe], grid: Iterable[tuple[float, ...]]) -> None:
    """Print the steps to the target of the recipe built with each setting of a grid, and the best one.

    In the order of their expected steps with TUNING_SEEDS they are tried with PROVING_SEEDS, until PROOFS reach the
    target with nine of ten there; of these the best is taken: few seeds alone would often pick what was lucky. Steps,
    unlike seconds, are the same when another runs the command, but for the rounding of other processors.
    """
    torch.set_num_threads(1)
    tried = {setting: expected_steps(build, setting, TUNING_SEEDS)[0] for setting in grid}
    proved: dict[tuple[float, ...], float] = {}
    for setting in sorted(tried, key=tried.__getitem__):
        steps, share = expected_steps(build, setting, PROVING_SEEDS)
        if share >= 0.9:
            proved[setting] = steps
        if len(proved) == PROOFS:
            break
    print(
        f"best: {_call(build, min(proved, key=proved.__getitem__))}\n" if proved else "none is reliable\n", flush=True
    )


def expected_steps(
    build: Callable[..., Recipe], setting: tuple[float, ...], seeds: Iterable[int]
) -> tuple[float, float]:
    """(steps of all trainings, the failed ones included, for each that reaches the target; the share that does)."""
    found = [build(*setting).train(seed, torch.device("cpu")) for seed in seeds]
    reached = sum(one.reached for one in found)
    steps = sum(one.steps for one in found) / max(reached, 0.5)
    score = sum(one.score for one in found) / len(found)
    print(
        f"{_call(build, setting)} {steps:.1f} steps, {reached} of {len(found)} reach the target, score {score:.4f}",
        flush=True,
    )
    return steps, reached / len(found)


def _call(build: Callable[..., Recipe], setting: tuple[float, ...]) -> str:
    return f"{build.__name__}({', '.join(f'{number:.4g}' for number in setting)})"
