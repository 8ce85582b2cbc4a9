"""Whether both sides did the same work: their outputs on fresh random inputs, over several seeds.

Not found: a step that stops working only after its fourth call, or keeps its old results as anything but
whole floating-point tensors (NumPy arrays, files, integers), or returns modules alone, or has several ranks.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any

import torch
from torch import nn

from harness.pair import Equal

Outputs = dict[str, torch.Tensor]

FLOOR = 1e-6
"""Differences are relative to the tensor's largest value, and to this where all its values are tiny:
the gradient of a bias before batch normalisation is rounding noise on both sides."""


class Unequal(Exception):
    """The two sides cannot be compared as equal work. kind is the record's kind of failure."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def flatten(result: Any, path: str = "output") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor a step returned, by a readable path; of modules the parameters, gradients, buffers.

    Raises Unequal for None and for anything that holds no numbers.
    """
    if isinstance(result, torch.Tensor):
        yield path, result
    elif isinstance(result, (bool, int, float)):
        yield path, torch.tensor(result, dtype=torch.float64)
    elif isinstance(result, nn.Module):
        for name, parameter in result.named_parameters():
            yield f"{path}.{name}", parameter
            if parameter.grad is not None:
                yield f"{path}.{name}.grad", parameter.grad
        for name, buffer in result.named_buffers():
            yield f"{path}.{name}", buffer
    elif isinstance(result, Mapping):
        for name, value in result.items():
            yield from flatten(value, f"{path}[{name}]")
    elif isinstance(result, Sequence) and not isinstance(result, (str, bytes)):
        for index, value in enumerate(result):
            yield from flatten(value, f"{path}[{index}]")
    elif result is None:
        raise Unequal("no output", f"the step returned None for {path}; return what it computed")
    else:
        raise Unequal("no output", f"the step returned a {type(result).__name__} for {path}; return tensors or modules")


def snapshot(result: Any) -> Outputs:
    """Copies on the host. Raises Unequal where outputs are missing, not finite, or all zeros."""
    outputs = {path: tensor.detach().to("cpu", copy=True).contiguous() for path, tensor in flatten(result)}
    if not any(tensor.numel() for tensor in outputs.values()):
        raise Unequal("no output", "the step returned no numbers; return what it computed")
    for path, tensor in outputs.items():
        if (tensor.is_floating_point() or tensor.is_complex()) and not torch.isfinite(tensor).all():
            raise Unequal("not finite", f"{path} holds NaN or infinity")
    if not any(torch.count_nonzero(tensor) for tensor in outputs.values()):
        raise Unequal("all zeros", "every output is zero")
    return outputs


@torch.no_grad()
def scribble(result: Any) -> None:
    """Overwrite the tensors a step returned (not modules), so that handing out an old one again shows."""
    for tensor in _plain_tensors(result):
        # Of an expanded tensor one element each: writing twice to the same place is refused.
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
        with torch.inference_mode(tensor.is_inference()):
            tensor.detach()[once].fill_(_ink(tensor))


def handed_out_again(first: Any, second: Any) -> bool:
    """Whether the second step returned a tensor of the first one's, still scribbled over."""
    storages = {tensor.untyped_storage().data_ptr() for tensor in _plain_tensors(first)}
    return any(
        tensor.untyped_storage().data_ptr() in storages and _scribbled(tensor) for tensor in _plain_tensors(second)
    )


class Hoard:
    """Finds the copies of its results that a step keeps, to see whether a later step hands one out.

    A step that computes overwrites or forgets them. So each is spoiled, and the next step is looked at:
    only one that had nothing but the copy returns exactly what it was spoiled with. That is no guess
    about what the step runs, so compiled steps, CUDA graphs and kernels of a user's own are judged alike.
    What existed before the first step and has not been written to since is an input, not a result.
    """

    def __init__(self) -> None:
        """Make it between the building and the first step."""
        self._inputs = {id(tensor): (weakref.ref(tensor), _writes(tensor)) for tensor in _living_tensors()}

    def spoil(self, results: Sequence[torch.Tensor], ours: Iterable[torch.Tensor]) -> bool:
        """Overwrite what is kept of `results`, made by `floats`; whether there was anything.

        ours: further copies that the harness itself has made since this was made.
        """
        left_alone = {id(tensor) for tensor in (*results, *ours)}
        kept = [
            tensor
            for tensor in _living_tensors()
            if id(tensor) not in left_alone
            and not self._is_input(tensor)
            and any(_same(tensor, result) for result in results)
        ]
        for tensor in kept:
            # Some refuse to be written to, such as expanded ones, whose elements share one place in memory.
            with suppress(RuntimeError), torch.no_grad(), torch.inference_mode(tensor.is_inference()):
                tensor.detach().copy_(_marks(tensor))
        return bool(kept)

    def _is_input(self, tensor: torch.Tensor) -> bool:
        known, writes = self._inputs.get(id(tensor), (None, 0))
        return known is not None and known() is tensor and _writes(tensor) == writes


def floats(result: Any) -> list[torch.Tensor]:
    """Copies on the host of the floating-point tensors a step returned, those of modules left out."""
    return [tensor.detach().to("cpu", copy=True) for tensor in _plain_tensors(result) if tensor.is_floating_point()]


def spoiled(result: Any) -> bool:
    """Whether all floating-point tensors a step returned are what `Hoard.spoil` writes."""
    found = floats(result)
    return bool(found) and all(torch.equal(tensor, _marks(tensor)) for tensor in found)


MARKS = (-3.7, 0.001, float("inf"), float("-inf"), 0.37)
"""Written in turn: there is hardly an operation, even one done in place, that leaves them all as they are."""


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


def _same(tensor: torch.Tensor, result: torch.Tensor) -> bool:
    if tensor.dtype != result.dtype or tensor.shape != result.shape:
        return False
    return torch.equal(tensor.detach().to("cpu"), result)


