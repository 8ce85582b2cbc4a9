"""A job: a whole training or inference loop that a tip can be applied to, and the pair of a tip on such a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, ClassVar

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tipbench.tip.pair import Pair, Step
from tipbench.tip.process import mark_builder


class Job:
    """Model, data, loss and optimizer in the loop people write, open for tips to change.

    Attributes:
        model: its `forward` takes one batch of inputs.
        data: a map-style dataset of (inputs, targets).
        device: where batches are copied to; by default where the model is.
        loss: takes (outputs, targets); unused without an optimizer.
        optimizer: None makes it an inference job.
        loading: keyword arguments of the DataLoader (batch_size, num_workers, ...).
        non_blocking: whether copies to the device are asynchronous.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Dataset[Any],
        device: torch.device | None = None,
        loss: Callable[[Any, Any], torch.Tensor] = nn.functional.cross_entropy,
        optimizer: torch.optim.Optimizer | None = None,
        **loading: Any,
    ) -> None:
        self.model = model
        self.data = data
        self.device = device or device_of(model)
        self.loss = loss
        self.optimizer = optimizer
        self.loading = loading
        self.non_blocking = False
        self.convert: Callable[[Any], Any] = lambda inputs: inputs
        self._loader: DataLoader[Any] | None = None
        self._batches: Iterator[Any] = iter(())

    def convert_inputs(self, convert: Callable[[Any], Any]) -> None:
        """Pass every batch of inputs through `convert` once it is on the device."""
        self.convert = convert

    def loader(self) -> DataLoader[Any]:
        """The DataLoader, made once with the `loading` in force at its first use."""
        if self._loader is None:
            self._loader = DataLoader(self.data, **self.loading)
        return self._loader

    def step(self) -> Any:
        """One batch, loaded and run: training returns (loss, model), inference the outputs."""
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self.loader())
            batch = next(self._batches)
        return self.run(*batch)

    def epoch(self) -> Any:
        """Every batch once; returns what the last one returned."""
        result = None
        for batch in self.loader():
            result = self.run(*batch)
        return result

    def run(self, inputs: Any, targets: Any) -> Any:
        """One training step or one forward pass on a batch that is on the host."""
        inputs = self.convert(inputs.to(self.device, non_blocking=self.non_blocking))
        targets = targets.to(self.device, non_blocking=self.non_blocking)
        if self.optimizer is None:
            return self.model(inputs)
        self.optimizer.zero_grad()
        loss = self.loss(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), self.model


def device_of(model: nn.Module) -> torch.device:
    """Where its first parameter or buffer is."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if first is None else first.device


def as_it_is(job: Job) -> None:
    """Leave the job unchanged."""


def no_tip(job: Job) -> None:
    raise NotImplementedError("name the function that applies the tip: class NAME(MacroPair, apply=FUNCTION)")


class MacroPair(Pair):
    """The tip on a whole job: the baseline is the job as it is, the optimized side has the tip applied.

        class GPTTraining(TrainGPT, apply=grad_none, by_hand=grad_none_by_hand): ...

    The classes of `benchmarks/jobs` define `job`, with the tolerance and the needs that go with it. Further keywords
    are variants, by what is applied to the job for them, with the needs and the switch that it was marked with.

    Attributes:
        apply: applies the tip to a job.
        untuned: changes the job to what people write without the tip, if that is not the job as it is.
        loads: whether the job is there for tips about loading. Of any other, loading must be next to nothing on a GPU.
    """

    scale = "macro"
    loads: ClassVar[bool] = False
    apply: ClassVar[Callable[[Job], None]] = staticmethod(no_tip)
    untuned: ClassVar[Callable[[Job], None]] = staticmethod(as_it_is)

    def __init_subclass__(cls, **changes: Callable[[Job], None]) -> None:
        super().__init_subclass__()
        for name, change in changes.items():
            if name in ("apply", "untuned"):
                setattr(cls, name, staticmethod(change))
            else:
                mark = mark_builder(**getattr(change, "__dict__", {}), further_variant=True)
                setattr(cls, name, mark(lambda pair, change=change: pair.applied(change)))

    def job(self) -> Job:
        """Build the job, tip-neutral."""
        raise NotImplementedError("define job(self), which returns the job without the tip, a Job")

    def step_of(self, job: Job) -> Step:
        """What is timed of the job: one batch."""
        return job.step

    def applied(self, change: Callable[[Job], None]) -> Step:
        """A step of a fresh job to which `change` was applied."""
        job = self.job()
        change(job)
        return self.step_of(job)

    def baseline(self) -> Step:
        return self.applied(type(self).untuned)

    def optimized(self) -> Step:
        return self.applied(type(self).apply)

    def reference(self) -> Step:
        return self.applied(convert_to_fp64)


def convert_to_fp64(job: Job) -> None:
    """Make the job compute in double precision, floating-point inputs included."""
    job.model.double()
    job.convert_inputs(lambda inputs: inputs.double() if inputs.is_floating_point() else inputs)
