"""The loop of a person's job: like `tipbench.tip.job.Job`, but for batches and models of any form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.utils.data import DataLoader, IterableDataset

from tipbench.given.target import BadJob
from tipbench.tip.job import Job

LOADER_ATTRIBUTES = (
    *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator"),
    *("prefetch_factor", "persistent_workers", "pin_memory_device"),
)
"""Attributes of a DataLoader that its constructor takes as well, however it makes batches."""


class GivenJob(Job):
    """A person's model, batches, loss and optimizer in the loop of `Job`.

    Attributes:
        do: by way to follow a tip, the code to write in the job's framework, if the framework has an option for it.
        batches: iterated over once an epoch; None: a DataLoader made of `data` and `loading`.
        returns_loss: whether the model itself returns the loss.
        convert_targets: converts each tensor of the targets.
        not_run: what of the person's training is left out, as a sentence; empty for nothing.
        not_compared: what its steps returned and nobody can look into.
        anomaly_inside: whether its steps turn on anomaly mode themselves, once that was looked for.
    """

    do: Mapping[str, str] = MappingProxyType({})
    not_run = ""
    anomaly_inside = False

    def __init__(
        self,
        model: nn.Module,
        data: Any = None,
        device: torch.device | None = None,
        loss: Callable[[Any, Any], torch.Tensor] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        batches: Iterable[Any] | None = None,
        **loading: Any,
    ) -> None:
        super().__init__(model, data, device, loss or loss_in, optimizer, **loading)
        self.returns_loss = loss is None
        self.batches = batches
        self.convert_targets: Callable[[Any], Any] = lambda targets: targets
        self.not_compared: set[str] = set()
        self._at: Iterator[Any] = iter(())
        self._as_given = model  # a tip may wrap it
        self._as_one: bool | None = None

    def step(self) -> Any:
        return self.run(self.next_batch(), None)

    def next_batch(self) -> Any:
        """The next batch, of the next epoch where one has ended."""
        batch = next(self._at, None)
        if batch is None:
            self._at = iter(self.loader() if self.batches is None else self.batches)
            batch = next(self._at, None)
            if batch is None:
                raise ValueError("no batch is left: give a loader that a loop can start anew, or one without an end")
        return batch

    def run(self, inputs: Any, targets: Any = None) -> Any:
        """Run one step. inputs: a whole batch on the host, targets included."""
        if not self.returns_loss and self.optimizer is not None and isinstance(inputs, list | tuple):
            inputs, targets = _in_two(inputs)
        inputs, targets = self.moved(inputs, self.convert), self.moved(targets, self.convert_targets)
        if self.optimizer is None:
            return comparable(self._forward(inputs), self.not_compared)
        self.zero_gradients()
        outputs = self._forward(inputs)
        loss = self.loss(outputs, inputs if targets is None else targets)
        if not isinstance(loss, torch.Tensor):
            raise BadJob(f"the loss function returned a {type(loss).__name__}: let it return the loss alone, a tensor")
        loss.backward()
        return self.updated(loss)

    def zero_gradients(self) -> None:
        assert self.optimizer is not None
        self.optimizer.zero_grad()

    def updated(self, loss: torch.Tensor) -> tuple[torch.Tensor, nn.Module]:
        """Update the parameters; return what a training step returns, the loss and the model."""
        assert self.optimizer is not None
        self.optimizer.step()
        return loss.detach(), self.model

    def _forward(self, inputs: Any) -> Any:
        if not isinstance(inputs, Mapping | tuple | list):
            return self.model(inputs)
        if self._as_one is None:
            self._as_one = _taken_as_one(self._as_given, inputs)
        if self._as_one:
            return self.model(inputs)
        return self.model(**inputs) if isinstance(inputs, Mapping) else self.model(*inputs)

    def moved(self, batch: Any, convert: Callable[[Any], Any]) -> Any:
        """The batch with each tensor moved to the device and converted."""

        def moved(tensor: torch.Tensor) -> Any:
            return convert(tensor.to(self.device, non_blocking=self.non_blocking))

        return tree_map_only(torch.Tensor, moved, batch)


def _in_two(batch: Sequence[Any]) -> tuple[Any, Any]:
    """(inputs, targets); None as the targets of a batch of one part, such as an autoencoder's. Raises BadJob."""
    if len(batch) == 1:
        return batch[0], None
    if len(batch) != 2:
        raise BadJob(
            f"a batch has {len(batch)} parts, and a loss takes (outputs, targets): let the loader's collate_fn return "
            "(inputs, (targets, ...)), or the model return its loss"
        )
    return batch[0], batch[1]


