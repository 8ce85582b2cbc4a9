"""Use large batches.

Every operation has a price of its own, whatever it works on: the call from Python, the launch of a kernel. A large
batch pays it for more samples at once, and gives the cores of a CPU or GPU enough to share. So a large batch takes
less time a sample, up to where the hardware is busy.

Why people write the baseline: 16 and 32 are what tutorials use, and small batches fit into any memory.

What to expect: more samples a second are not fewer seconds to the target. The gradient of a large batch is less
noisy, but it is still one step: past some size twice the batch is far from halving the steps that are needed
(McCandlish et al. 2018, arXiv:1812.06162). And every size needs a learning rate of its own. `NextByte` times the same
samples in batches of each size; the time to the target is that times the steps in batch_size.toml. After as many
samples the small batch is ahead, because it has taken more steps; after as many steps the large one is
(`EqualUpdates`): neither is better as such.

How the rates below were chosen: `python -m benchmarks.training.batch_size --tune` tries several for each size, with
seeds that are never counted. The rate has the best score after SAMPLES samples.
"""

from benchmarks.jobs.lessons import NEXT_BYTE, RATE, Course, Learning, tune
from benchmarks.jobs.tuning import Tuned, geometric
from tipbench.tip.counting import count
from tipbench.tip.words import *

TIP = Tip(
    id="batch-size",
    title="Use large batches",
    do=(
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        "loader = DataLoader(data, **arguments | dict(batch_size={batch}))\n"
        "# then tune the learning rate anew, where you construct the optimizer"
    ),
    when="you train in batches as small as 16, and tune the learning rate anew",
    against="batches of 16, tuned likewise",
    guide=("B2", "D5"),
    claim=Claim.SOONER_AT_TARGET,
    evidence="batch_size.toml",
    mechanism=falls("forward passes for the same samples", forward_passes),
    note="more samples a second are not fewer seconds to the target, and every batch size needs its own learning rate",
)

SMALL, LARGER = 16, (64, 256)


SAMPLES = 40_000
"""After which a training is scored, whatever its batches. One that has not reached the target goes on for as many."""

RATES = {
    16: RATE,
    64: Tuned(geometric(0.0036, 1.8, 5), 0.0117),
    256: Tuned(geometric(0.0036, 1.8, 5), 0.0117),
}
"""The learning rate that suits each batch size."""


def course(batch: int, rate: float) -> Course:
    return Course(NEXT_BYTE, rate, batch=batch, steps=SAMPLES // batch, longest=2 * SAMPLES // batch)


class NextByte(Learning):
    """A small GPT learns to predict the next byte of Python source text, in batches of each size.

    Timed: `samples` samples in batches, an optimizer step each.
    """

    sizes = Sizes(dict(samples=LARGER[-1]))

    def learning(self, batch: int) -> Training:
        return course(batch, RATES[batch].chosen).on(self.device, self.size["samples"])

    def baseline(self) -> Training:
        return self.learning(SMALL)

    @sweep(batch=LARGER)
    def optimized(self, batch: int = LARGER[0]) -> Training:
        return self.learning(batch)


class EqualUpdates(Pair):
    """The same, but scored after as many optimizer steps on both sides: batches of 64 have seen four times the samples.

    Accumulating the gradients of four batches of 16 comes to the same.
    """

    equal = Equal.TARGET
    sizes = Sizes(dict(samples=LARGER[0]))

    def learning(self, batch: int) -> Training:
        return Course(NEXT_BYTE, RATES[batch].chosen, batch=batch).on(self.device, self.size["samples"])

    def baseline(self) -> Training:
        return self.learning(SMALL)

    def optimized(self) -> Training:
        return self.learning(LARGER[0])


if __name__ == "__main__":
    trials = [(f"batches of {batch}", course(batch, 0.0), rates, None) for batch, rates in RATES.items()]
    count(NextByte, EqualUpdates, tune=lambda: tune(trials))
