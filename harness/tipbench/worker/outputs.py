"""Whether two sides did the same work: their outputs on fresh random inputs, over several seeds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from tipbench.tip.pair import BY_REFERENCE, Equal
from tipbench.worker.failed import Failed

Outputs = dict[str, torch.Tensor]


def exact(method: Equal, device: torch.device) -> AbstractContextManager[None]:
    """On a GPU, run float32 convolutions and recurrent layers in IEEE arithmetic, with deterministic algorithms.

    By default cuDNN rounds their inputs to the 10 bits of TF32. Two kernels for the same work then differ by more than
    `Pair.tolerance`, so a check would judge rounding instead of work. Equal.LOSSY keeps the precision that is timed,
    since the report states its error. On a CPU nothing changes.
    """
    if device.type != "cuda" or method is Equal.LOSSY:
        return nullcontext()
    # The old name: torch.compile reads it, and that raises where only the new ones (`conv.fp32_precision`) are set.
    cudnn = torch.backends.cudnn
    return cudnn.flags(enabled=cudnn.enabled, benchmark=cudnn.benchmark, deterministic=True, allow_tf32=False)


def drawing_alike() -> AbstractContextManager[Any]:
    """Let code that torch.compile compiles draw the same random numbers, such as for dropout, as uncompiled code. By
    default it has its own generator, and a check would judge that."""
    config = sys.modules.get("torch._inductor.config")
    return nullcontext() if config is None else config.patch(fallback_random=True)


FLOOR = 1e-6
"""Differences are relative to the tensor's largest value, or to FLOOR where all its values are smaller: the gradient of
a bias before batch normalisation, for example, is rounding noise on both sides."""


class Unequal(Failed):
    """The two sides cannot be compared as equal work."""

    def of(self, where: str) -> Failed:
        """The same failure, with the variant or step where it occurred."""
        return Failed(self.why.code, self.why.detail, where=where, **self.why.fields)


def flatten(result: Any, path: str = "output") -> Iterator[tuple[str, torch.Tensor]]:
    """(path, tensor) of each tensor that a step returned; a module yields its parameters, their gradients and its
    buffers.

    Raises Unequal for None and for anything without numbers.
    """
    if isinstance(result, torch.Tensor):
        yield path, _dense(result)
    elif isinstance(result, (bool, int, float)):
        yield path, torch.tensor(result, dtype=torch.float64)
    elif isinstance(result, nn.Module):
        for name, parameter in result.named_parameters():
            yield f"{path}.{name}", parameter
            if parameter.grad is not None:
                yield f"{path}.{name}.grad", _dense(parameter.grad)
        for name, buffer in result.named_buffers():
            yield f"{path}.{name}", buffer
    elif isinstance(result, Mapping):
        for name, value in result.items():
            yield from flatten(value, f"{path}[{name}]")
    elif isinstance(result, Sequence) and not isinstance(result, (str, bytes)):
        for index, value in enumerate(result):
            yield from flatten(value, f"{path}[{index}]")
    elif result is None:
        raise Unequal("no-output", f"None for {path}; return what it computed")
    else:
        raise Unequal("no-output", f"a {type(result).__name__} for {path}; return tensors or modules")


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with all of its zeros: for sparse ones most operations are missing."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def snapshot(result: Any, most: int | None = None) -> Outputs:
    """Copies on the host. Raises Unequal where outputs are missing, not finite, or all zeros.

    most: approximate limit of the numbers that are copied, at regular distances in each output; None: no limit.
    """
    tensors = {path: tensor.detach() for path, tensor in flatten(result)}
    # An odd distance reaches all columns of a matrix whose width is a power of two.
    every = 1 if most is None else sum(tensor.numel() for tensor in tensors.values()) // most | 1
    if every > 1:
        tensors = {path: tensor.reshape(-1)[::every] for path, tensor in tensors.items()}
    outputs = {path: tensor.to("cpu", copy=True).contiguous() for path, tensor in tensors.items()}
    if not any(tensor.numel() for tensor in outputs.values()):
        raise Unequal("no-output", "no numbers; return what it computed")
    for path, tensor in outputs.items():
        if (tensor.is_floating_point() or tensor.is_complex()) and not torch.isfinite(tensor).all():
            raise Unequal("not-finite", path)
    if not any(torch.count_nonzero(tensor) for tensor in outputs.values()):
        raise Unequal("all-zeros")
    return outputs


def worst_difference(baseline: Outputs, variant: Outputs) -> tuple[float, str]:
    """(largest difference relative to the tensor's largest value, the tensor's path).

    Raises Unequal where names or shapes of the outputs differ; different dtypes are allowed.
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
    """Path of the first output that differs in a number or in its dtype; empty where none does.

    Not from `worst_difference`, which computes in fp64, where neighbouring large integers are equal.
    """
    for path, expected in baseline.items():
        if expected.dtype != variant[path].dtype or not torch.equal(expected, variant[path]):
            return path
    return ""


