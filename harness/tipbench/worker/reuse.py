"""Whether a step returned an earlier result again instead of computing a new one.

What a step returned is overwritten before the next step, whose result then shows where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch


@torch.no_grad()
def overwrite(result: Any) -> None:
    """Fill the tensors that a step returned with NaN, integers with their largest value; modules stay as they are."""
    for tensor in _plain_tensors(result):
        # In an expanded dimension only the first element: torch refuses to write to the same place twice.
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
        with torch.inference_mode(tensor.is_inference()):
            tensor.detach()[once].fill_(_filling(tensor))


def handed_out_again(first: Any, second: Any) -> bool:
    """Whether the second result contains a tensor of the first, still overwritten."""
    storages = {tensor.untyped_storage().data_ptr() for tensor in _plain_tensors(first)}
    return any(
        tensor.untyped_storage().data_ptr() in storages and _is_overwritten(tensor) for tensor in _plain_tensors(second)
    )


def holds_nan(result: Any) -> bool:
    """Whether a tensor that a step returned holds NaN; modules are left out."""
    return any(bool(tensor.isnan().any()) for tensor in _plain_tensors(result) if _is_inexact(tensor))


def _plain_tensors(result: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result that `overwrite` can fill. Modules are left out, as the next step starts from them."""
    if isinstance(result, torch.Tensor):
        if result.layout is torch.strided and result.numel() and result.dtype != torch.bool:
            yield result
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from _plain_tensors(value)
    elif isinstance(result, (list, tuple)):
        for value in result:
            yield from _plain_tensors(value)


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _filling(tensor: torch.Tensor) -> float:
    return float("nan") if _is_inexact(tensor) else torch.iinfo(tensor.dtype).max


def _is_overwritten(tensor: torch.Tensor) -> bool:
    return bool((tensor.isnan() if _is_inexact(tensor) else tensor == _filling(tensor)).all())
