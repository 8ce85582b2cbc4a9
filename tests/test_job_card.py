"""The card of a job: what is counted of it is exact, and its time is shared out among the phases of its steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from tests.made_up import info, measured, run
from tipbench.records.record import PHASES
from tipbench.report import render
from tipbench.tip.job import Job, MacroPair
from tipbench.worker import job_card as job_card_file
from tipbench.worker.checks import expect_little_loading
from tipbench.worker.failed import Failed
from tipbench.worker.job_card import bytes_moved, job_card, phases_of

BATCH, WIDTH, CLASSES = 4, 8, 3


def job(train: bool) -> Job:
    data = TensorDataset(torch.randn(64, WIDTH), torch.zeros(64, dtype=torch.long))
    model = nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if train else None
    return Job(model, data, torch.device("cpu"), optimizer=optimizer, batch_size=BATCH)


def test_a_training_has_all_phases_and_an_inference_neither_a_backward_pass_nor_an_optimizer() -> None:
    found = job(train=True)
    card = job_card(found, found.step)
    assert card["parameters"] == WIDTH * CLASSES + CLASSES
    # Forward and the gradient of the weight: nobody asks for that of the inputs.
    assert card["flops"] == 2 * (2 * BATCH * WIDTH * CLASSES)
    assert all(card[phase] > 0 for phase in PHASES)
    found = job(train=False)
    card = job_card(found, found.step)
    assert card["flops"] == 2 * BATCH * WIDTH * CLASSES
    assert card["loading"] > 0
    assert card["forward"] > 0
    assert card["backward"] == card["optimizer"] == 0


def test_time_to_compile_is_not_in_the_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled model is compiled anew at the first step that has hooks."""
    found, now = job(train=True), 0

    def clock() -> int:
        nonlocal now
        now += 1
        return now

    def compiles(*_: object) -> None:
        nonlocal now
        if now < 1000:
            now += 1000

    found.model.register_forward_pre_hook(compiles)
    monkeypatch.setattr(job_card_file, "perf_counter", clock)
    phases = phases_of(found, found.step)
    assert now > 1000
    assert all(seconds < 10 for seconds in phases.values())


def test_no_hook_is_left() -> None:
    found = job(train=True)
    job_card(found, found.step)
    assert found.optimizer is not None
    assert not found.model._forward_hooks
    assert not found.model._forward_pre_hooks
    assert not found.optimizer._optimizer_step_pre_hooks
    assert not found.optimizer._optimizer_step_post_hooks


def test_bytes_are_counted_once_an_operation() -> None:
    x = torch.zeros(100)
    assert bytes_moved(lambda: x + x) == 800, "x is read once, the sum is written"
    assert bytes_moved(lambda: x.view(10, 10)) == 0
    assert bytes_moved(lambda: x.add_(1)) == 400, "in place: what is read is what is written"


def test_a_job_is_shown_once_with_all_its_pairs() -> None:
    card = {
        "parameters": 5e6,
        "flops": 17.5e9,
        "bytes": 8e8,
        "loading": 1.0,
        "forward": 2.0,
        "backward": 5.0,
        "optimizer": 2.0,
    }
    one, two, micro = (
        measured(info(name, job=job, scale=scale), {"optimized": 0.1})
        for name, job, scale in (("One", "TrainGPT", "macro"), ("Two", "TrainGPT", "macro"), ("Alone", "", "micro"))
    )
    records = [replace(one, launches=(replace(one.launches[0], card=card), *one.launches[1:])), two, micro]
    text = render(run(records), [], "md").decode()
    row = "| TrainGPT | batch 32 | 5.0 M | 17.5 G | 800.0 M | 10.0 s | 10 / 20 / 50 / 20 | made-up.One, made-up.Two |"
    assert text.count("| TrainGPT |") == text.count(row) == 1
    assert "## The jobs" not in render(run(records[1:]), [], "md").decode()


@pytest.mark.parametrize(
    ("loading", "loads", "refused"), [(0.9, False, True), (0.05, False, False), (0.9, True, False)]
)
def test_a_job_that_a_card_waits_for_fails_by_name(loading: float, loads: bool, refused: bool) -> None:
    """On an H200 a ResNet's step was 98 % decoding, whatever the tip was about."""

    class AnyJob(MacroPair):
        pass

    AnyJob.loads = loads
    phases = dict(zip(PHASES, (loading, 1 - loading, 0.0, 0.0), strict=True))
    if not refused:
        expect_little_loading(AnyJob, phases)
        return
    with pytest.raises(Failed, match="loading takes 90 % of a step on this card"):
        expect_little_loading(AnyJob, phases)
