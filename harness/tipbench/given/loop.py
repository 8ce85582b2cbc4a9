"""The loop of a person's job: like `tipbench.tip.job.Job`, but for batches and models of any form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.utils.data import DataLoader, IterableDataset

from tipbench.tip.job import Job

LOADING = (
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
    """

    do: Mapping[str, str] = MappingProxyType({})

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
        self._at: Iterator[Any] = iter(())

    def step(self) -> Any:
        batch = next(self._at, None)
        if batch is None:
            self._at = iter(self.loader() if self.batches is None else self.batches)
            batch = next(self._at, None)
            if batch is None:
                raise ValueError("no batch is left: give a loader that a loop can start anew, or one without an end")
        return self.run(batch, None)

    def run(self, inputs: Any, targets: Any = None) -> Any:
        """Run one step. inputs: a whole batch on the host, targets included."""
        paired = not self.returns_loss and self.optimizer is not None
        if paired and not isinstance(inputs, Mapping):
            inputs, targets = inputs
        inputs, targets = self.moved(inputs, self.convert), self.moved(targets, self.convert_targets)
        if self.optimizer is None:
            return self._forward(inputs)
        self.zero_gradients()
        outputs = self._forward(inputs)
        loss = self.loss(outputs, inputs if targets is None else targets)
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
        if isinstance(inputs, Mapping):
            return self.model(**inputs)
        return self.model(*inputs) if isinstance(inputs, tuple | list) else self.model(inputs)

    def moved(self, batch: Any, convert: Callable[[Any], Any]) -> Any:
        """The batch with each tensor moved to the device and converted."""

        def moved(tensor: torch.Tensor) -> Any:
            return convert(tensor.to(self.device, non_blocking=self.non_blocking))

        return tree_map_only(torch.Tensor, moved, batch)


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


def made_of(loader: Iterable[Any]) -> dict[str, Any]:
    """Arguments of `GivenJob` from which a tip can make a changed DataLoader; any other iterable is used as it is."""
    if not isinstance(loader, DataLoader):
        return {"batches": loader}
    made = {"data": loader.dataset, **{name: getattr(loader, name) for name in LOADING}}
    if loader.batch_sampler is not None and not isinstance(loader.dataset, IterableDataset):
        return made | {"batch_sampler": loader.batch_sampler}
    return made | {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
