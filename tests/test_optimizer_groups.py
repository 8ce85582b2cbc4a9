"""The fused optimizer on a job whose optimizer has a group for each parameter."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.modern.fused_optimizer import has_many_groups, in_every_group, in_few_groups
from tipbench.tip.job import Job


def job_with(settings: list[dict[str, float]]) -> Job:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    each = zip(model.parameters(), settings, strict=True)
    groups = [{"params": [parameter], **own} for parameter, own in each]
    data = [(torch.randn(4), torch.randn(1)) for _ in range(8)]
    return Job(model, data, loss=nn.functional.mse_loss, optimizer=torch.optim.AdamW(groups), batch_size=8)  # type: ignore[arg-type]


DECAYING, NOT = {"weight_decay": 0.5, "lr": 0.1}, {"weight_decay": 0.0, "lr": 0.01}


def test_parameters_of_equal_settings_share_a_group_and_are_updated_as_before() -> None:
    jobs = [job_with([DECAYING, NOT] * 3) for _ in range(2)]
    in_every_group(jobs[0], fused=True)
    in_few_groups(jobs[1])
    assert jobs[1].optimizer is not None
    groups = jobs[1].optimizer.param_groups
    assert [(group["weight_decay"], group["lr"], len(group["params"])) for group in groups] == [
        (0.5, 0.1, 3),
        (0.0, 0.01, 3),
    ]
    for job in jobs:
        for _ in range(3):
            job.step()
    for one, other in zip(jobs[0].model.parameters(), jobs[1].model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_it_is_tried_where_there_are_twice_as_many_groups_as_settings() -> None:
    assert has_many_groups(job_with([DECAYING, NOT] * 3)) == has_many_groups(job_with([DECAYING] * 6)) == ""
    why_not = "its optimizer has no two groups of parameters with equal settings"
    assert has_many_groups(job_with([{"lr": number / 10} for number in range(1, 7)])) == why_not
