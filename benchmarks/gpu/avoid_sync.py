"""Do not make the processor wait for the GPU.

PyTorch hands work to the GPU and goes on before it is done. Whatever needs a result on the processor makes it wait:
`loss.item()`, `.cpu()`, `print(loss)`, `x[x > 0]` (how many are there?), `x.nonzero()`, `if loss > 1`. Meanwhile
nothing new is handed over, and the GPU runs out of work.

Why people write the baseline: `total += loss.item()` is how every tutorial keeps the running loss.

What to expect: much where kernels are short, so that the GPU needs a long queue to stay busy; little where one step
keeps it busy for long, as the next is handed over quickly enough. The sum is kept on the GPU, and read once. `print`
and `.cpu()` do what `.item()` does: they have no variants of their own.

Never run on a GPU so far.
"""

import torch
from torch import nn

from benchmarks.jobs.language_model import TrainGPT, language_model
from tipbench.tip.words import Claim, Job, Pair, Sizes, Step, Tip, falls, gpu, synchronisations

TIP = Tip(
    id="avoid-sync",
    title="Do not make the processor wait for the GPU",
    do="total += loss.detach(), read once at the end",
    guide=("A3.4", "B10"),
    claim=Claim.FASTER,
    mechanism=falls("waits of the processor for the GPU", synchronisations),
    why_not="Where one step keeps the GPU busy for long, the next is handed over in time in spite of the wait.",
)


class _Waiting(Pair):
    devices = ("cuda",)
    needs = (gpu(1),)


class RunningSum(_Waiting):
    """A sum over the results of many small operations."""

    sizes = Sizes(dict(operations=50, elements=10_000), test=dict(operations=3, elements=10))

    def baseline(self) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)

        def step() -> torch.Tensor:
            total = 0.0
            for number in range(self.size["operations"]):
                total += (x * number).square().mean().item()
            return torch.tensor(total, device=self.device)

        return step

    def optimized(self) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)

        def step() -> torch.Tensor:
            total = torch.zeros((), device=self.device)
            for number in range(self.size["operations"]):
                total += (x * number).square().mean()
            return torch.tensor(total.item(), device=self.device)

        return step


class Mask(_Waiting):
    """The sum of the positive numbers, many times: chosen by an index, or by a factor of 0."""

    sizes = Sizes(dict(operations=50, elements=10_000), test=dict(operations=3, elements=10))

    def baseline(self) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)

        def step() -> torch.Tensor:
            total = torch.zeros((), device=self.device)
            for _ in range(self.size["operations"]):
                total += x[x > 0].sum()
            return total

        return step

    def optimized(self) -> Step:
        x = torch.randn(self.size["elements"], device=self.device)

        def step() -> torch.Tensor:
            total = torch.zeros((), device=self.device)
            for _ in range(self.size["operations"]):
                total += torch.where(x > 0, x, 0.0).sum()
            return total

        return step


class GPTTraining(_Waiting, TrainGPT):
    """Training a small GPT and keeping its running loss."""

    sizes = Sizes(
        dict(layers=4, width=128, context=64, batch=4, steps=8),
        test=dict(layers=1, width=16, context=8, batch=2, steps=2),
    )

    def job(self) -> Job:
        size = {name: value for name, value in self.size.items() if name != "steps"}
        job = language_model(self.device, activation=nn.GELU, **size)
        # On both sides: copies from memory that is not pinned make the processor wait too.
        job.loading["pin_memory"] = job.non_blocking = self.device.type == "cuda"
        return job

    def baseline(self) -> Step:
        job = self.job()

        def step() -> tuple[torch.Tensor, nn.Module]:
            total = 0.0
            for _ in range(self.size["steps"]):
                loss, _ = job.step()
                total += loss.item()
            return torch.tensor(total), job.model

        return step

    def optimized(self) -> Step:
        job = self.job()

        def step() -> tuple[torch.Tensor, nn.Module]:
            total = torch.zeros((), device=self.device)
            for _ in range(self.size["steps"]):
                loss, _ = job.step()
                total += loss
            return torch.tensor(total.item()), job.model

        return step
