"""Tell handwritten digits apart: real labels, and a network so small that a step is a whole training.

The images are scikit-learn's copy of the test set of "Optical Recognition of Handwritten Digits" (UCI): 1,797
of 8 x 8 pixels. Every fourth of them, in an order shuffled once and for all, is held out from training.
"""

import functools
import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

TARGET = 0.95
"""The share of the held-out images that a training must classify correctly."""

LONGEST = 30
"""Epochs after which a training has failed."""

TUNING_SEEDS, PROVING_SEEDS = range(20), range(20, 220)
"""What learning rates are chosen by; `from_fresh_seeds` draws none of them."""

Schedule = Callable[[Optimizer, int], LRScheduler]
"""Makes a scheduler of an optimizer and the number of batches in an epoch."""

Result = dict[str, torch.Tensor]


@functools.cache
def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(images, labels, held-out images, held-out labels); an image is 64 numbers from 0 to 1."""
    # scikit-learn is found, not imported: that takes a second.
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise FileNotFoundError("the digits of the package sklearn are needed: pip install scikit-learn")
    rows = np.loadtxt(Path(found.origin).parent / "datasets/data/digits.csv.gz", delimiter=",", dtype=np.float32)
    shuffled = torch.from_numpy(rows)[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    images, labels = shuffled[:, :-1] / 16, shuffled[:, -1].long()
    held_out = torch.arange(len(images)) % 4 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def network(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


@dataclass(frozen=True)
class Training:
    """Trains a new network with SGD until TARGET is reached.

    width: of the network's only hidden layer. rate: the learning rate, which a schedule may change.
    schedule: stepped after each batch. epochs: after which a training has failed.
    """

    batch: int
    width: int
    rate: float
    schedule: Schedule | None = None
    epochs: int = LONGEST

    def __call__(self, seed: int, device: torch.device) -> Result:
        """The share of held-out images classified correctly at the end, and the loss of the last batch."""
        images, labels, held_out_images, held_out_labels = (tensor.to(device) for tensor in digits())
        torch.manual_seed(seed)
        model = network(self.width).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate, momentum=0.9)
        scheduler = self.schedule(optimizer, math.ceil(len(images) / self.batch)) if self.schedule else None
        for _ in range(self.epochs):
            for chosen in torch.randperm(len(images)).to(device).split(self.batch):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
                loss.backward()
                optimizer.step()
                if scheduler:
                    scheduler.step()
            with torch.no_grad():
                score = (model(held_out_images).argmax(dim=1) == held_out_labels).float().mean()
            if score >= TARGET:
                break
        return {"score": score, "loss": loss.detach()}


def from_fresh_seeds(training: Training, device: torch.device) -> Callable[[], Result]:
    """A step that trains with another seed in each call: the same ones on both sides, in the same order."""
    # Drawn, not counted up: the launches of a run are seeded by consecutive numbers, and must share no training.
    drawn = torch.Generator().manual_seed(torch.initial_seed())

    def step() -> Result:
        return training(int(torch.randint(PROVING_SEEDS.stop, 2**31, (), generator=drawn)), device)

    return step


@contextmanager
def learning_rates() -> Iterator[list[float]]:
    """The learning rate of each step that optimizers take within."""
    rates: list[float] = []
    handle = register_optimizer_step_post_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    try:
        yield rates
    finally:
        handle.remove()


def tune(build: Callable[..., Training], grid: Iterable[tuple[float, ...]]) -> None:
    """Print the optimizer steps to the target of the training built with each setting of a grid, and the best one.

    Of those that reach the target from all TUNING_SEEDS, the three with the fewest steps that reach it from all
    PROVING_SEEDS too; and of these, what takes the fewest there: 20 seeds alone would often pick what was lucky.
    Steps, unlike seconds, are the same when another runs the command, but for the rounding of other processors.
    """
    torch.set_num_threads(1)
    means: dict[tuple[float, ...], float] = {}
    for setting in grid:
        if steps := steps_to_target(build(*setting), TUNING_SEEDS):
            means[setting] = sum(steps) / len(steps)
        print(_call(build, setting), f"{means[setting]:.1f} steps" if steps else "misses the target", flush=True)
    proved: dict[tuple[float, ...], float] = {}
    for setting in sorted(means, key=means.__getitem__):
        if len(proved) < 3 and (steps := steps_to_target(build(*setting), PROVING_SEEDS)):
            proved[setting] = sum(steps) / len(steps)
            print(_call(build, setting), f"{proved[setting]:.1f} steps with {len(steps)} other seeds", flush=True)
    print(
        f"best: {_call(build, min(proved, key=proved.__getitem__))}\n" if proved else "none is reliable\n", flush=True
    )


def _call(build: Callable[..., Training], setting: tuple[float, ...]) -> str:
    return f"{build.__name__}({', '.join(f'{number:.4g}' for number in setting)})"


def steps_to_target(training: Training, seeds: Iterable[int]) -> list[int]:
    """The optimizer steps of a training from each seed, on the CPU; none where one misses the target."""
    found = []
    for seed in seeds:
        with learning_rates() as rates:
            result = training(seed, torch.device("cpu"))
        if result["score"] < TARGET:
            return []
        found.append(len(rates))
    return found
