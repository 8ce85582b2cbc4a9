"""The switches of a process, which all variants in it run with.

A variant that leaves one changed has changed the other side too, and then the comparison shows nothing. So the switches
are read and compared after a pair's file is imported, after every build and after every block, outside the clock, which
takes some 80 µs. This finds what was left changed by mistake.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any, cast

import torch

VARIABLES = (
    *("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT"),
    *("KMP_AFFINITY", "KMP_BLOCKTIME", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ONEDNN_DEFAULT_FPMATH_MODE"),
    *("LD_PRELOAD", "MALLOC_CONF", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "PYTORCH_ALLOC_CONF"),
    *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE"),
    *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"),
)
"""Environment variables that change what a step costs. No others are compared, as libraries set some of their own at
import (scikit-learn KMP_DUPLICATE_LIB_OK, torch CUDA_MODULE_LOADING, inductor its cache folders)."""

BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""With any of these set, OpenMP itself binds the thread to a core at its first parallel operation."""

SMALLEST = sys.float_info.min
"""The smallest normal number. Half of it is 0 where denormal numbers are flushed."""


def _unless_bound(reader: Callable[[], Any]) -> Any:
    """The reading, "unknown" where OpenMP binds threads: it then changes by itself, as does torch's default number of
    inter-op threads."""
    return "unknown" if any(name in os.environ for name in BINDING) else reader()


def _precision(*path: str) -> Any:
    """`torch.backends.PATH.fp32_precision`, which both the old and the new way of allowing TF32 set.

    Reading the old names (`allow_tf32`, `get_float32_matmul_precision`) warns, and raises where a program
    has used the new ones.
    """
    return reduce(getattr, path, cast(Any, torch.backends)).fp32_precision


def _flag(name: str) -> Any:
    """The value that a getter of `torch._C` returns. Some public properties warn or look for GPUs, and some flags have
    none."""
    return getattr(torch._C, name)()


_FLAGS = {
    "cuda.matmul.allow_fp16_reduced_precision_reduction": "_get_cublas_allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction": "_get_cublas_allow_bf16_reduced_precision_reduction",
    "cuda.matmul.allow_fp16_accumulation": "_get_cublas_allow_fp16_accumulation",
    "cuda.flash_sdp_enabled()": "_get_flash_sdp_enabled",
    "cuda.mem_efficient_sdp_enabled()": "_get_mem_efficient_sdp_enabled",
    "cuda.math_sdp_enabled()": "_get_math_sdp_enabled",
    "cuda.cudnn_sdp_enabled()": "_get_cudnn_sdp_enabled",
    "cudnn.enabled": "_get_cudnn_enabled",
    "cudnn.benchmark": "_get_cudnn_benchmark",
    "cudnn.deterministic": "_get_cudnn_deterministic",
    "mkldnn.enabled": "_get_mkldnn_enabled",
    "mkldnn.deterministic": "_get_mkldnn_deterministic",
}
"""Public name within torch.backends -> getter of `torch._C` for `_flag`."""

PRECISIONS = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")

SWITCHES: dict[str, Callable[[], Any]] = {
    "torch.get_default_dtype()": torch.get_default_dtype,
    "torch.get_default_device()": torch.get_default_device,
    **{f"torch.backends.{name}.fp32_precision": partial(_precision, *name.split(".")) for name in PRECISIONS},
    **{f"torch.backends.{name}": partial(_flag, getter) for name, getter in _FLAGS.items()},
    "torch.get_num_threads()": torch.get_num_threads,
    "torch.get_num_interop_threads()": partial(_unless_bound, torch.get_num_interop_threads),
    "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled,
    "torch.is_deterministic_algorithms_warn_only_enabled()": torch.is_deterministic_algorithms_warn_only_enabled,
    "torch.is_grad_enabled()": torch.is_grad_enabled,
    "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled,
    "torch.is_autocast_enabled('cpu')": partial(torch.is_autocast_enabled, "cpu"),
    "torch.is_autocast_enabled('cuda')": partial(torch.is_autocast_enabled, "cuda"),
    "torch.is_anomaly_enabled()": torch.is_anomaly_enabled,
    "a profiler is watching": torch._C._autograd._profiler_enabled,
    "denormal numbers are flushed (torch.set_flush_denormal)": lambda: SMALLEST / 2 == 0.0,
    "gc.isenabled()": gc.isenabled,
    "gc.get_threshold()": gc.get_threshold,
    "sys.getswitchinterval()": sys.getswitchinterval,
    "os.sched_getaffinity(0)": partial(_unless_bound, lambda: sorted(os.sched_getaffinity(0))),
    "os.getpriority()": partial(os.getpriority, os.PRIO_PROCESS, 0),
    **{f"os.environ[{name!r}]": partial(os.environ.get, name) for name in VARIABLES},
}
"""Public name of a switch -> function that reads it. None of them touches a GPU or computes anything."""

CACHED = "torch.backends.cudnn.benchmark"
"""A switch that affects the entries of a process-wide cache, but not their keys. The key of cuDNN's plan cache is a
convolution's shapes, types and precision: whichever side comes first fills it, and the other side runs with the same
plans."""


@contextmanager
def changes_of_cached() -> Iterator[set[str]]:
    """Collect the name of CACHED if its value is changed meanwhile, by its property or by `flags(...)`."""
    changed: set[str] = set()
    put = torch._C._set_cudnn_benchmark

    def noted(value: bool) -> None:
        if value != torch._C._get_cudnn_benchmark():
            changed.add(CACHED)
        put(value)

    # The property has bound the setter; `flags` looks it up in torch._C at each call.
    places = (vars(type(torch.backends.cudnn))["benchmark"], "setter"), (torch._C, "_set_cudnn_benchmark")
    for place, attribute in places:
        setattr(place, attribute, noted)
    try:
        yield changed
    finally:
        for place, attribute in places:
            setattr(place, attribute, put)


def read() -> dict[str, Any]:
    """The value of every switch now; "unknown" for one that torch cannot read, in this version or present state."""
    return {name: _value(reader) for name, reader in SWITCHES.items()}


def _value(reader: Callable[[], Any]) -> Any:
    try:
        return reader()
    except (AttributeError, RuntimeError):
        return "unknown"


def describe_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What differs, such as "torch.get_num_threads(): 2 -> 1"; empty where nothing does.

    A switch that could not be read, before or after, is no difference.
    """
    return "; ".join(
        f"{name}: {value} -> {after[name]}"
        for name, value in before.items()
        if "unknown" not in (value, after[name]) and value != after[name]
    )
