"""Raise the learning rate and lower it again, once over the whole training.

`OneCycleLR` starts at a small learning rate, raises it to `max_lr`, and lowers it to next to nothing by the last
step; momentum goes the other way. The high rates in the middle cover ground, the low ones at the end settle. It
is stepped after every batch, not after every epoch, and must be given the length of the training beforehand.

Why people write the baseline: a constant learning rate needs no plan, least of all of how long training will
take. Who plans takes a cosine with warm-up today: `cosine`.

What to expect: against a rate picked carelessly any schedule wins. Against a constant rate that is tuned with the same
care, the cycle ended lower here and took fewer steps to the target, on text and on photos (one_cycle.toml); one that
leaves momentum as it is did too. What has come down by the end is what counts: for most of the way a high rate is
worse. A cycle that is too short must be started anew. On photos the cosine took the fewest steps, with a higher rate,
and paid for it: the scores of three of twelve trainings had come to nothing.

How the rates and lengths below were chosen: `python -m benchmarks.training.one_cycle --tune` tries eleven settings of
each side, with seeds that are never counted: eleven constant rates, or six rates of a schedule and then five lengths at
the best of them, or seven where the longest was the best. The rate has the best score, the length the fewest steps.
"""

from collections.abc import Mapping
from typing import ClassVar

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, OneCycleLR, SequentialLR
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.jobs.lessons import CLEAN_PHOTOS, NEXT_BYTE, RATE, STEPS, Course, Learning, Schedule, constant, tune
from benchmarks.jobs.tuning import Tuned, geometric
from tipbench.tip.counting import count
from tipbench.tip.words import *

LOOKED_AT = 20
"""Optimizer steps: every schedule here changes the rate within these."""


def learning_rates(step: Step) -> int:
    """How many different ones the optimizer's next LOOKED_AT steps are taken with."""
    rates: list[float] = []
    with register_optimizer_step_post_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])):
        while len(rates) < LOOKED_AT:
            step()
    return len(set(rates))


AFTER_A_BATCH = (
    "optimizer.step()\n"
    "scheduler.step()  # after each batch, also where gradients accumulate; in place of any other scheduler"
)

TIP = Tip(
    id="one-cycle",
    title="Use a one-cycle learning rate",
    do=(
        "from torch.optim.lr_scheduler import OneCycleLR\n"
        'highest = [3 * group["lr"] for group in optimizer.param_groups]  # 3x your constant rate\n'
        "# on a fresh optimizer; to resume, build both first, for as many epochs, then load both\n"
        "# momentum (AdamW's first beta) becomes 0.85 to 0.95: yours is another, as 0.5 in GANs? Take fixed_momentum\n"
        'moves = all("betas" in group or group.get("momentum") for group in optimizer.param_groups)\n'
        "scheduler = OneCycleLR(optimizer, highest, epochs=epochs, steps_per_epoch=len(loader), "
        f"cycle_momentum=moves)\n{AFTER_A_BATCH}"
    ),
    ways={
        "cosine": (
            "from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR\n"
            "steps = epochs * len(loader)  # first raise the optimizer's lr to 2x to 9x your constant rate\n"
            "warm_up = max(1, steps // 20)  # to resume, build optimizer and scheduler first, then load both\n"
            "rising, falling = LinearLR(optimizer, 0.01, total_iters=warm_up), CosineAnnealingLR(optimizer, "
            "steps - warm_up)\n"
            f"scheduler = SequentialLR(optimizer, [rising, falling], [warm_up])\n{AFTER_A_BATCH}"
        ),
        "fixed_momentum": (
            "from torch.optim.lr_scheduler import OneCycleLR\n"
            'highest = [3 * group["lr"] for group in optimizer.param_groups]  # 3x your rate: try up to 9\n'
            "# on a fresh optimizer; to resume, build both first, for as many epochs, then load both\n"
            "scheduler = OneCycleLR(optimizer, highest, epochs=epochs, steps_per_epoch=len(loader), "
            f"cycle_momentum=False)\n{AFTER_A_BATCH}"
        ),
    },
    when="the rate is constant so far, and the number of epochs fixed (no early stopping)",
    against="a constant rate, tuned likewise",
    guide=("B1",),
    claim=Claim.FEWER_STEPS,
    evidence="one_cycle.toml",
    called="one cycle",
    mechanism=Mechanism(
        f"learning rates used in {LOOKED_AT} steps",
        learning_rates,
        lambda baseline, optimized: baseline == 1 < optimized,
    ),
    note=(
        "OneCycleLR raises the rate over the first 30 % of the steps (pct_start=0.3), not over the first half. "
        "It did no worse with momentum as it was (fixed_momentum), and a cosine did nearly as well"
    ),
)


