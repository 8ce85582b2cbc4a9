"""Whether a step returned an earlier result again instead of computing a new one.

What a step returned, and the copies of it that the step retains, are overwritten before the next step, whose result
then shows where it comes from. This misses steps that retain their results as anything but whole floating-point tensors
(NumPy arrays, files, integers), that have several ranks, or that skip work only after their first seven runs.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch


@torch.no_grad()
def overwrite(result: Any) -> None:
    """Fill the tensors that a step returned with NaN, integers with their largest value; modules stay as they are."""
    for tensor in plain_tensors(result):
        # In an expanded dimension only the first element: torch refuses to write to the same place twice.
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
        with torch.inference_mode(tensor.is_inference()):
            tensor.detach()[once].fill_(_filling(tensor))


def handed_out_again(first: Any, second: Any) -> bool:
    """Whether the second result contains a tensor of the first, still overwritten."""
    storages = {tensor.untyped_storage().data_ptr() for tensor in plain_tensors(first)}
    return any(
        tensor.untyped_storage().data_ptr() in storages and _is_overwritten(tensor) for tensor in plain_tensors(second)
    )


def holds_nan(result: Any) -> bool:
    """Whether a tensor that a step returned holds NaN; modules are left out."""
    return any(bool(tensor.isnan().any()) for tensor in plain_tensors(result) if _is_inexact(tensor))


def floats(result: Any) -> list[torch.Tensor]:
    """Copies on the host of the floating-point tensors that a step returned; modules are left out."""
    return [tensor.detach().to("cpu", copy=True) for tensor in plain_tensors(result) if tensor.is_floating_point()]


class KeptTensors:
    """Finds the copies of its results that a step retains, to see whether a later step returns one.

    Each copy is filled with MARKS before the next step. A step that computes overwrites or ignores the copy; only one
    that returns the copy itself returns the marks. This needs no knowledge of what the step runs, so compiled steps,
    CUDA graphs and users' own kernels are judged alike. A tensor that existed before the first step and has not been
    written to since is an input, not a result.
    """

    def __init__(self) -> None:
        """To be made after the build and before the first step."""
        self._inputs = {id(tensor): (weakref.ref(tensor), _writes(tensor)) for tensor in _living_tensors()}

    def find(self, results: Sequence[torch.Tensor], ours: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """The retained copies of `results`, which are from `floats`.

        ours: further tensors that the harness itself has made or received since this object was made.
        """
        excluded = {id(tensor) for tensor in (*results, *ours)}
        return [
            tensor
            for tensor in _living_tensors()
            if id(tensor) not in excluded
            and not self._is_input(tensor)
            and any(_is_copy(tensor, result) for result in results)
        ]

    def _is_input(self, tensor: torch.Tensor) -> bool:
        reference, writes = self._inputs.get(id(tensor), (None, 0))
        return reference is not None and reference() is tensor and _writes(tensor) == writes


def mark(tensors: Iterable[torch.Tensor]) -> None:
    """Fill tensors with MARKS, except those that cannot be written to."""
    for tensor in tensors:
        # Expanded tensors, for example, whose elements share one place in memory, cannot.
        with suppress(RuntimeError), torch.no_grad(), torch.inference_mode(tensor.is_inference()):
            tensor.detach().copy_(_marks(tensor))


def is_marked(result: Any) -> bool:
    """Whether all floating-point tensors that a step returned hold what `mark` writes."""
    returned = floats(result)
    return bool(returned) and all(torch.equal(tensor, _marks(tensor)) for tensor in returned)


MARKS = (-3.7, 0.001, 3e4, -3e4, 0.37)
"""The values that `mark` writes in turn. Hardly any operation, even in place, leaves all of them unchanged. They are
finite, so that multiplying by 0 clears them."""


def _marks(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the host of the same shape and dtype, filled with MARKS."""
    marks = torch.tensor(MARKS, dtype=torch.float64, device="cpu").to(tensor.dtype)
    return marks.repeat(tensor.numel() // len(MARKS) + 1)[: tensor.numel()].reshape(tensor.shape)


def _living_tensors() -> list[torch.Tensor]:
    """Every plain floating-point tensor with numbers that Python code holds. Parameters are state, not results."""
    # By exact type: isinstance would call into proxy objects, some of which import modules or raise.
    return [tensor for tensor in gc.get_objects() if type(tensor) is torch.Tensor and _holds_floats(tensor)]


def _holds_floats(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided or not tensor.is_floating_point() or tensor.is_meta or not tensor.numel():
        return False
    try:
        # Memory shared with other processes, or with a file, must not be overwritten.
        shared = tensor.device.type == "cpu" and tensor.is_shared()
        return bool(tensor.untyped_storage().data_ptr()) and not shared
    except RuntimeError:  # a wrapper left behind by a transform of torch.func has no storage
        return False


def _writes(tensor: torch.Tensor) -> int:
    """How often torch has written to the tensor; 0 for tensors of inference mode, which do not count it."""
    return 0 if tensor.is_inference() else tensor._version


def _is_copy(tensor: torch.Tensor, result: torch.Tensor) -> bool:
    if tensor.dtype != result.dtype or tensor.shape != result.shape:
        return False
    return torch.equal(tensor.detach().to("cpu"), result)


def plain_tensors(result: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result that `overwrite` can fill. Modules are left out, as the next step starts from them."""
    if isinstance(result, torch.Tensor):
        if result.layout is torch.strided and result.numel() and result.dtype != torch.bool:
            yield result
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from plain_tensors(value)
    elif isinstance(result, (list, tuple)):
        for value in result:
            yield from plain_tensors(value)


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _filling(tensor: torch.Tensor) -> float:
    return float("nan") if _is_inexact(tensor) else torch.iinfo(tensor.dtype).max


def _is_overwritten(tensor: torch.Tensor) -> bool:
    return bool((tensor.isnan() if _is_inexact(tensor) else tensor == _filling(tensor)).all())
