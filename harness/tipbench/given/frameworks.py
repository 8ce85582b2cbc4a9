"""Jobs written in a framework: a `transformers.Trainer`, or a Lightning module with its data.

Neither package is imported here; whoever passes such an object has it installed. A step is the batch, the loss, its
gradients and the optimizer. What the framework does around steps (logging, callbacks, checkpoints) is not run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from tipbench.given.loop import GivenJob, loss_in, made_of
from tipbench.given.target import BadJob
from tipbench.tip.needs import available_cores


def is_a(value: object, packages: str, name: str) -> bool:
    """Whether `value` is an instance of the class `name`. packages: of its top-level package, separated by spaces."""
    tops = packages.split()
    return any(cls.__name__ == name and cls.__module__.split(".")[0] in tops for cls in type(value).__mro__)


class TrainerJob(GivenJob):
    """The training of a `transformers.Trainer`, by its own `training_step`, at the initial learning rate.

    A step is one of the optimizer: of all batches whose gradients the Trainer accumulates for it, loaded beforehand as
    the Trainer does.
    """

    not_run = "Of the Trainer its callbacks, its logging and its learning rate schedule are left out."

    do = MappingProxyType(
        {
            "amp": "TrainingArguments(bf16=True)",
            "async-loading": f"TrainingArguments(dataloader_num_workers={available_cores()})",
            **{f"async-loading/{n}": f"TrainingArguments(dataloader_num_workers={n})" for n in (1, 2, 4, 8, 16)},
            "compile-modes": "TrainingArguments(torch_compile=True)",
            "fused-optimizer": 'TrainingArguments(optim="adamw_torch_fused")',
            "pin-memory": "TrainingArguments(dataloader_pin_memory=True)",
            "tensor-cores": "TrainingArguments(tf32=True)",
        }
    )

    def __init__(self, trainer: Any) -> None:
        trainer.create_optimizer()
        # `Trainer.train` would set it, but is not called; `training_step` divides the loss by it.
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
        loader = trainer.get_train_dataloader()
        # Of a class of accelerate's, which moves batches to the device as `moved` does.
        made = made_of(loader, of_any_class=True)
        super().__init__(trainer.model, device=trainer.args.device, optimizer=trainer.optimizer, **made)
        self.trainer = trainer

    def step(self) -> Any:
        return self._on([self.next_batch() for _ in range(self.trainer.args.gradient_accumulation_steps)])

    def run(self, inputs: Any, targets: Any = None) -> Any:
        return self._on([inputs])

    def _on(self, batches: Sequence[Any]) -> Any:
        self.zero_gradients()
        losses = [self.trainer.training_step(self.model, self.moved(batch, self.convert)) for batch in batches]
        loss = torch.stack(losses).sum()
        if self.trainer.args.max_grad_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.trainer.args.max_grad_norm)
        return self.updated(loss)


class LightningJob(GivenJob):
    """The training of a Lightning module on a data module or a loader, with its own `training_step`."""

    not_run = "Of the Lightning module its hooks, its logging and its learning rate schedule are left out."

    do = MappingProxyType(
        {
            "amp": 'Trainer(precision="bf16-mixed")',
            "cudnn-benchmark": "Trainer(benchmark=True)",
            "no-debug-apis": "Trainer(detect_anomaly=False)  # and take `detect_anomaly()` out of training_step",
        }
    )

    def __init__(self, module: Any, data: Any) -> None:
        if not module.automatic_optimization:
            raise BadJob("the Lightning module steps its optimizers itself: give a step, a callable without arguments")
        loader = data
        if hasattr(data, "train_dataloader"):
            data.prepare_data()
            data.setup("fit")
            loader = data.train_dataloader()
        configured = _without_trainer(module.configure_optimizers)
        super().__init__(module, optimizer=_only_optimizer(configured), **made_of(loader))
        self.number = 0

    def run(self, inputs: Any, targets: Any = None) -> Any:
        self.zero_gradients()
        batch = self.moved(inputs, self.convert)
        loss = loss_in(_without_trainer(lambda: self.model.training_step(batch, self.number)))  # type: ignore[operator]
        self.number += 1
        loss.backward()
        return self.updated(loss)


def _without_trainer(call: Callable[[], Any]) -> Any:
    """What a method of a Lightning module returns. Raises BadJob where it asks for the Trainer."""
    try:
        return call()
    except RuntimeError as error:
        if "attached to a `Trainer`" not in str(error):
            raise
        raise BadJob(
            "the Lightning module asks for its Trainer, which is not run here: give a step, a callable without "
            "arguments that takes a batch and trains on it, or a module that does without `self.trainer`"
        ) from error


def _only_optimizer(configured: Any) -> torch.optim.Optimizer:
    """The optimizer in what `configure_optimizers` returned, a value, lists, or a mapping. Raises BadJob."""
    optimizer = configured
    while isinstance(optimizer, Mapping | list | tuple):
        if isinstance(optimizer, Mapping):
            optimizer = optimizer["optimizer"]
        elif len(optimizer) == 2 and isinstance(optimizer[0], list | tuple):
            optimizer = optimizer[0]  # ([optimizers], [schedulers])
        elif len(optimizer) == 1:
            optimizer = optimizer[0]
        else:
            raise BadJob(f"the Lightning module has {len(optimizer)} optimizers, and one is what is measured")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise BadJob(f"configure_optimizers returned a {type(optimizer).__name__}, no optimizer")
    return optimizer
