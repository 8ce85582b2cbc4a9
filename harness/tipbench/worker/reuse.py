"""Whether a step handed out an earlier result again instead of computing a new one.

What a step returned, and the copies of it that it keeps, are overwritten before the next step: that one then shows
where its result comes from. Not found: a step that keeps its results as anything but whole floating-point tensors
(NumPy arrays, files, integers), or has several ranks, or skips no work within its first seven steps.
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
    """Fill the tensors a step returned with NaN, integers with their largest value; those of modules are left alone."""
    for tensor in plain_tensors(result):
        # Of an expanded tensor one element each: writing twice to the same place is refused.
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
        with torch.inference_mode(tensor.is_inference()):
            tensor.detach()[once].fill_(_filling(tensor))


def handed_out_again(first: Any, second: Any) -> bool:
    """Whether a step returned a tensor of the one before it, which is still overwritten."""
    storages = {tensor.untyped_storage().data_ptr() for tensor in plain_tensors(first)}
    return any(
        tensor.untyped_storage().data_ptr() in storages and _is_overwritten(tensor) for tensor in plain_tensors(second)
    )


def holds_nan(result: Any) -> bool:
    """Whether a tensor a step returned holds NaN; those of modules are left out."""
    return any(bool(tensor.isnan().any()) for tensor in plain_tensors(result) if _is_inexact(tensor))


def floats(result: Any) -> list[torch.Tensor]:
    """Copies on the host of the floating-point tensors a step returned, those of modules left out."""
    return [tensor.detach().to("cpu", copy=True) for tensor in plain_tensors(result) if tensor.is_floating_point()]


class KeptTensors:
    """Finds the copies of its results that a step keeps, to see whether a later step hands one out.

    A step that computes overwrites or forgets them. So each is filled with MARKS, and the next step is looked at: only
    one that had nothing but the copy returns the marks. That is no guess about what the step runs, so compiled steps,
    CUDA graphs and kernels of a user's own are judged alike. What existed before the first step and has not been
    written to since is an input, not a result.
    """

    def __init__(self) -> None:
        """Make it between the building and the first step."""
        self._inputs = {id(tensor): (weakref.ref(tensor), _writes(tensor)) for tensor in _living_tensors()}

    def find(self, results: Sequence[torch.Tensor], ours: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """What is kept of `results`, which are made by `floats`.

        ours: further tensors that the harness itself has made or been given since this was made.
        """
        left_alone = {id(tensor) for tensor in (*results, *ours)}
        return [
            tensor
            for tensor in _living_tensors()
            if id(tensor) not in left_alone
            and not self._is_input(tensor)
            and any(_is_copy(tensor, result) for result in results)
        ]

    def _is_input(self, tensor: torch.Tensor) -> bool:
        known, writes = self._inputs.get(id(tensor), (None, 0))
        return known is not None and known() is tensor and _writes(tensor) == writes


def mark(tensors: Iterable[torch.Tensor]) -> None:
    """Fill tensors with MARKS, as far as they can be written to."""
    for tensor in tensors:
        # Some refuse, such as expanded ones, whose elements share one place in memory.
        with suppress(RuntimeError), torch.no_grad(), torch.inference_mode(tensor.is_inference()):
            tensor.detach().copy_(_marks(tensor))


def is_marked(result: Any) -> bool:
    """Whether all floating-point tensors a step returned are what `mark` writes."""
    returned = floats(result)
    return bool(returned) and all(torch.equal(tensor, _marks(tensor)) for tensor in returned)


MARKS = (-3.7, 0.001, 3e4, -3e4, 0.37)
"""Written in turn: there is hardly an operation, even one done in place, that leaves them all as they are. They are
finite, so that multiplying by 0 clears them."""


def _marks(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the host of that shape and dtype, full of MARKS."""
    marks = torch.tensor(MARKS, dtype=torch.float64, device="cpu").to(tensor.dtype)
    return marks.repeat(tensor.numel() // len(MARKS) + 1)[: tensor.numel()].reshape(tensor.shape)


def _living_tensors() -> list[torch.Tensor]:
    """Every plain floating-point tensor with numbers that Python code holds. Parameters are state, not results."""
    # By exact type: isinstance would ask objects that answer for others, and some of these import or raise.
    return [found for found in gc.get_objects() if type(found) is torch.Tensor and _holds_floats(found)]


def _holds_floats(tensor: torch.Tensor) -> bool:
    if tensor.layout is not torch.strided or not tensor.is_floating_point() or tensor.is_meta or not tensor.numel():
        return False
    try:
        # Memory that other processes see, or a file, is not ours to overwrite.
        shared = tensor.device.type == "cpu" and tensor.is_shared()
        return bool(tensor.untyped_storage().data_ptr()) and not shared
    except RuntimeError:  # a wrapper that a transform of torch.func left behind has no storage
        return False


def _writes(tensor: torch.Tensor) -> int:
    """How often torch has written to the tensor; those of inference mode do not count it."""
    return 0 if tensor.is_inference() else tensor._version


def _is_copy(tensor: torch.Tensor, result: torch.Tensor) -> bool:
    if tensor.dtype != result.dtype or tensor.shape != result.shape:
        return False
    return torch.equal(tensor.detach().to("cpu"), result)


def plain_tensors(result: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result that `overwrite` can fill; those of modules are the state of the next step."""
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
