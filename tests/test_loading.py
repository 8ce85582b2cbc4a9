"""A stretch of an epoch as a step: what workers do outside of it, and how it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from benchmarks.jobs.images import READ_S, SLOW_ONE_IN, SLOW_READ_S, RemotePhotos, jpeg_files
from benchmarks.jobs.loading import Stretch
from tipbench.tip.words import Job

CPU = torch.device("cpu")
WORKERS = 2
AHEAD = 2 * WORKERS
"""Batches requested ahead, by default."""

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


class Counted(Dataset[tuple[torch.Tensor, int]]):
    """Numbers, which count in shared memory how many of them have been read."""

    def __init__(self, length: int = 1000) -> None:
        self.length = length
        self.reads = torch.zeros(length, dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.002)
        self.reads[index] += 1
        return torch.tensor([float(index)]), index

    def read(self) -> int:
        return int(self.reads.sum())


def loading(data: Counted, num_workers: int = WORKERS) -> Job:
    return Job(nn.Identity(), data, CPU, batch_size=2, num_workers=num_workers, persistent_workers=num_workers > 0)


def states(step: Stretch) -> set[str]:
    assert step.workers
    return {psutil.Process(worker.pid).status() for worker in step.workers}


def until(condition: Callable[[], bool]) -> None:
    """Wait for what happens in another process."""
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it never came about")


def all_stopped(step: Stretch) -> None:
    until(lambda: states(step) == {psutil.STATUS_STOPPED})


def test_each_step_goes_on_where_the_last_one_ended() -> None:
    for workers in (0, WORKERS):
        step = Stretch(loading(Counted(), workers).step, batches=3)
        seen = [batch.flatten().tolist() for _ in range(2) for batch in step()]
        assert seen == [[first, first + 1] for first in range(0, 12, 2)]


def test_an_epoch_ends_within_a_step() -> None:
    step = Stretch(loading(Counted(length=8)).step, batches=3)
    step()
    assert [batch[0].item() for batch in step()] == [6, 0, 2]


def test_between_two_steps_the_workers_stand_still() -> None:
    data = Counted()
    step = Stretch(loading(data).step, batches=3)
    for number in range(1, 4):
        step()
        all_stopped(step)
        before = data.read()
        time.sleep(0.05)
        assert data.read() == before
        assert 0 <= before - number * 3 * 2 <= AHEAD * 2, "no more than the queue holds was read ahead"


def test_while_a_step_runs_the_workers_of_others_stand_still_even_if_somebody_resumed_them() -> None:
    data = Counted()
    step, other = Stretch(loading(data).step, batches=1), Stretch(loading(Counted(), 0).step, batches=1)
    step()
    all_stopped(step)
    for worker in step.workers or ():
        assert worker.pid
        os.kill(worker.pid, signal.SIGCONT)
    other()
    all_stopped(step)
    step()
    assert data.read() >= 4


def test_who_drops_a_step_is_rid_of_its_workers() -> None:
    step = Stretch(loading(Counted()).step, batches=2)
    step()
    all_stopped(step)
    workers = [psutil.Process(worker.pid) for worker in step.workers or ()]
    assert len(workers) == WORKERS
    del step
    until(lambda: not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers))


def test_a_process_that_ends_with_stopped_workers_ends() -> None:
    code = "from tests.test_loading import *; step = Stretch(loading(Counted()).step, batches=1); step()"
    command = [sys.executable, "-c", f"{code}; all_stopped(step)"]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_network_storage_keeps_its_readers_waiting_and_gives_the_same_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    photos = RemotePhotos(2 * jpeg_files()[:SLOW_ONE_IN], pixels=16, augment=True)
    assert [photos.read(index) for index in range(len(photos))] == [file.read_bytes() for file in photos.files]
    for group in (waits[:SLOW_ONE_IN], waits[SLOW_ONE_IN:]):
        assert sorted(group) == [READ_S] * (SLOW_ONE_IN - 1) + [SLOW_READ_S]