def all_alike(outputs: Sequence[Outputs]) -> bool:
    """Whether there are outputs of several seeds or steps, and all of them have the same bits, dtypes and shapes."""
    first, *later = outputs
    return bool(later) and not any(first.keys() != item.keys() or _bits_differ(first, item) for item in later)


def _same_shape(baseline: Outputs, variant: Outputs) -> None:
    if baseline.keys() != variant.keys():
        differing = sorted(baseline.keys() ^ variant.keys())[:3]
        raise Unequal("different-results.names", ", ".join(differing))
    for path, expected in baseline.items():
        if expected.shape != variant[path].shape:
            shapes = f"{tuple(expected.shape)} and {tuple(variant[path].shape)}"
            raise Unequal("different-results.shapes", f"{path} has shapes {shapes}")


def error(reference: Outputs, outputs: Outputs) -> float:
    """Relative error of all outputs against the fp64 reference: ||x - ref|| / ||ref||."""
    _same_shape(reference, outputs)
    wrong = sum(
        (_exact(reference[path]) - _exact(tensor)).abs().square().sum().item() for path, tensor in outputs.items()
    )
    size = sum(_exact(tensor).abs().square().sum().item() for tensor in reference.values())
    return float((wrong / max(size, FLOOR**2)) ** 0.5)


TIMES_THE_BASELINES = 3.0
"""Factor of the baseline's error that Equal.AS_CLOSE allows, the largest that `torch._dynamo.utils.same` allows."""


def _as_close(
    tolerance: float, baseline: Sequence[Outputs], variant: Sequence[Outputs], reference: Sequence[Outputs]
) -> dict[str, float]:
    """The errors of both sides, for the kind of output whose error is largest relative to what is allowed. Raises
    Unequal.

    Results, gradients and parameters are judged separately, because one step changes parameters by far less than
    their size.
    """
    worst: dict[str, float] = {"baseline_error": 0.0, "error": 0.0, "tolerance": tolerance}
    for exact, before, after in zip(reference, baseline, variant, strict=True):
        _same_shape(exact, before)
        for paths in kinds(exact):
            part = {path: exact[path] for path in paths}
            baseline_error = error(part, {path: before[path] for path in paths})
            variant_error = error(part, {path: after[path] for path in paths})
            allowed = TIMES_THE_BASELINES * baseline_error + tolerance
            if variant_error > allowed:
                raise Unequal("different-results.error", error=variant_error, allowed=allowed)
            if variant_error * worst["tolerance"] >= worst["error"] * allowed:
                worst = {"baseline_error": baseline_error, "error": variant_error, "tolerance": allowed}
    return worst


def kinds(outputs: Outputs) -> list[list[str]]:
    """The paths of the outputs in up to three groups: returned tensors, modules' gradients, parameters with buffers."""
    gradients = [path for path in outputs if path.endswith(".grad")]
    of_modules = [path for path in outputs if "." in path and path not in gradients]
    returned = [path for path in outputs if "." not in path]
    return [paths for paths in (returned, gradients, of_modules) if paths]


def compare(
    method: Equal,
    tolerance: float,
    baseline: Sequence[Outputs],
    variant: Sequence[Outputs],
    reference: Sequence[Outputs],
    seeded: bool = True,
) -> dict[str, Any]:
    """`VariantRecord.equal`, from comparing the outputs of both sides, one item for each seed. Raises Unequal.

    tolerance: not used with Equal.TARGET. reference: used only with the methods `BY_REFERENCE`. seeded: `Pair.seeded`.
    """
    for name, outputs in (("baseline", baseline), ("variant", variant)):
        if seeded and all_alike(outputs):
            raise Unequal("stale-results.seeds", side=name)
    if method is Equal.TARGET:
        for sides in zip(baseline, variant, strict=True):
            _same_shape(*sides)
        return {"method": str(method), "seeds": len(baseline)}
    equal: dict[str, Any] = {"method": str(method), "tolerance": tolerance, "seeds": len(baseline)}
    if method is Equal.AS_CLOSE:
        return equal | _as_close(tolerance, baseline, variant, reference)
    if method in BY_REFERENCE:
        equal["baseline_error"] = max(map(error, reference, baseline))
        equal["error"] = max(map(error, reference, variant))
        if equal["error"] > tolerance:
            raise Unequal("different-results.error", error=equal["error"], allowed=tolerance)
        returned = [path for path in baseline[0] if "." not in path]
        if returned:  # of a training the loss, beside gradients and parameters
            parts = [{path: each[path] for path in returned} for each in (*reference, *variant)]
            equal["returned_error"] = max(map(error, parts[: len(reference)], parts[len(reference) :]))
        return equal
    equal["worst"], path = max(worst_difference(*sides) for sides in zip(baseline, variant, strict=True))
    if method is Equal.BITWISE:
        if path := next(filter(None, map(_bits_differ, baseline, variant)), ""):
            raise Unequal("different-results.bits", path, difference=equal["worst"])
    elif not equal["worst"] <= tolerance and path:
        raise Unequal("different-results.values", path, difference=equal["worst"], allowed=tolerance)
    return equal
