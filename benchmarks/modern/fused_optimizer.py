"""Let the optimizer update all parameters in one operation.

An optimizer that loops over the parameters dispatches small operations for each of them (AdamW ten), each of
which walks through the parameter, its gradient or its state. `foreach=True` hands whole lists of tensors to
each operation; `fused=True` does the whole update in one.

Why people write the baseline: it is the default. On a GPU the default is `foreach` since torch 2.0; on a
CPU it is still the loop, so `foreach` is a variant for CPUs.

What to expect: the optimizer's part of a step becomes shorter. How much of the step that is depends on
the model: much where parameters are many and batches small, little where the forward pass rules.
"""

import inspect
from typing import Any

import torch

from benchmarks.jobs.image_classification import TrainResNet
from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="fused-optimizer",
    title="Use the optimizer's fused implementation",
    do=(
        "# as fused=True where you construct the optimizer; load_state_dict() sets it back\n"
        "for group in optimizer.param_groups: group.update(fused=True, foreach=False)"
    ),
    ways={"foreach": "for group in optimizer.param_groups: group.update(foreach=True, fused=False)"},
    when="gradients are dense, and the optimizer is SGD, Adam, AdamW or Adagrad",
    guide=("M3",),
    claim=Claim.FASTER,
    called="fused",
    one_of="optimizer",
    mechanism=falls("operations dispatched", operations),
    why_not="The optimizer's share of a step is small where parameters are few and large.",
)


def in_every_group(job: Job, **implementation: bool) -> None:
    """The tip, on any training job: also where a scheduler holds the optimizer."""
    assert job.optimizer is not None
    for group in job.optimizer.param_groups:
        group.update({"fused": False, "foreach": False, **implementation})


def fused_optimizer(job: Job) -> None:
    in_every_group(job, fused=True)


@requires(cpu())
def foreach(job: Job) -> None:
    in_every_group(job, foreach=True)


class GPTTraining(TrainGPT, apply=fused_optimizer, foreach=foreach):
    """Training a small GPT with AdamW."""


class ResNetTraining(TrainResNet, apply=fused_optimizer):
    """Training ResNet-18 with SGD and momentum, whose update is cheaper than AdamW's."""


def has_fused(job: Job) -> str:
    kind = type(job.optimizer)
    if job.optimizer is None:
        return "the job has no optimizer"
    if not kind.__module__.startswith("torch.optim") or "fused" not in inspect.signature(kind).parameters:
        return f"{kind.__name__} has no fused implementation"
    return "its optimizer is fused already" if job.optimizer.defaults.get("fused") else ""


def in_few_groups(job: Job) -> None:
    """The tip, with parameters of equal settings in one group: each group is updated by itself."""
    assert job.optimizer is not None
    job.optimizer.param_groups[:] = groups_of_settings(job.optimizer)
    in_every_group(job, fused=True)


def groups_of_settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The groups of an optimizer, those with equal settings in one."""
    groups: dict[str, dict[str, Any]] = {}
    for group in optimizer.param_groups:
        settings = {name: value for name, value in group.items() if name != "params"}
        same = groups.setdefault(repr(sorted(settings.items())), {"params": [], **settings})
        same["params"] += group["params"]
    return list(groups.values())


def has_many_groups(job: Job) -> str:
    if missing := has_fused(job):
        return missing
    assert job.optimizer is not None
    few, many = len(groups_of_settings(job.optimizer)), len(job.optimizer.param_groups)
    return "" if many >= 2 * few else "its optimizer has no two groups of parameters with equal settings"


ON_ANY_JOB = (
    Way(fused_optimizer, has_fused, phase="optimizer"),
    Way(foreach, has_fused, name="foreach", do=TIP.ways["foreach"], devices=("cpu",), phase="optimizer"),
    Way(
        in_few_groups,
        has_many_groups,
        name="few-groups",
        do="# parameters of equal settings in one group, such as all that decay and all that do not\n" + TIP.do,
        phase="optimizer",
    ),
)
