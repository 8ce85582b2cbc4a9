"""Use large batches.

Every operation has a price of its own, whatever it works on: the call from Python, the launch of a kernel. A large
batch pays it for more samples at once, and gives the cores of a CPU or GPU enough to share. So a large batch takes
less time a sample, up to where the hardware is busy.

Why people write the baseline: 16 and 32 are what tutorials use, and small batches fit into any memory.

What to expect: more samples a second are not fewer seconds to the target. The gradient of a large batch is less
noisy, but it is still one step: past some size twice the batch is far from halving the steps that are needed. And
every size needs a learning rate of its own. So there are two pairs: `Gradients` is the price of a sample,
`DigitsTraining` the time until a network has learned, with the rate tuned for each size.

How the rates below were chosen: `python -m benchmarks.training.batch_size` tries 14 of them for each size, with
seeds that no run uses, and prints the optimizer steps each needs. The fastest that reaches the target with 220
seeds is taken.
"""

from typing import Any

import torch
from torch import nn

from benchmarks.jobs.digits import TARGET, Training, from_fresh_seeds, learning_rates, network, tune
from tipbench.tip.words import (
    Claim,
    Equal,
    Mechanism,
    Pair,
    Sizes,
    Step,
    Tip,
    falls,
    forward_passes,
    over_modules,
    sweep,
)

TIP = Tip(
    id="batch-size",
    title="Use large batches",
    do="DataLoader(data, batch_size=...), with a learning rate of its own",
    guide=("B2",),
    claim=Claim.FASTER,
    mechanism=falls("forward passes for the same images", forward_passes),
    note="more samples a second are not fewer seconds to the target, and every batch size needs its own learning rate",
)

SMALL, LARGER = 16, (64, 256, 1024)
WIDTH = 64


class Gradients(Pair):
    """The mean gradient over 1,024 images, computed in batches and added up."""

    sizes = Sizes(dict(images=1024, width=WIDTH), test=dict(width=8))

    def gradients(self, batch: int) -> Step:
        count = self.size["images"]
        images, labels = torch.rand(count, 64, device=self.device), torch.randint(10, (count,), device=self.device)
        model = network(self.size["width"]).to(self.device)

        def step() -> nn.Module:
            model.zero_grad()
            for some_images, some_labels in zip(images.split(batch), labels.split(batch), strict=True):
                # Summed and divided by all, so that it is the mean over all images whatever the batch.
                loss = nn.functional.cross_entropy(model(some_images), some_labels, reduction="sum") / count
                loss.backward()
            return model

        return step

    def baseline(self) -> Step:
        return self.gradients(SMALL)

    @sweep(batch=LARGER)
    def optimized(self, batch: int = LARGER[-1]) -> Step:
        return self.gradients(batch)


RATES = {16: 0.02 * 1.4**3, 64: 0.02 * 1.4**6, 256: 0.02 * 1.4**10, 1024: 0.02 * 1.4**10}
"""The learning rate that suits each batch size."""


def training(batch: int, rate: float) -> Training:
    return Training(batch, WIDTH, rate)


class DigitsTraining(Pair):
    """Training a small network to read handwritten digits, from scratch until 95 % of the held-out ones are right."""

    scale = "macro"
    equal = Equal.TARGET
    target = TARGET
    sizes = Sizes(dict(width=WIDTH, trainings=5), test=dict(trainings=2))

    def baseline(self) -> Step:
        return from_fresh_seeds(training(SMALL, RATES[SMALL]), self.device)

    @sweep(batch=LARGER)
    def optimized(self, batch: int = LARGER[-1]) -> Step:
        return from_fresh_seeds(training(batch, RATES[batch]), self.device)

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism(
            "optimizer steps to the target and images seen, over all trainings",
            lambda step: steps_and_images(step, self.size["trainings"]),
            lambda baseline, optimized: images_a_step(optimized) > images_a_step(baseline),
        )


def steps_and_images(step: Step, trainings: int) -> dict[str, int]:
    def seen(module: nn.Module, inputs: Any, output: Any) -> int:
        # Without gradients it is a test.
        return len(output) if isinstance(module, nn.Sequential) and torch.is_grad_enabled() else 0

    with learning_rates() as rates:
        images = over_modules(lambda: [step() for _ in range(trainings)], seen)
    return {"steps": len(rates), "images": images, "trainings": trainings}


def images_a_step(count: dict[str, int]) -> float:
    return count["images"] / count["steps"]


if __name__ == "__main__":
    for size in (SMALL, *LARGER):
        tune(training, [(size, 0.02 * 1.4**number) for number in range(14)])
