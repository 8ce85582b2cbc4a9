"""Raise the learning rate and lower it again, once over the whole training.

`OneCycleLR` starts at a small learning rate, raises it to `max_lr`, and lowers it to next to nothing by the last
step; momentum goes the other way. The high rates in the middle cover ground, the low ones at the end settle. It
is stepped after every batch, not after every epoch, and must be given the length of the training beforehand.

Why people write the baseline: a constant learning rate needs no plan, least of all of how long training will
take. `StepLR`, which lowers the rate at fixed epochs, is the oldest schedule, and a variant here.

What to expect: against a rate picked carelessly any schedule wins. Against a constant rate that is tuned with the
same care, the cycle has brought nothing here: 111 steps to the target against 104, and after as many epochs a score of
0.977 against 0.976. A cycle that is too short misses the target and must be started anew: of three epochs 4 of 20 did,
where a constant rate just goes on. So the steps of a training that misses are counted too.

How the rates and lengths below were chosen: `python -m benchmarks.training.one_cycle` tries several settings of each
side, with seeds that no run uses. The fewest steps are taken, with 20 further seeds of which nine of ten get there.
"""

from itertools import product

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR, StepLR
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.jobs.digits import Recipe, Tuned, geometric, tune
from tipbench.tip.words import Claim, Equal, Mechanism, Pair, Sizes, Step, Tip, Training, variant

STEPS = 130
"""Optimizer steps, three epochs: within these every schedule here changes the rate."""


def learning_rates(step: Step) -> int:
    """How many different ones the optimizer's next STEPS steps are taken with."""
    rates: list[float] = []
    handle = register_optimizer_step_post_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    while len(rates) < STEPS:
        step()
    handle.remove()
    return len(set(rates))


TIP = Tip(
    id="one-cycle",
    title="Use a one-cycle learning rate",
    do=(
        "from torch.optim.lr_scheduler import OneCycleLR\n"
        "scheduler = OneCycleLR(optimizer, max_lr=rate, epochs=epochs, steps_per_epoch=len(loader))\n"
        "optimizer.step()\n"
        "scheduler.step()"
    ),
    ways={
        "step_lr": (
            "from torch.optim.lr_scheduler import StepLR\n"
            "scheduler = StepLR(optimizer, step_size=2 * len(loader))\n"
            "optimizer.step()\n"
            "scheduler.step()"
        ),
    },
    against="a constant rate, tuned likewise",
    guide=("B1",),
    claim=Claim.FEWER_STEPS,
    called="one cycle",
    mechanism=Mechanism(
        "learning rates used in three epochs",
        learning_rates,
        lambda baseline, optimized: baseline == 1 < optimized,
    ),
    note="OneCycleLR raises the rate over the first 30 % of the steps (pct_start=0.3), not over the first half",
    no_micro="a schedule changes a number, and what that brings shows in a whole training alone",
)

BATCH, TARGET, LONGEST = 32, 0.97, 12

RATE = Tuned(geometric(0.01), 0.0256)
"""The constant rate."""

STEP_RATE, STEP_EPOCHS = Tuned((0.01, 0.02, 0.04, 0.08, 0.16), 0.08), Tuned((1, 2, 3), 2)
"""Of StepLR: the first rate, and after how many epochs it falls. After four it would be the constant rate: by then all
trainings have reached the target."""

CYCLE_RATE, CYCLE_EPOCHS = Tuned((0.0125, 0.025, 0.05, 0.1, 0.2, 0.4), 0.2), Tuned((2, 3, 4, 6, 8, 12), 4)
"""Of the cycle: the highest rate, and its length."""

SCORED = int(CYCLE_EPOCHS.chosen)
"""Epochs after which the scores of constant rates and of StepLR are taken: those of the cycle."""


def constant(rate: float) -> Recipe:
    return Recipe(BATCH, rate, TARGET, SCORED, LONGEST)


def step_lr(rate: float, epochs: int) -> Recipe:
    """A tenth of the rate after so many epochs, and again after as many more."""
    return Recipe(BATCH, rate, TARGET, SCORED, LONGEST, lambda optimizer, batches: StepLR(optimizer, epochs * batches))


def one_cycle(rate: float, epochs: int) -> Recipe:
    """The tip: up to `rate` and down again, within so many epochs."""

    def schedule(optimizer: Optimizer, batches: int) -> LRScheduler:
        return OneCycleLR(optimizer, max_lr=rate, epochs=epochs, steps_per_epoch=batches)

    return Recipe(BATCH, rate, TARGET, epochs, schedule=schedule)


class DigitsTraining(Pair):
    """A small convolutional network learns handwritten digits, until 97 % of the held-out ones are right.

    Timed: `images` images in batches of 32, an optimizer step each.
    """

    task = "training"
    scale = "macro"
    equal = Equal.TARGET
    trainings = 16
    sizes = Sizes(dict(images=1024))

    def baseline(self) -> Training:
        return constant(RATE.chosen).on(self.device, self.size["images"])

    @variant
    def step_lr(self) -> Training:
        return step_lr(STEP_RATE.chosen, int(STEP_EPOCHS.chosen)).on(self.device, self.size["images"])

    def optimized(self) -> Training:
        return one_cycle(CYCLE_RATE.chosen, int(CYCLE_EPOCHS.chosen)).on(self.device, self.size["images"])


if __name__ == "__main__":
    tune(constant, [(rate,) for rate in RATE.tried], proofs=8)
    tune(step_lr, product(STEP_RATE.tried, STEP_EPOCHS.tried), proofs=8)
    tune(one_cycle, product(CYCLE_RATE.tried, CYCLE_EPOCHS.tried), proofs=8)
