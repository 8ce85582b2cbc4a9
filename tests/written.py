"""What a tip says to write, executed in a job: where its lines stand `tipbench.tip.pair.LOOP` says."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from tipbench.tip.job import Job
from tipbench.tip.pair import LOOP, Tip, Variant, to_write

OF_A_BATCH = {"batch", "targets", "outputs", "loss"}
IMPORTED = {"torch": torch, "nn": nn, "F": nn.functional, "DataLoader": DataLoader}
OF_A_JOB = {"model", "optimizer", "loader", "criterion", "data", "arguments", "device", "epochs"}

(_loop,) = ast.parse(LOOP).body
assert isinstance(_loop, ast.For)
TRAINING: Sequence[ast.stmt] = _loop.body
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
        made = set().union(*map(calls_of_the_loop, self.lines))
        replaced = [number for number, line in enumerate(loop) if calls_of_the_loop(line) & made]
        first, behind = (replaced[0], replaced[-1] + 1) if replaced else (len(loop), len(loop))
        return [*loop[:first], *self.lines, *loop[behind:]]


def text_of(tip: Tip, variant: Variant) -> str:
    """What to write for a variant; all that is built by `optimized` is shown as the tip words it."""
    return to_write(tip.do, tip.ways, variant.name, variant.builder == "optimized")


def read(text: str) -> Written:
    """Take a text apart. Raises SyntaxError for what is no Python."""
    statements = ast.parse(text).body
    first = next((number for number, line in enumerate(statements) if _is_about_a_batch(line)), len(statements))
    lines = statements[first:]
    return Written(statements[:first], lines, bool(lines) and _is_over_the_loader(lines[0]))


def free_names(text: str) -> set[str]:
    """The names that a text takes from elsewhere."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound -= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)} & OF_A_JOB
    bound |= {alias.asname or alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)
              for alias in node.names}  # fmt: skip
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return names - bound - set(vars(builtins)) - set(IMPORTED)


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


def calls_of_the_loop(statement: ast.stmt) -> set[str]:
    """Which calls of the loop a statement makes."""
    return set(_calls_of_the_loop(statement))


def _calls_of_the_loop(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Name(id="model" | "criterion" as name)):
                yield name
            case ast.Call(func=ast.Attribute(attr="backward")):
                yield "backward"
            case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name(id="device"), *_]):
                yield "to"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="optimizer"), attr=name)):
                yield name
            case ast.Call(func=ast.Attribute(attr="step"), args=[ast.Name(id="optimizer")]):  # of a GradScaler
                yield "step"


def _is_about_a_batch(statement: ast.stmt) -> bool:
    """A definition is not: it is called later."""
    return not isinstance(statement, ast.FunctionDef | ast.ClassDef) and any(
        (isinstance(node, ast.Name) and node.id in OF_A_BATCH)
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "optimizer"
        )
        for node in ast.walk(statement)
    )


def _is_over_the_loader(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.For) and any(
        isinstance(node, ast.Name) and node.id == "loader" for node in ast.walk(statement.iter)
    )
