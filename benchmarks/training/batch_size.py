"""Use large batches.

Every operation has a price of its own, whatever it works on: the call from Python, the launch of a kernel. A large
batch pays it for more samples at once, and gives the cores of a CPU or GPU enough to share. So a large batch takes
less time a sample, up to where the hardware is busy.

Why people write the baseline: 16 and 32 are what tutorials use, and small batches fit into any memory.

What to expect: more samples a second are not fewer seconds to the target. The gradient of a large batch is less
noisy, but it is still one step: past some size twice the batch is far from halving the steps that are needed. And
every size needs a learning rate of its own. `Gradients` is the price of a sample alone. `DigitsTraining` times the
same images in batches of each size, and counts how many images each needs until the target: the time to the target
is the product.

The guides advise the largest batch that fits. Here that would be 1,024 of 1,347 images, one step an epoch, which nobody
means who has more data than memory: so the tip is judged by 64, four times the tutorials' 16 and 21 steps an epoch, and
256 and 1,024 show where it ends. Scores are taken after four epochs on all sides: having seen as many images, the
largest batch has taken 4 steps and has learned least (0.84 of the held-out images right, 0.96 at 256, 0.97 at 64, 0.98
at 16).

How the rates below were chosen: `python -m benchmarks.training.batch_size` tries several for each size, with
seeds that no run uses. The fewest steps are taken, with 20 further seeds of which nine of ten get there.
"""

import torch
from torch import nn

from benchmarks.jobs.digits import Recipe, network, tune
from benchmarks.jobs.tuning import Tuned, geometric
from tipbench.tip.words import Claim, Equal, Pair, Sizes, Step, Tip, Training, falls, forward_passes, sweep

TIP = Tip(
    id="batch-size",
    title="Use large batches",
    do=(
        "loader = DataLoader(data, batch_size={batch}, shuffle=True, drop_last=True)\n"
        'for group in optimizer.param_groups: group["lr"] = rate  # tuned anew for this batch size'
    ),
    when="you train in batches as small as 16",
    against="batches of 16, with a rate tuned likewise",
    guide=("B2",),
    claim=Claim.SOONER_AT_TARGET,
    mechanism=falls("forward passes for the same images", forward_passes),
    note="more samples a second are not fewer seconds to the target, and every batch size needs its own learning rate",
)

SMALL, LARGER = 16, (64, 256, 1024)


class Gradients(Pair):
    """The mean gradient over 1,024 images, computed in batches and added up."""

    # Rounding puts a few ReLUs on the other side of zero.
    equal = Equal.REFERENCE
    tolerance = 1e-2
    sizes = Sizes(dict(images=1024, width=16), test=dict(width=2))

    def gradients(self, batch: int, dtype: torch.dtype = torch.float32) -> Step:
        count = self.size["images"]
        images = torch.rand(count, 1, 8, 8, device=self.device).to(dtype)
        labels = torch.randint(10, (count,), device=self.device)
        # In evaluation mode: the statistics of a batch would be others for each size.
        model = network(self.size["width"]).to(self.device, dtype).eval()

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
    def optimized(self, batch: int = LARGER[0]) -> Step:
        return self.gradients(batch)

    def reference(self) -> Step:
        return self.gradients(LARGER[-1], torch.float64)


RATES = {
    16: Tuned(geometric(0.003), 0.0123),
    64: Tuned(geometric(0.01), 0.0655),
    256: Tuned(geometric(0.03), 0.123),
    1024: Tuned(geometric(0.05), 0.205),
}
"""The learning rate that suits each batch size: 170, 69, 30 and 25 steps to the target, with 20 seeds, none failed."""


def recipe(batch: int, rate: float) -> Recipe:
    """Until 97 % of the held-out images are right. The score is taken after 4 epochs, alike for all sizes."""
    return Recipe(batch, rate, target=0.97, epochs=4, longest=60)


class DigitsTraining(Pair):
    """A small convolutional network learns handwritten digits, until 97 % of the held-out ones are right.

    Timed: 1,024 images in batches, an optimizer step each.
    """

    task = "training"
    scale = "macro"
    equal = Equal.TARGET
    trainings = 16
    sizes = Sizes(dict(images=1024))

    def baseline(self) -> Training:
        return recipe(SMALL, RATES[SMALL].chosen).on(self.device, self.size["images"])

    @sweep(batch=LARGER)
    def optimized(self, batch: int = LARGER[0]) -> Training:
        return recipe(batch, RATES[batch].chosen).on(self.device, self.size["images"])


if __name__ == "__main__":
    for size, rates in RATES.items():
        tune(recipe, [(size, rate) for rate in rates.tried])
