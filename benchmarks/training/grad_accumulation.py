"""Accumulate gradients: a large batch in pieces.

Backward passes add to `.grad`. So a batch of 16 can go through the model as four batches of 4, each
loss divided by four, before the optimizer takes its one step: the gradient is the same, but only the
activations of 4 are in memory at a time.

Why people write the baseline: one batch, one forward and one backward pass is the training loop of every
tutorial, and the fastest as long as it fits.

What to expect: a lower peak of memory, and equal or more time a step, as smaller operations use the
hardware less well. What is bought with the memory is a batch that would not fit at all. With batch
normalisation the results differ: it sees the pieces, not the batch.
"""

import torch
from torch import nn

from benchmarks.jobs.language_model import TWICE_THE_BATCH, TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="grad-accumulation",
    title="Accumulate gradients of small batches",
    do=(
        "# between zero_grad() and step(); samples in the first dimension; each part has a target; metrics by part\n"
        "# -100: your criterion's ignore_index; one without any (MSE, BCE): * wanted.numel() / targets.numel()\n"
        "# with a GradScaler: scaler.scale(share).backward()\n"
        "loss = 0\n"
        "for part, wanted in zip(batch.chunk(4), targets.chunk(4)):\n"
        "    share = criterion(model(part), wanted) * (wanted != -100).sum() / (targets != -100).sum()\n"
        "    share.backward()\n"
        "    loss += share.detach()"
    ),
    when="memory is short, there is no batch norm, and the loss is an unweighted mean over targets, each by itself",
    guide=("B7",),
    claim=Claim.LEANER,
    mechanism=rises("forward passes to an optimizer step", forward_passes),
    note="the claim is memory; the time of a step stays or rises; batch norm takes its statistics of the parts",
)

PIECES = 4
"""Forward and backward passes to an optimizer step."""


def grad_accumulation(job: Job, pieces: int = PIECES) -> None:
    """The tip, on any training job whose model treats the examples of a batch one by one."""
    optimizer = job.optimizer
    assert optimizer is not None

    def run(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, nn.Module]:
        optimizer.zero_grad()
        total = torch.zeros((), device=job.device)
        for some_inputs, some_targets in zip(inputs.chunk(pieces), targets.chunk(pieces), strict=True):
            outputs = job.model(job.convert(some_inputs.to(job.device)))
            # Divided, so that the sum of the gradients is the mean that the whole batch would have had.
            loss = job.loss(outputs, some_targets.to(job.device)) / pieces
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total, job.model

    job.run = run  # type: ignore[method-assign]


class GPTTraining(TrainGPT, apply=grad_accumulation):
    """Training a small GPT on batches of windows: at once, or in four pieces."""

    sizes = TWICE_THE_BATCH.but(test=dict(context=8, batch=4))
