"""What a data set holds: objects that worker processes cannot each have of their own, and what changes in it."""

from __future__ import annotations

import io
import logging
import pickle
import random
import sys
import sysconfig
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import CodeType, FunctionType, GeneratorType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy
import torch
from torch import nn

from tipbench.tip.job import Job

MOST, MOST_OF_ONE = 100_000, 1_000
"""Objects that are looked at, in all and of one list or mapping: that of a data set's files may be long."""

SAMPLE = 1000
"""Numbers of a tensor or an array by which a change of it is seen."""

ENDS = (str, bytes, int, float, complex, type, ModuleType, logging.Logger, type(None))
"""What holds nothing that matters here."""

HANDLES = {"h5py": "an open h5py file", "sqlite3": "a database's connection", "lmdb": "an open database"}
"""By top-level package, what several processes cannot use at once, beside open files."""

GENERATORS = (random.Random, numpy.random.Generator, numpy.random.RandomState, torch.Generator)

SETTERS = ("set_epoch", "set_stage", "set_phase", "set_step", "set_level", "set_difficulty")
"""Methods that a training calls between its epochs, which no measurement of single steps does."""

INSTALLED = ("site-packages", "dist-packages")


def of_workers(job: Job) -> list[Any]:
    """What every worker gets a copy of: the data set, and what makes batches of its items."""
    return [part for part in (job.data, job.loading.get("collate_fn")) if part is not None]


def shared_by_workers(job: Job) -> str:
    """Why workers would not do for what the job's data set holds; empty where they may."""
    if path := of_the_model(job, of_workers(job)):
        return f"{path} is of the job's model: a worker would keep it as it was when the worker was started"
    for path, value in _held(of_workers(job)):
        if what := _handle(value):
            return f"{path} is {what}, which workers would share: open it at the first item, in the worker"
        if isinstance(value, GeneratorType):
            return f"{path} is a generator, and every worker would go on with a copy of its own"
        if _has_own_names(value) and (setters := [name for name in SETTERS if hasattr(type(value), name)]):
            return (
                f"{path} has a method {setters[0]}: what the training changes by it, workers that are kept do not see"
            )
    return ""


def own_samplers(job: Job) -> list[Any]:
    """What chooses the items of batches, and is of a class of the person's own."""
    batches = job.loading.get("batch_sampler")
    samplers = (job.loading.get("sampler"), batches, getattr(batches, "sampler", None))
    return [sampler for sampler in samplers if sampler is not None and not _is_installed(type(sampler))]


def of_the_model(job: Job, roots: Sequence[Any]) -> str:
    """The path from these to a part of the job's model, or to its optimizer; empty where there is none."""
    modules = {id(module) for module in job.model.modules()} | {id(job.optimizer)}
    trained = {tensor.data_ptr() for tensor in chain(job.model.parameters(), job.model.buffers())} - {0}
    for path, value in _held(roots):
        tensors = value.parameters() if isinstance(value, nn.Module) else [value]
        numbers = {tensor.data_ptr() for tensor in tensors if isinstance(tensor, torch.Tensor)}
        if id(value) in modules or numbers & trained:
            return path
    return ""


def _handle(value: Any) -> str:
    if isinstance(value, io.IOBase):
        standard = value in (sys.stdin, sys.stdout, sys.stderr)
        return "" if standard or value.closed or isinstance(value, io.BytesIO | io.StringIO) else "an open file"
    package = type(value).__module__.partition(".")[0]
    return HANDLES.get(package, "") if hasattr(value, "close") and bool(value) else ""


State = Mapping[str, tuple[str, Any]]
"""By the path to it in a data set, (what it is, its value at a moment): "attribute", "numbers" or "generator"."""


def state(roots: Sequence[Any]) -> State:
    """What a worker's copy of these would not share. roots: by `of_workers`."""
    found: dict[str, tuple[str, Any]] = {}
    for path, value in _held(roots):
        if isinstance(value, GENERATORS):
            found[path] = "generator", _position(value)
        elif isinstance(value, torch.Tensor | numpy.ndarray):
            found[path] = "numbers", _sample(value)
        found |= {name: ("attribute", item) for name, item in _named(path, value) if _is_simple(item)}
    return found