def one_cycle(optimizer: Optimizer, steps: int) -> LRScheduler:
    """The tip: up to the optimizer's rate and down again, momentum down and up."""
    return OneCycleLR(optimizer, max_lr=optimizer.param_groups[0]["lr"], total_steps=steps)


def fixed_momentum(optimizer: Optimizer, steps: int) -> LRScheduler:
    """The same for the rate alone."""
    return OneCycleLR(optimizer, max_lr=optimizer.param_groups[0]["lr"], total_steps=steps, cycle_momentum=False)


def cosine(optimizer: Optimizer, steps: int) -> LRScheduler:
    """Straight up within a twentieth of the steps, and down along half a cosine."""
    warm_up = steps // 20
    parts = [LinearLR(optimizer, 0.01, total_iters=warm_up), CosineAnnealingLR(optimizer, steps - warm_up)]
    return SequentialLR(optimizer, parts, [warm_up])


COARSELY = (1.8, 6)
"""How near to each other rates of schedules are tried, and how many."""

RATES = geometric(0.002, *COARSELY)
"""Of schedules, for the text."""

LENGTHS = (550, 700, 850, 1000, 1200, STEPS)
"""Steps of schedules, for the text."""


class NextByte(Learning):
    """A small GPT learns to predict the next byte of Python source text.

    Timed: an optimizer step. Counted: steps until the target, with the length of a schedule that gets there soonest.
    Scored: a training of STEPS steps, on all sides alike.
    """

    lesson = NEXT_BYTE
    rates: ClassVar[Mapping[Schedule, Tuned]] = {
        constant: RATE,
        cosine: Tuned(RATES, 0.0117),
        fixed_momentum: Tuned(RATES, 0.021),
        one_cycle: Tuned(RATES, 0.021),
    }
    lengths: ClassVar[Mapping[Schedule, Tuned]] = dict.fromkeys(
        (cosine, fixed_momentum, one_cycle), Tuned(LENGTHS, 1200)
    )

    def learning(self, schedule: Schedule) -> Training:
        short = int(self.lengths[schedule].chosen) if schedule in self.lengths else 0
        course = Course(self.lesson, self.rates[schedule].chosen, schedule, self.size["batch"], short=short)
        return course.on(self.device)

    def baseline(self) -> Training:
        return self.learning(constant)

    @variant
    def cosine(self) -> Training:
        return self.learning(cosine)

    @variant
    def fixed_momentum(self) -> Training:
        return self.learning(fixed_momentum)

    def optimized(self) -> Training:
        return self.learning(one_cycle)


PHOTO_RATES = geometric(0.0117, *COARSELY)
PHOTO_LENGTHS = (250, 400, 700, 1000, STEPS, 2000)


class CleanPhotos(NextByte):
    """Five convolutions learn to take noise off photos; timed, counted and scored as above."""

    lesson = CLEAN_PHOTOS
    rates: ClassVar[Mapping[Schedule, Tuned]] = {
        # 0.00322 scores alike, 0.001717 and 0.001721, and takes 1,144 steps to the target instead of 912.
        constant: Tuned(geometric(0.001, 1.34, 11), 0.00776),
        cosine: Tuned(PHOTO_RATES, 0.0682),
        fixed_momentum: Tuned(PHOTO_RATES, 0.0682),
        one_cycle: Tuned(PHOTO_RATES, 0.0211),
    }
    lengths: ClassVar[Mapping[Schedule, Tuned]] = {
        cosine: Tuned((*PHOTO_LENGTHS, 2700, 5000), 2700),
        fixed_momentum: Tuned(PHOTO_LENGTHS, 1000),
        one_cycle: Tuned(PHOTO_LENGTHS, 1000),
    }


if __name__ == "__main__":
    trials = [
        (f"{pair.__name__}, {schedule.__name__}", Course(pair.lesson, 0.0, schedule), rates, pair.lengths.get(schedule))
        for pair in (NextByte, CleanPhotos)
        for schedule, rates in pair.rates.items()
    ]
    count(NextByte, CleanPhotos, tune=lambda: tune(trials))