def _taken_as_one(model: nn.Module, inputs: Any) -> bool:
    """Whether the model takes a mapping, a tuple or a list as one argument, and not its parts as several. Raises BadJob
    where it takes neither."""
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        return _taken_as_one(model.module, inputs)
    try:
        takes = inspect.signature(model.forward)
    except ValueError:  # not written in Python
        return False
    by_name = isinstance(inputs, Mapping)
    parts = _unfit(takes, **inputs) if by_name else _unfit(takes, *inputs)
    if not parts:
        return False
    if _unfit(takes, inputs) or (by_name and takes.parameters.keys() & inputs.keys()):
        batch = f"named {', '.join(map(repr, inputs))}" if by_name else f"of {len(inputs)} parts"
        raise BadJob(
            f"{type(model).__name__}.forward{takes} cannot be called with a batch {batch} ({parts}): let the loader's "
            "collate_fn return what it takes, or give a step"
        )
    return True


def _unfit(takes: inspect.Signature, /, *arguments: Any, **named: Any) -> str:
    """Why a function does not take the arguments; empty where it does."""
    try:
        takes.bind(*arguments, **named)
    except TypeError as error:
        return str(error)
    return ""


def comparable(outputs: Any, left_out: set[str], path: str = "output") -> Any:
    """The outputs without what is neither tensor nor number, such as a language model's cache; as they are if nothing
    would be left. left_out: to which the path and the class of what is left out are added."""
    if isinstance(outputs, torch.Tensor | bool | int | float):
        return outputs
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(outputs, Mapping):
        items = outputs.items()
    elif is_dataclass(outputs):
        items = vars(outputs).items()
    elif isinstance(outputs, list | tuple):
        items = enumerate(outputs)
    inside = {name: comparable(item, left_out, f"{path}[{name}]") for name, item in items}
    kept = {name: item for name, item in inside.items() if item is not None}
    if kept:
        return list(kept.values()) if isinstance(outputs, list | tuple) else kept
    if outputs is not None and not inside:
        left_out.add(f"{path} ({type(outputs).__name__})")
    return outputs if path == "output" else None


def loss_in(outputs: Any, _: Any = None) -> torch.Tensor:
    """The loss in the outputs of a model: the tensor itself, `.loss`, a mapping's "loss" or else the sum of its values,
    or the only scalar of a tuple. Raises TypeError if there is none."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    if isinstance(getattr(outputs, "loss", None), torch.Tensor):
        return outputs.loss  # type: ignore[no-any-return]
    if isinstance(outputs, Mapping) and outputs:
        return outputs["loss"] if "loss" in outputs else torch.stack(list(outputs.values())).sum()
    items = outputs if isinstance(outputs, tuple) else ()
    scalars = [item for item in items if isinstance(item, torch.Tensor) and item.dim() == 0]
    if len(scalars) == 1:
        return scalars[0]
    raise TypeError(f"the model returned a {type(outputs).__name__}, in which there is no loss: give a loss function")


def made_of(loader: Iterable[Any], of_any_class: bool = False) -> dict[str, Any]:
    """Arguments of `GivenJob` from which a tip can make a changed DataLoader; any other iterable is used as it is, and
    so is a loader of a class that gives its batches in a way of its own, unless it may be `of_any_class`."""
    own_way = isinstance(loader, DataLoader) and type(loader).__iter__ is not DataLoader.__iter__
    if not isinstance(loader, DataLoader) or (own_way and not of_any_class):
        return {"batches": loader}
    made = {"data": loader.dataset, **{name: getattr(loader, name) for name in LOADER_ATTRIBUTES}}
    if isinstance(loader.dataset, IterableDataset):
        return made | {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    if loader.batch_sampler is not None:
        return made | {"batch_sampler": loader.batch_sampler}
    return made | {"batch_size": None, "sampler": loader.sampler}  # the sampler itself may make batches
