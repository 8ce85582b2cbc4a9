"""Compile the optimizer's step.

An optimizer written in Python dispatches a dozen small operations for each parameter. `torch.compile` makes
one graph of the whole step, and fuses the operations of each parameter into one loop over it.

The learning rate must then be a tensor. A number is compiled in as a constant, and a scheduler that changes
it would have the step compiled anew; a tensor is an input of the graph, and may change. No scheduler runs here,
but the tip is shown as it has to be applied where one does. It is made before the step is compiled: made after it,
every scheduler raises AttributeError (torch 2.15). OneCycleLR changes momentum as well, which is a number: with it the
step is compiled at each step anew, and after eight no longer.

Why people write the baseline: `torch.compile(model)` is taken to cover training, but the optimizer is no part
of the model.

What to expect: the optimizer's part of a step several times shorter where parameters are many and small.
Compiling takes longer the more parameters there are: see after how many steps it has paid. For an optimizer
that has a `fused` implementation that one needs no compiler (the tip `fused-optimizer`); compiling works for
the others too.
"""

import torch

from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="compiled-optimizer",
    title="Compile the optimizer",
    do=(
        "# both after the scheduler is made, and after load_state_dict(), which sets lr back; not under OneCycleLR\n"
        "# log float(group['lr']), and set it by group['lr'].fill_(rate): group['lr'] = rate compiles anew each time\n"
        'for group in optimizer.param_groups: group["lr"] = torch.tensor(group["lr"])\n'
        "optimizer.step = torch.compile(optimizer.step)"
    ),
    when="training runs for minutes, and no scheduler cycles momentum, as OneCycleLR does",
    guide=("M11",),
    claim=Claim.FASTER,
    called="compiled",
    once="compiling",
    one_of="optimizer",
    mechanism=falls("operations dispatched", operations),
)


def compile_optimizer(job: Job) -> None:
    """The tip, on any training job."""
    assert job.optimizer is not None
    for group in job.optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])
    job.optimizer.step = torch.compile(job.optimizer.step)  # type: ignore[assignment, method-assign]


class GPTTraining(TrainGPT, apply=compile_optimizer):
    """Training a small GPT with AdamW."""

    needs = (compiler(),)
    sizes = Sizes(
        dict(layers=2, width=512, context=256, batch=2),
        M=dict(batch=8),
        L=dict(width=768, context=512, batch=16),
        test=dict(layers=1, width=16, context=8),
    )


MANY = 32
"""Groups of parameters, each of which is compiled by itself: with 242 the check took 158 s on two cores."""


def with_few_groups(job: Job) -> str:
    if missing := that_trains(job):
        return missing
    assert job.optimizer is not None
    count = len(job.optimizer.param_groups)
    return "" if count <= MANY else f"its optimizer has {count} groups of parameters: compiling each takes minutes"


ON_ANY_JOB = (Way(compile_optimizer, with_few_groups, needs=(compiler(),), phase="optimizer"),)
