"""Jobs that are written in a framework: a `transformers.Trainer`, and a Lightning module with what it trains on.

Neither package is imported: who gives such an object has it. What a framework does around its steps, such as logging,
callbacks and checkpoints, is left out: a step is the batch, the loss, its gradients and the optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from tipbench.given.loop import GivenJob, loss_in, made_of
from tipbench.given.target import BadJob
from tipbench.tip.needs import available_cores


def is_a(found: object, package: str, name: str) -> bool:
    """Whether it is of a class of that name in that package, or of one derived from it."""
    return any(cls.__name__ == name and cls.__module__.split(".")[0] in package.split() for cls in type(found).__mro__)


class TrainerJob(GivenJob):
    """The training of a `transformers.Trainer`, with its own `training_step`. The rate stays what it is at first."""

    do = MappingProxyType(
        {
            "amp": "TrainingArguments(bf16=True)",
            "async-loading": f"TrainingArguments(dataloader_num_workers={available_cores()})",
            "compile-modes": "TrainingArguments(torch_compile=True)",
            "fused-optimizer": 'TrainingArguments(optim="adamw_torch_fused")',
            "pin-memory": "TrainingArguments(dataloader_pin_memory=True)",
            "tensor-cores": "TrainingArguments(tf32=True)",
        }
    )

    def __init__(self, trainer: Any) -> None:
        trainer.create_optimizer()
        # Set by `Trainer.train`, which is not called; `training_step` divides the loss by it.
        trainer.current_gradient_accumulation_steps = 1
        loader = trainer.get_train_dataloader()
        super().__init__(trainer.model, device=trainer.args.device, optimizer=trainer.optimizer, **made_of(loader))
        self.trainer = trainer

    def run(self, inputs: Any, targets: Any = None) -> Any:
        self.zero_gradients()
        loss = self.trainer.training_step(self.model, self.moved(inputs, self.convert))
        if self.trainer.args.max_grad_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.trainer.args.max_grad_norm)
        return self.updated(loss)


class LightningJob(GivenJob):
    """The training of a Lightning module on a data module or a loader, with its own `training_step`."""

    do = MappingProxyType(
        {
            "amp": 'Trainer(precision="bf16-mixed")',
            "cudnn-benchmark": "Trainer(benchmark=True)",
            "no-debug-apis": "Trainer(detect_anomaly=False)",
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
        super().__init__(module, optimizer=_only_optimizer(module.configure_optimizers()), **made_of(loader))
        self.number = 0

    def run(self, inputs: Any, targets: Any = None) -> Any:
        self.zero_gradients()
        loss = loss_in(self.model.training_step(self.moved(inputs, self.convert), self.number))  # type: ignore[operator]
        self.number += 1
        loss.backward()
        return self.updated(loss)


def _only_optimizer(configured: Any) -> torch.optim.Optimizer:
    """Of what `configure_optimizers` may return: one, alone or within lists, or in a mapping beside its scheduler."""
    found = configured
    while isinstance(found, Mapping | list | tuple):
        if isinstance(found, Mapping):
            found = found["optimizer"]
        elif len(found) == 2 and isinstance(found[0], list | tuple):
            found = found[0]  # ([optimizers], [schedulers])
        elif len(found) == 1:
            found = found[0]
        else:
            raise BadJob(f"the Lightning module has {len(found)} optimizers, and one is what is measured")
    if not isinstance(found, torch.optim.Optimizer):
        raise BadJob(f"configure_optimizers returned a {type(found).__name__}, no optimizer")
    return found
