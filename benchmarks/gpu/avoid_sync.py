"""Do not make the processor wait for the GPU.

PyTorch hands work to the GPU and goes on before it is done. Whatever needs a result on the processor makes it wait:
`loss.item()`, `.cpu()`, `print(loss)`, `x[x > 0]` (how many are there?), `x.nonzero()`, `if loss > 1`. Meanwhile
nothing new is handed over, and the GPU runs out of work.

Why people write the baseline: `total += loss.item()` is how every tutorial keeps the running loss.

What to expect: much where kernels are short, so that the GPU needs a long queue to stay busy; little where one step
keeps it busy for long, as the next is handed over quickly enough. The sum is kept on the GPU, and read once. A round
trip, `.cpu()` and back, waits twice: for the result, and for the copy from memory that is not pinned. `print(loss)` and
`if loss > 1` wait as `.item()` does: they call it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="avoid-sync",
    title="Do not make the processor wait for the GPU",
    do=(
        "total = torch.zeros((), device=device)\n"
        "total += loss.detach()  # after each batch; total.item() once, after the last"
    ),
    against="total += loss.item()",
    guide=("A3.4", "B10"),
    claim=Claim.FASTER,
    mechanism=falls("waits of the processor for the GPU", synchronisations),
    why_not="Where one step keeps the GPU busy for long, the next is handed over in time in spite of the wait.",
)


class _Waiting(Pair):
    devices = ("cuda",)
    needs = (gpu(1),)


class Mask(_Waiting):
    """The sum of the positive numbers, many times: chosen by an index, or by a factor of 0."""

    sizes = Sizes(dict(operations=50, elements=10_000), test=dict(operations=3, elements=10))

    def sums(self, positive: Callable[[torch.Tensor], torch.Tensor]) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)

        def step() -> torch.Tensor:
            total = torch.zeros((), device=self.device)
            for _ in range(self.size["operations"]):
                total += positive(x).sum()
            return total

        return step

    def baseline(self) -> Step:
        return self.sums(lambda x: x[x > 0])

    def optimized(self) -> Step:
        return self.sums(lambda x: torch.where(x > 0, x, 0.0))


class RoundTrip(_Waiting):
    """Batches made free of their running mean, which is kept on the host or where the batches are."""

    sizes = Sizes(dict(operations=50, rows=100, columns=100), test=dict(operations=3, rows=4, columns=5))

    def batches(self) -> torch.Tensor:
        """(operations, rows, columns)"""
        shape = self.size["operations"], self.size["rows"], self.size["columns"]
        return torch.randn(shape, device=self.device)

    def baseline(self) -> Step:
        batches = self.batches()

        def step() -> torch.Tensor:
            mean = torch.zeros(self.size["columns"])
            total = torch.zeros((), device=self.device)
            for batch in batches:
                mean = 0.9 * mean + 0.1 * batch.mean(dim=0).cpu()
                total += (batch - mean.to(self.device)).square().mean()
            return total

        return step

    def optimized(self) -> Step:
        batches = self.batches()

        def step() -> torch.Tensor:
            mean = torch.zeros(self.size["columns"], device=self.device)
            total = torch.zeros((), device=self.device)
            for batch in batches:
                mean = 0.9 * mean + 0.1 * batch.mean(dim=0)
                total += (batch - mean).square().mean()
            return total

        return step


class GPTTraining(_Waiting, TrainGPT):
    """Several steps of training a small GPT, and the sum of their losses."""

    sizes = Sizes(
        dict(layers=6, width=256, context=256, batch=4, steps=8),
        L=dict(layers=12, width=768, context=512, batch=8),
        test=dict(layers=1, width=16, context=8, batch=2, steps=2),
    )
    # A step is eight of the training. After 40 of these on an H200 rounding had come to 0.0055 of the largest gradient.
    tolerance = 5e-3

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.steps = self.size.pop("steps")  # the others are the job's

    def job(self) -> Job:
        job = super().job()
        # On both sides: copies from memory that is not pinned make the processor wait too.
        job.loading["pin_memory"] = job.non_blocking = self.device.type == "cuda"
        return job

    def baseline(self) -> Step:
        job = self.job()

        def step() -> tuple[torch.Tensor, nn.Module]:
            total = 0.0
            for _ in range(self.steps):
                loss, _ = job.step()
                total += loss.item()
            return torch.tensor(total), job.model

        return step

    def step_of(self, job: Job) -> Step:
        def step() -> tuple[torch.Tensor, nn.Module]:
            total = torch.zeros((), device=self.device)
            for _ in range(self.steps):
                loss, _ = job.step()
                total += loss
            return torch.tensor(total.item()), job.model

        return step

    def optimized(self) -> Step:
        return self.step_of(self.job())
