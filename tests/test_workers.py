"""Data that worker processes would change unseen are refused, with the reason; others are compared batch by batch."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, Subset, get_worker_info

from tipbench.given.forms import job_of
from tipbench.given.target import BadJob
from tipbench.given.workers import compare_loading
from tipbench.tip.job import Job

ITEMS, BATCH = 24, 4
THE_SAME = "with workers the 10 batches of an epoch and of the start of the next are the same"

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


class Numbers(Dataset[torch.Tensor]):
    """Item n is n."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.tensor([float(number)])


class Lines(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(torch.arange(ITEMS, dtype=torch.float32)[first::step, None])


class Staged(Numbers):
    """Counts its epochs."""

    def __init__(self) -> None:
        self.stage = 0

    def __getitem__(self, number: int) -> torch.Tensor:
        self.stage += number == ITEMS - 1
        return torch.tensor([float(number + 100 * self.stage)])


class Silent(Numbers):
    """As `Staged`, kept where nobody looks."""

    def __init__(self) -> None:
        self.taken = {"all": [0]}

    def __getitem__(self, number: int) -> torch.Tensor:
        self.taken["all"].append(number)
        return torch.tensor([float(len(self.taken["all"]) > ITEMS + 1)])


class Hardest(Sampler[int]):
    """Chooses each item by the losses so far."""

    def __init__(self) -> None:
        self.losses = torch.ones(ITEMS)

    def __len__(self) -> int:
        return ITEMS

    def __iter__(self) -> Iterator[int]:
        return (int(self.losses.argmin() + number) % ITEMS for number in range(ITEMS))


class Weighed(Numbers):
    """By the model, as in Lightning-AI/pytorch-lightning#19537 and kingsaint/BioMedical-EL#5."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __getitem__(self, number: int) -> torch.Tensor:
        with torch.no_grad():
            return self.model(super().__getitem__(number))  # type: ignore[no-any-return]


class Noisy(Numbers):
    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.tensor([self.generator.random()])


class FromFile(Numbers):
    """Opens its file in the constructor, as in apache/mxnet#10628 and huggingface/lerobot#4526, or as one should at its
    first item."""

    def __init__(self, path: Path, at_once: bool) -> None:
        self.path = path
        self.file = path.open("rb", buffering=0) if at_once else None

    def __getitem__(self, number: int) -> torch.Tensor:
        self.file = self.file or self.path.open("rb", buffering=0)
        self.file.seek(number)
        time.sleep(0.002)
        return torch.tensor([float(self.file.read(1)[0])])

    def __del__(self) -> None:
        if self.file is not None:
            self.file.close()


class Augmented(Numbers):
    def __getitem__(self, number: int) -> torch.Tensor:
        return super().__getitem__(number) + torch.rand(1) + random.random()


def follow(job: Job) -> None:
    job.loading.update(num_workers=2, persistent_workers=True)


def look(data: Any, draws: tuple[str, ...] = (), **loading: Any) -> str:
    """What `compare_loading` says of a data set that is made anew by the function `data`."""

    def build() -> Job:
        torch.manual_seed(1)
        random.seed(1)
        job = job_of((nn.Linear(1, 1), DataLoader(data(), **{"batch_size": BATCH, **loading})))
        assert isinstance(job, Job)
        return job

    return compare_loading(build, follow, draws)


@pytest.mark.parametrize(
    "loading", [{"shuffle": True}, {"batch_size": BATCH, "drop_last": True, "collate_fn": torch.stack}]
)
def test_the_batches_of_an_epoch_and_of_the_next_are_compared(loading: dict[str, Any]) -> None:
    assert look(Numbers, **loading) == THE_SAME


def test_random_augmentation_is_no_difference() -> None:
    assert look(Augmented, draws=("torch", "random"), shuffle=True) == THE_SAME


@pytest.mark.parametrize(
    ("data", "why_not"),
    [
        (Lines, "the data set is iterable: unless its `__iter__` takes a part by"),
        (lambda: Noisy(random.Random(1)), "with workers batch 2 is another one"),
        (Staged, "with workers batch 1 of the second epoch is another one"),
        (Silent, "with workers batch 1 of the second epoch is another one"),
    ],
)
def test_data_that_workers_would_change_are_refused(data: Callable[[], Any], why_not: str) -> None:
    with pytest.raises(BadJob, match=f"^{re.escape(why_not)}"):
        look(data)


@pytest.mark.parametrize("follows", ["", "data", "sampler"])
def test_what_follows_the_training_is_refused(follows: str) -> None:
    def job() -> Job:
        torch.manual_seed(1)
        model, sampler = nn.Linear(1, 1), Hardest()

        def loss(outputs: torch.Tensor, _: Any) -> torch.Tensor:
            sampler.losses[: len(outputs)] = outputs.detach().flatten() if follows == "sampler" else 1.0
            return outputs.sum()

        data = Weighed(model) if follows == "data" else Numbers()
        made = job_of((model, DataLoader(data, BATCH, sampler=sampler), loss, torch.optim.SGD(model.parameters())))
        assert isinstance(made, Job)
        return made

    with pytest.raises(BadJob, match=r"is another one$") if follows else nullcontext():
        compare_loading(job, follow)


def test_what_a_training_sets_from_outside_is_no_data_for_workers() -> None:
    class Scheduled(Numbers):
        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    with pytest.raises(BadJob, match=r"^Scheduled has a method set_epoch: what the training changes by it"):
        look(lambda: Subset(Scheduled(), range(ITEMS)))


def test_an_open_file_is_named_and_one_that_workers_open_is_allowed(tmp_path: Path) -> None:
    (path := tmp_path / "numbers").write_bytes(bytes(range(ITEMS)))
    with pytest.raises(BadJob, match=r"^FromFile\.file is an open file, which workers"):
        look(lambda: FromFile(path, at_once=True))
    assert look(lambda: FromFile(path, at_once=False)) == THE_SAME


def test_what_raises_in_a_worker_alone_is_told() -> None:
    def collate(items: list[torch.Tensor]) -> torch.Tensor:
        if get_worker_info():
            raise LookupError("no such key")
        return torch.stack(items)

    with pytest.raises(BadJob, match=r"^with workers loading raises LookupError: no such key$"):
        look(Numbers, collate_fn=collate)
