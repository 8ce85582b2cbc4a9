"""Raise the learning rate and lower it again, once over the whole training.

`OneCycleLR` starts at a small learning rate, raises it to `max_lr`, and lowers it to next to nothing by the last
step; momentum goes the other way. The high rates in the middle cover ground, the low ones at the end settle. It
is stepped after every batch, not after every epoch, and must be given the length of the training beforehand.

Why people write the baseline: a constant learning rate needs no plan, least of all of how long training will
take. `StepLR`, which lowers the rate at fixed epochs, is the oldest schedule, and a variant here.

What to expect: fewer steps to the target than with a constant rate, but do not expect much where that is tuned
with the same care, nor that the cycle beats `StepLR`. Against a rate picked carelessly any schedule wins. And a
cycle that is too short misses the target and must be started anew, where a constant rate just goes on.

How the rates and lengths below were chosen: `python -m benchmarks.training.one_cycle` tries 12 settings of each
side, with seeds that no run uses, and prints the optimizer steps each needs. The fastest that reaches the target
with 220 seeds is taken.
"""

from itertools import product

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR, StepLR

from benchmarks.jobs.digits import TARGET, Training, from_fresh_seeds, learning_rates, tune
from tipbench.tip.words import Claim, Equal, Mechanism, Pair, Sizes, Step, Tip, variant

TIP = Tip(
    id="one-cycle",
    title="Use a one-cycle learning rate",
    do="OneCycleLR(optimizer, max_lr=..., epochs=..., steps_per_epoch=...)",
    guide=("B1",),
    claim=Claim.FEWER_STEPS,
    note="OneCycleLR raises the rate over the first 30 % of the steps (pct_start=0.3), not over the first half",
    no_micro="a schedule changes a number, and what that brings shows in a whole training alone",
)

BATCH, WIDTH = 32, 64


def constant(rate: float) -> Training:
    return Training(BATCH, WIDTH, rate)


def step_lr(rate: float, epochs: int) -> Training:
    """A tenth of the rate after so many epochs, and again after as many more."""
    return Training(BATCH, WIDTH, rate, lambda optimizer, batches: StepLR(optimizer, epochs * batches))


def one_cycle(rate: float, epochs: int) -> Training:
    """The tip: up to `rate` and down again, within so many epochs."""

    def schedule(optimizer: Optimizer, batches: int) -> LRScheduler:
        return OneCycleLR(optimizer, max_lr=rate, epochs=epochs, steps_per_epoch=batches)

    return Training(BATCH, WIDTH, rate, schedule, epochs)


class DigitsTraining(Pair):
    """Training a small network to read handwritten digits, from scratch until 95 % of the held-out ones are right."""

    scale = "macro"
    equal = Equal.TARGET
    target = TARGET
    sizes = Sizes(dict(batch=BATCH, width=WIDTH, trainings=5), test=dict(trainings=2))

    def baseline(self) -> Step:
        return from_fresh_seeds(constant(rate=0.03 * 1.2**7), self.device)

    @variant
    def step_lr(self) -> Step:
        return from_fresh_seeds(step_lr(rate=0.12, epochs=3), self.device)

    def optimized(self) -> Step:
        return from_fresh_seeds(one_cycle(rate=0.2, epochs=6), self.device)

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism(
            "optimizer steps to the target and learning rates used, over all trainings",
            lambda step: steps_and_rates(step, self.size["trainings"]),
            lambda baseline, optimized: baseline["learning rates"] == 1 < optimized["learning rates"],
        )


def steps_and_rates(step: Step, trainings: int) -> dict[str, int]:
    with learning_rates() as rates:
        for _ in range(trainings):
            step()
    return {"steps": len(rates), "learning rates": len(set(rates)), "trainings": trainings}


if __name__ == "__main__":
    tune(constant, [(0.03 * 1.2**number,) for number in range(12)])
    tune(step_lr, product((0.06, 0.08, 0.12, 0.16), (2, 3, 4)))
    tune(one_cycle, product((0.15, 0.2, 0.25, 0.3), (4, 5, 6)))
