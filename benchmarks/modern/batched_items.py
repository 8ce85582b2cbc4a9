"""Read all samples of a batch at once: `__getitems__`.

A `DataLoader` calls its data set for one sample after the other, and stacks them. If the data set has a method
`__getitems__`, it is called once for a batch instead, with all numbers. What it returns goes to `collate_fn`.

Why people write the baseline: `__getitem__` is what tutorials show, and all that PyTorch's TensorDataset has.

What to expect: much where samples are rows, because the calls for a row take longer than to copy it; nothing where a
sample takes its time, as a photo does. The data set of PyTorch's tutorial sleeps once a batch instead of once a sample,
which is where its gain is from; here none sleeps. Workers make the same calls elsewhere, and hand each batch over.
"""

from tempfile import NamedTemporaryFile
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.jobs.loading import Stretch
from tipbench.tip.words import *

TIP = Tip(
    id="batched-items",
    title="Read all samples of a batch at once",
    do=(
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        "# of a TensorDataset; in a data set of your own write a method `__getitems__`, which workers can take along\n"
        "data.__getitems__ = lambda indices: tuple(tensor[indices] for tensor in data.tensors)\n"
        "loader = DataLoader(data, **arguments | dict(collate_fn=tuple))  # it is a batch already"
    ),
    when="samples are rows, in memory or in a mapped file, and reading them one by one takes much of a step",
    guide=("D7",),
    claim=Claim.FASTER,
    mechanism=falls("rows and targets read singly by the training process", lambda step: calls(step, "aten::select")),
    published="2.9x (PyTorch's data-loading tutorial; its data set sleeps once a batch, not once a sample)",
)


def rows_of_a_file(device: torch.device, model: nn.Module, samples: int, batch: int) -> Job:
    """A job over rows of a file that is mapped into memory, in an order drawn once."""
    with NamedTemporaryFile() as file:
        rows = torch.from_file(file.name, shared=True, size=samples * 64).view(samples, 64).normal_()
    data = TensorDataset(rows, torch.randint(10, (samples,)))
    return Job(model.to(device), data, device, batch_size=batch, sampler=torch.randperm(samples).tolist())


def batched_items(job: Job) -> None:
    """The tip, on any job over a TensorDataset."""
    data: Any = job.data
    data.__getitems__ = lambda indices: tuple(tensor[indices] for tensor in data.tensors)
    job.loading.update(collate_fn=tuple)


class Reading(Pair):
    """Four batches of rows, with no model behind them."""

    equal = Equal.BITWISE
    sizes = Sizes(dict(samples=16384, batch=256), L=dict(samples=65536, batch=1024), test=dict(samples=32, batch=4))

    def four(self, workers: int = 0, change: Any = as_it_is) -> Step:
        job = rows_of_a_file(self.device, nn.Identity(), **self.size)
        change(job)
        job.loading.update(num_workers=workers, persistent_workers=workers > 0)
        return Stretch(job.step, batches=4)

    def baseline(self) -> Step:
        return self.four()

    @sweep(workers=(0, available_cores()))
    def optimized(self, workers: int = 0) -> Step:
        return self.four(workers, batched_items)

    @variant
    def workers_alone(self) -> Step:
        return self.four(available_cores())


class PerceptronTraining(MacroPair, apply=batched_items):
    """A small multilayer perceptron trained on the rows, loading included."""

    task = "training"
    loads = True
    sizes = Reading.sizes

    def job(self) -> Job:
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        job = rows_of_a_file(self.device, model, **self.size)
        job.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        return job
