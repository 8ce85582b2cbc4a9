"""Update each parameter as soon as its gradient is there, and let the gradient go.

A training step holds all gradients at once, which together are as large as the parameters, although each is needed
only until its parameter is updated. Where the optimizer's step for a parameter runs in the hook that autograd calls
once its gradient is complete, the next gradient finds the memory of the last one free.

Why people write the baseline: `loss.backward()` and `optimizer.step()` are two lines of every loop.

What to expect: less memory, by nearly the size of the parameters, where they outweigh the activations; no change of
results. There is no place left for what looks at all gradients at once, such as clipping their norm, accumulating
gradients, a GradScaler, or the averaging of DistributedDataParallel, which comes after the hook. Parameters are updated
one at a time, which costs time where they are small.

After PyTorch's tutorial "How to save memory by fusing the optimizer step into the backward pass". There each parameter
has an optimizer of its own, which no scheduler reaches, and which is neither saved nor loaded.
"""

from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *


def gradients_at_once(step: Step) -> int:
    """The most gradients that are there when a step of the optimizer begins."""
    parameters: set[torch.Tensor] = set()
    found = [0]

    def look(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters.update(optimizer.state, *(group["params"] for group in optimizer.param_groups))
        found.append(sum(parameter.grad is not None for parameter in parameters))

    with register_optimizer_step_pre_hook(look):
        step()
    return max(found)


TIP = Tip(
    id="optimizer-in-backward",
    title="Update parameters in the backward pass",
    do=(
        'group_of = {p: n for n, group in enumerate(optimizer.param_groups) for p in group["params"] '
        "if p.requires_grad}\n"
        "def update(parameter):  # by the optimizer's own step, with its group's settings as they are then\n"
        "    groups = optimizer.param_groups\n"
        '    optimizer.param_groups = [{**groups[group_of[parameter]], "params": [parameter]}]\n'
        "    optimizer.step()\n"
        "    optimizer.param_groups, parameter.grad = groups, None\n"
        "for parameter in group_of: parameter.register_post_accumulate_grad_hook(update)\n"
        "# the loop's own step() finds no gradients then; schedulers, state_dict() and load_state_dict() work as before"
    ),
    when="memory is short, one process, one backward() a step, no GAN, clipping, accumulation, GradScaler, step hook",
    guide=("M13",),
    claim=Claim.LEANER,
    mechanism=falls("gradients at once", gradients_at_once),
    why_not="Gradients are as large as the parameters: little, where activations need most of the memory.",
)


def optimizer_in_backward(job: Job) -> None:
    """The tip, on any job that trains. The optimizer stays the one that holds settings and state, so schedulers act on
    it, and it is saved and loaded as before; its step in the loop finds nothing left to do."""
    optimizer = job.optimizer
    assert optimizer is not None
    number = {p: n for n, group in enumerate(optimizer.param_groups) for p in group["params"] if p.requires_grad}

    def update(parameter: torch.Tensor) -> None:
        groups = optimizer.param_groups
        # One parameter's step: the step of them all would look at each of them, for each of them.
        optimizer.param_groups = [{**groups[number[parameter]], "params": [parameter]}]
        optimizer.step()
        optimizer.param_groups, parameter.grad = groups, None

    for parameter in number:
        parameter.register_post_accumulate_grad_hook(update)


class GPTTraining(TrainGPT, apply=optimizer_in_backward):
    """Training a GPT on so few tokens at once that its parameters outweigh the activations."""

    sizes = Sizes(
        dict(layers=4, width=512, context=64, batch=1),
        M=dict(layers=8, width=768),
        L=dict(layers=12, width=1024, batch=4),
        test=dict(layers=1, width=16, context=16),
    )

    def step_of(self, job: Job) -> Step:
        """A step after which no side holds gradients, so that parameters are what is compared."""
        assert job.optimizer is not None
        let_go = job.optimizer.zero_grad

        def step() -> tuple[torch.Tensor, nn.Module]:
            result: tuple[torch.Tensor, nn.Module] = job.step()
            let_go()
            return result

        return step
