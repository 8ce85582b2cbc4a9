"""What a tip says to write, executed in a job: where its lines stand `tipbench.suite.loops` says."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from tipbench.suite.files import BENCHMARKS
from tipbench.suite.loops import OF_A_BATCH, is_the_loop, place_of, split
from tipbench.tip.job import Job
from tipbench.tip.pair import Tip, Variant, code_to_write

IMPORTED = {"torch": torch, "nn": nn, "F": nn.functional, "DataLoader": DataLoader}

_script = ast.parse((BENCHMARKS / "loops" / "training.py").read_text()).body[-1]
TRAINING: Sequence[ast.stmt] = _script.body[0].body  # type: ignore[attr-defined]
"""The lines of the loop."""
INFERENCE: Sequence[ast.stmt] = [line for line in TRAINING if ast.unparse(line).startswith(("batch", "outputs"))]


@dataclass(frozen=True)
class Written:
    """The parts of a text.

    Attributes:
        before: what stands before the loop.
        lines: what stands in the loop, or is the loop.
        is_the_loop: whether it is a loop of its own over the loader.
    """

    before: Sequence[ast.stmt]
    lines: Sequence[ast.stmt]
    is_the_loop: bool

    def for_each_batch(self, loop: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The loop with its lines in place of those that make the same calls, or behind them all."""
        first, behind = place_of(self.lines, loop)
        return [*loop[:first], *self.lines, *loop[behind:]]


def text_of(tip: Tip, variant: Variant) -> str:
    """What to write for a variant; all that is built by `optimized` is shown as the tip words it."""
    return code_to_write(tip.do, tip.ways, variant.name, variant.builder == "optimized")


def read(text: str) -> Written:
    """Take a text apart. Raises SyntaxError for what is no Python."""
    before, lines = split(ast.parse(text).body)
    return Written(before, lines, bool(lines) and is_the_loop(lines[0]))


def executed(statements: Sequence[ast.stmt], names: dict[str, Any]) -> None:
    exec(_compiled(statements), names)


def value_of(text: str, **names: Any) -> Any:
    """The value of a text that is one expression."""
    return eval(text, {**IMPORTED, **names})


def names_of(job: Job, **more: Any) -> dict[str, Any]:
    """What a text may be about, as the job has it."""
    return {
        **IMPORTED,
        "model": job.model,
        "optimizer": job.optimizer,
        "loader": job.loader(),
        "criterion": job.loss,
        "data": job.data,
        "arguments": dict(job.loading),
        "device": job.device,
        **more,
    }


def follow(text: str, job: Job, **more: Any) -> dict[str, Any]:
    """Do to a job what the text says, and return all names as they are then. more: further names that it uses."""
    written, names = read(text), names_of(job, **more)
    assert not written.is_the_loop
    executed(written.before, names)
    loader = names["loader"]
    job.model, job.optimizer, job.loader = names["model"], names["optimizer"], lambda: loader  # type: ignore[method-assign]
    job.loss = names["criterion"]
    if written.lines:
        loop = TRAINING if job.optimizer is not None else INFERENCE
        run = _for_each_batch(_compiled(written.for_each_batch(loop)), names)
        job.run = run  # type: ignore[method-assign, assignment]
    return names


def _for_each_batch(lines: CodeType, names: dict[str, Any]) -> Callable[[Any, Any], Any]:
    def run(inputs: Any, targets: Any) -> Any:
        names.update(batch=inputs, targets=targets)
        exec(lines, names)
        # Nothing of a batch is kept, as nothing is behind a loop that goes on.
        batch = {name: names.pop(name) for name in OF_A_BATCH & names.keys()}
        if names["optimizer"] is None:
            return batch["outputs"]
        # By number, as a loop returns (loss, model): lines that accumulate gradients name no loss.
        return {0: batch["loss"].detach(), 1: names["model"]} if "loss" in batch else {1: names["model"]}

    return run


def _compiled(statements: Sequence[ast.stmt]) -> CodeType:
    return compile(ast.Module(list(statements), type_ignores=[]), "what to write", "exec")