def _plain_tensors(result: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result that `scribble` can overwrite; those of modules are the state of the next step."""
    if isinstance(result, torch.Tensor):
        if result.layout is torch.strided and result.numel() and result.dtype != torch.bool:
            yield result
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from _plain_tensors(value)
    elif isinstance(result, (list, tuple)):
        for value in result:
            yield from _plain_tensors(value)


def _ink(tensor: torch.Tensor) -> float:
    return float("nan") if tensor.is_floating_point() or tensor.is_complex() else torch.iinfo(tensor.dtype).max


def _scribbled(tensor: torch.Tensor) -> bool:
    ink = _ink(tensor)
    return bool((tensor.isnan() if ink != ink else tensor == ink).all())


def worst_difference(baseline: Outputs, variant: Outputs) -> tuple[float, str]:
    """(largest difference relative to the tensor's largest value, the tensor's path).

    Raises Unequal where names or shapes of the outputs differ, not where only their dtypes do.
    """
    _same_shape(baseline, variant)
    worst, where = 0.0, ""
    for path, expected in baseline.items():
        if not expected.numel() or torch.equal(expected, variant[path]):
            continue
        difference = (_exact(expected) - _exact(variant[path])).abs().max().item()
        relative = difference / max(_exact(expected).abs().max().item(), FLOOR)
        if relative > worst:
            worst, where = relative, path
    return worst, where


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _bits_differ(baseline: Outputs, variant: Outputs) -> str:
    """Path of the first output that differs in a number or in dtype, or an empty word.

    In fp64, as `worst_difference` computes, neighbours among large integers are the same.
    """
    for path, expected in baseline.items():
        if expected.dtype != variant[path].dtype or not torch.equal(expected, variant[path]):
            return path
    return ""


def _stale(outputs: Sequence[Outputs]) -> bool:
    """Whether the outputs are the same for every seed. Their shapes may depend on the seed: then they are not."""
    first, *others = outputs
    return bool(others) and not any(first.keys() != other.keys() or _bits_differ(first, other) for other in others)


def _same_shape(baseline: Outputs, variant: Outputs) -> None:
    if baseline.keys() != variant.keys():
        differing = sorted(baseline.keys() ^ variant.keys())[:3]
        raise Unequal("different results", f"only one side returned {', '.join(differing)}")
    for path, expected in baseline.items():
        if expected.shape != variant[path].shape:
            shapes = f"{tuple(expected.shape)} and {tuple(variant[path].shape)}"
            raise Unequal("different results", f"{path} has shapes {shapes}")


def error(reference: Outputs, outputs: Outputs) -> float:
    """Relative error of all outputs against the fp64 reference: ||x - ref|| / ||ref||."""
    _same_shape(reference, outputs)
    wrong = sum(
        (_exact(reference[path]) - _exact(tensor)).abs().square().sum().item() for path, tensor in outputs.items()
    )
    size = sum(_exact(tensor).abs().square().sum().item() for tensor in reference.values())
    return float((wrong / max(size, FLOOR**2)) ** 0.5)


def _lowest_score(name: str, outputs: Sequence[Outputs], target: float) -> float:
    """The lowest score of one side over all seeds. Raises Unequal where that is below the target."""
    scores = [each["output[score]"] for each in outputs if "output[score]" in each]
    if len(scores) < len(outputs) or any(score.numel() != 1 for score in scores):
        raise Unequal(
            "no output", f'the {name} returned no {{"score": number}}, which a pair with a target is judged by'
        )
    lowest = min(float(score) for score in scores)
    # Compared in the score's own precision: 0.95 in fp32 is a little less than 0.95 here.
    if missed := sum(not bool(score >= target) for score in scores):
        raise Unequal(
            "different results",
            f"the {name} missed the target of {target:g} with {missed} of {len(scores)} seeds: "
            f"its lowest score is {lowest:.4g}",
        )
    return lowest


def compare(
    method: Equal,
    tolerance: float,
    baseline: Sequence[Outputs],
    variant: Sequence[Outputs],
    reference: Sequence[Outputs],
    target: float = inf,
) -> dict[str, Any]:
    """Compare the outputs of both sides, one entry a seed. Raises Unequal; returns `VariantRecord.equal`.

    reference: used by Equal.LOSSY alone. target: used by Equal.TARGET alone, which has no use for `tolerance`.
    """
    for name, outputs in (("baseline", baseline), ("variant", variant)):
        if _stale(outputs):
            raise Unequal("stale results", f"the {name}'s outputs are the same for every seed")
    if method is Equal.TARGET:
        lowest = min(_lowest_score("baseline", baseline, target), _lowest_score("variant", variant, target))
        return {"method": str(method), "target": target, "seeds": len(baseline), "lowest": lowest}
    found: dict[str, Any] = {"method": str(method), "tolerance": tolerance, "seeds": len(baseline)}
    if method is Equal.LOSSY:
        found["baseline_error"] = max(map(error, reference, baseline))
        found["error"] = max(map(error, reference, variant))
        if found["error"] > tolerance:
            raise Unequal("different results", f"error {found['error']:.2g} against fp64; {tolerance:.2g} allowed")
        return found
    found["worst"], where = max(worst_difference(*sides) for sides in zip(baseline, variant, strict=True))
    wanted = f"{tolerance:.2g} allowed"
    if method is Equal.BITWISE:
        where = next(filter(None, map(_bits_differ, baseline, variant)), "")
        wanted = "bitwise equality of values and dtypes is wanted"
    elif found["worst"] <= tolerance:
        where = ""
    if where:
        raise Unequal("different results", f"{where} differs by {found['worst']:.2g} of its largest value; {wanted}")
    return found
