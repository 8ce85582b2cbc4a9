"""The forms of job that a person's function may return, and the `Job` made of each.

- a `Job`, or an object of a class derived from it;
- `(model, batch)`: an inference, whose step runs the model on that batch;
- `(model, loader, loss, optimizer)`: a training. `loss` is called with (outputs, targets); None if the model itself
  returns the loss, alone, in a mapping or as `.loss`;
- a `transformers.Trainer`;
- `(module, data)`: a Lightning module, with a data module or a loader;
- a callable without arguments: a step that can only be called.

A mapping as batch is passed by keyword. In a training, a tuple of two is inputs and targets. Any other tuple or list is
passed by position. A model that does not take its parts so gets it as one argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from tipbench.given.frameworks import LightningJob, TrainerJob, is_a
from tipbench.given.loop import GivenJob, made_of
from tipbench.given.target import BadJob
from tipbench.tip.job import Job

GIVE_A_STEP = "give a step, a callable without arguments that takes a batch and trains on it"

ACCEPTED = (
    "return a Job, (model, batch), (model, loader, loss, optimizer), a transformers.Trainer, a Lightning module with "
    "its data, or a step, a callable without arguments"
)


class GivenStep:
    """A job that is a single callable; its model, data and optimizer are unknown."""

    def __init__(self, step: Callable[[], Any]) -> None:
        self.step = step


def job_of(returned: Any) -> Job | GivenStep:
    """The job that a person's function returned. Raises BadJob if it has none of the accepted forms."""
    if isinstance(returned, Job | GivenStep):
        return returned
    if is_a(returned, "transformers", "Trainer"):
        return TrainerJob(returned)
    if isinstance(returned, tuple) and returned and isinstance(returned[0], nn.Module):
        if len(returned) == 2 and is_a(returned[0], "lightning pytorch_lightning", "LightningModule"):
            return LightningJob(*returned)
        if len(returned) == 2:
            return _inference(*returned)
        if len(returned) == 4:
            return _training(*returned)
    if callable(returned) and not isinstance(returned, nn.Module):
        return GivenStep(returned)
    raise BadJob(f"it returned {_described(returned)}: {ACCEPTED}")


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its `step` cannot be called without a function that computes the loss, as of LBFGS."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _inference(model: nn.Module, batch: Any) -> GivenJob:
    if isinstance(batch, DataLoader):
        return GivenJob(model, **made_of(batch))
    return GivenJob(model, batches=[batch])


def _training(model: nn.Module, loader: Any, loss: Any, optimizer: Any) -> GivenJob:
    if isinstance(optimizer, list | tuple):
        raise BadJob(f"the fourth of (model, loader, loss, optimizer) is {len(optimizer)} optimizers: {GIVE_A_STEP}")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise BadJob(f"the fourth of (model, loader, loss, optimizer) is a {type(optimizer).__name__}, no Optimizer")
    if needs_closure(optimizer):
        raise BadJob(
            f"{type(optimizer).__name__} evaluates the loss itself, by a closure, for which a loop around (model, "
            f"loader, loss, optimizer) has no place: {GIVE_A_STEP}"
        )
    if loss is not None and not callable(loss):
        raise BadJob(f"the third of (model, loader, loss, optimizer) is a {type(loss).__name__}, no function")
    if not isinstance(loader, Iterable):
        raise BadJob(
            f"the second of (model, loader, loss, optimizer) is a {type(loader).__name__}: give a DataLoader, or "
            "anything else that batches come from in a loop"
        )
    return GivenJob(model, loss=loss, optimizer=optimizer, **made_of(loader))


def _described(returned: Any) -> str:
    if returned is None:
        return "nothing"
    if isinstance(returned, tuple):
        return f"a tuple of {len(returned)} ({', '.join(type(item).__name__ for item in returned)})"
    return f"a {type(returned).__name__}"