def changes(before: State, after: State, when: str) -> str:
    """Why workers would not do for a data set that went from one state to another; empty where they may. when: it did.

    What was None has been made at its first use, such as a file that is opened in the worker: it is no change.
    """
    for path, (what, value) in before.items():
        if value is None or path not in after or _is_same(after[path][1], value):
            continue
        if what == "generator":
            return f"{path} is a generator of the data set's own, from which every worker would draw the same numbers"
        return f"{path} changes {when}, which workers would not see, or see too late"
    return ""


def _is_same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other) or bool(one != one and other != other)  # nan


def _position(generator: Any) -> bytes:
    kept = generator.get_state().numpy() if isinstance(generator, torch.Generator) else generator
    return pickle.dumps(kept)


def _sample(values: torch.Tensor | numpy.ndarray) -> Any:
    if isinstance(values, torch.Tensor) and (values.layout != torch.strided or values.device.type != "cpu"):
        return None
    flat = values.detach().flatten() if isinstance(values, torch.Tensor) else values.flat
    part = flat[:: max(1, len(flat) // SAMPLE)]
    return tuple(values.shape), repr(part.tolist())


def _named(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(path, object) of what can be set anew in it."""
    if isinstance(value, Mapping):
        yield from ((f"{path}[{key!r}]", item) for key, item in islice(value.items(), MOST_OF_ONE))
    elif isinstance(value, list | tuple | deque):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(islice(value, MOST_OF_ONE)))
    elif isinstance(value, FunctionType):
        yield from _used_by(value)
    if _has_own_names(value):
        yield from ((f"{path}.{name}", item) for name, item in (*_of_class(value), *vars(value).items()))


def _has_own_names(value: Any) -> bool:
    """Whether it is an object whose attributes a person's own code names."""
    if not hasattr(value, "__dict__") or isinstance(value, FunctionType):
        return False
    return isinstance(value, SimpleNamespace | Namespace) or not _is_installed(type(value))


def _of_class(value: Any) -> Iterator[tuple[str, Any]]:
    """(name, object) of methods and attributes that classes of a person's own give a value, the derived ones' last."""
    for kind in reversed(type(value).__mro__):
        if not _is_installed(kind):
            own = vars(kind).items()
            yield from ((name, item) for name, item in own if isinstance(item, FunctionType) or name[:2] != "__")


def _is_simple(value: Any) -> bool:
    return value is None or isinstance(value, str | bytes | int | float | complex)


def _is_installed(what: type | FunctionType | ModuleType) -> bool:
    """Whether a class, a function or a module comes with a package, and is not the person's own."""
    module = what if isinstance(what, ModuleType) else sys.modules.get(what.__module__ or "")
    file = getattr(module, "__file__", None)
    if file is None or file.startswith(sysconfig.get_path("stdlib")):
        return True
    return any(part in INSTALLED for part in Path(file).parts)


def _held(roots: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """(path, object) of all that these refer to, themselves included."""
    waiting = deque((getattr(root, "__name__", type(root).__name__), root) for root in roots)
    seen: dict[int, Any] = {}  # kept alive, or another object could have its id
    while waiting and len(seen) < MOST:
        path, value = waiting.popleft()
        if isinstance(value, ENDS) or id(value) in seen:
            continue
        seen[id(value)] = value
        yield path, value
        waiting.extend(_parts(path, value))


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, nn.Module | torch.Tensor | numpy.ndarray | io.IOBase | torch.optim.Optimizer):
        return
    if isinstance(value, set | frozenset):
        yield from ((path, item) for item in islice(value, MOST_OF_ONE))
    elif isinstance(value, partial):
        yield from ((path, item) for item in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, MethodType):
        yield from ((path, item) for item in (value.__self__, value.__func__))
    else:
        yield from _named(path, value)
        if hasattr(value, "__dict__") and not _has_own_names(value):
            yield from ((f"{path}.{name}", item) for name, item in vars(value).items())


def _used_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function of a person's own refers to: what it closes over, its defaults, globals of its file, and what it
    takes from modules and classes of the person's own."""
    if _is_installed(function):
        return
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue
    yield from ((function.__name__, default) for default in function.__defaults__ or ())
    names = {name: None for part in _codes(code) for name in part.co_names}
    for name in names:
        value = function.__globals__.get(name)
        yield name, value
        if isinstance(value, ModuleType | type) and not _is_installed(value):
            yield from ((f"{name}.{inner}", vars(value)[inner]) for inner in names if inner in vars(value))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Of a function, and of those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
