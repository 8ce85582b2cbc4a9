"""Accumulate gradients without averaging them each time: `no_sync()`.

DistributedDataParallel averages the gradients of all processes in every backward pass, with one
all-reduce for each bucket of parameters. Whoever accumulates the gradients of N batches before an
optimizer step needs the average only once. Inside `model.no_sync()` the gradients stay local; the first
backward pass outside averages what has been summed up. The forward pass belongs inside as well: there
DDP decides whether the next backward pass will communicate.

Why people write the baseline: the accumulation loop of one process, taken over as it was, is correct;
only slower.

What to expect: N - 1 of N all-reduces saved; worth the more, the larger the model and the slower the
connection between the processes.

Both sides run in two processes under torchrun; the slower one counts. The harness has called
`init_process_group` before a method here is called.
"""

import itertools
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.jobs.language_model import ShareGPT
from tipbench.tip.words import *

TIP = Tip(
    id="no-sync",
    title="Skip needless all-reduces while accumulating gradients",
    do=(
        "from contextlib import nullcontext\n"
        "for number, (batch, targets) in enumerate(loader, 1):\n"
        "    last = number % 4 == 0 or number == len(loader)  # 4, twice: your number\n"
        "    with nullcontext() if last else model.no_sync():\n"
        "        outputs = model(batch.to(device))\n"
        "        loss = criterion(outputs, targets.to(device))\n"
        "        (loss / 4).backward()\n"
        "    if last:  # clip before step()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()  # here alone, and no longer at the top of the loop\n"
        "    # here, after each batch, the step() of a scheduler made for len(loader) steps an epoch"
    ),
    when="you accumulate gradients of several batches under DDP",
    against="averaging after every batch, in two processes",
    guide=("A4.2",),
    claim=Claim.FASTER,
    mechanism=falls("all-reduces a step", all_reduces),
)

ACCUMULATE = 4
"""Batches, and so backward passes, to an optimizer step."""


class GPTTraining(ShareGPT):
    """Training a small GPT, four batches to an optimizer step; each process has its own share of the text."""

    sizes = ShareGPT.sizes.but(
        dict(layers=4, context=128), M=dict(context=256, batch=2), L=dict(batch=4), test=dict(layers=1)
    )

    def training(self) -> tuple[DistributedDataParallel, torch.optim.Optimizer, Iterator[list[torch.Tensor]]]:
        """The model, its optimizer, and batches of this process's share of the text without end."""
        job = self.job()
        assert job.optimizer is not None
        return DistributedDataParallel(job.model), job.optimizer, itertools.cycle(job.loader())

    def loss(self, model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
        inputs, targets = (tensor.to(self.device) for tensor in batch)
        return nn.functional.cross_entropy(model(inputs), targets) / ACCUMULATE

    def baseline(self) -> Step:
        model, optimizer, batches = self.training()

        def step() -> tuple[torch.Tensor, nn.Module]:
            optimizer.zero_grad()
            for _ in range(ACCUMULATE):
                loss = self.loss(model, next(batches))
                loss.backward()
            optimizer.step()
            return loss.detach(), model

        return step

    def optimized(self) -> Step:
        model, optimizer, batches = self.training()

        def step() -> tuple[torch.Tensor, nn.Module]:
            optimizer.zero_grad()
            with model.no_sync():
                for _ in range(ACCUMULATE - 1):
                    self.loss(model, next(batches)).backward()
            loss = self.loss(model, next(batches))
            loss.backward()
            optimizer.step()
            return loss.detach(), model

        return step
