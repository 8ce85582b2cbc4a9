"""The process settings every worker gets, the same for both sides, and recorded with the run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from tipbench.machine import native
from tipbench.tip.process import ProcessSettings

SIXTEEN_GIB = str(1 << 34)
"""Above any tensor in the suite."""

HEAP = {"MALLOC_TRIM_THRESHOLD_": SIXTEEN_GIB, "MALLOC_MMAP_MAX_": "0"}
"""With both, every glibc keeps its heap: see "glibc keeps its heap" in harness/decisions.md."""

HEAP_BEFORE = {"MALLOC_TRIM_THRESHOLD_": SIXTEEN_GIB, "MALLOC_MMAP_THRESHOLD_": SIXTEEN_GIB}
"""In runs until 2026-11-27. It does the same, but up to glibc 2.34, which refuses the second."""

HEAP_UNCONTROLLED = (
    f"{' and '.join(HEAP)} take no effect here and are not set, as another allocator, another C library or "
    "GLIBC_TUNABLES wins: a process may map its large temporaries anew at each step"
)

FOREIGN = (
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "MALLOC_",
    "THP_MEM_ALLOC_ENABLE",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "TORCH",
    "PYTORCH_",
    "PYTHONHASHSEED",
    # of GPUs, NVIDIA's first; CUDA_VISIBLE_DEVICES and CUDA_HOME say where things are, and pass
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_PTX_JIT",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS",
    "CUDNN_",
    "NCCL_",
    "TRITON_",
    "HIP_LAUNCH_BLOCKING",
    "AMD_SERIALIZE_",
    "HIPBLAS",
    "ROCBLAS_",
    "MIOPEN_",
)
"""Variables with these prefixes change what is measured, so a person's shell must not set them unnoticed."""

NEEDED = ("TORCHINDUCTOR_CXX", "TORCH_HOME", "TRITON_PTXAS_PATH", "TRITON_LIBCUDA_PATH", "TRITON_HOME")
"""Variables with these prefixes that compilers and libraries need to work at all."""

PLAIN = re.compile(r"[\w.,:-]{1,40}")

SECRET = ("TIPBENCH_TOKEN", "TIPBENCH_USER")
"""Variables for a wiki, which no process that runs somebody's code needs."""

NETWORK = (
    *("NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"),
)
"""What NCCL may need to work at all, and what changes its speed: passed on, and recorded with the run."""


def controls(threads: int, heap: bool = True) -> dict[str, str]:
    """What is set for every worker; `threads` is torch's own default here, made explicit. With the caller's NETWORK.
    heap: whether HEAP takes effect here; what does not is not set."""
    network = {name: os.environ[name] for name in NETWORK if name in os.environ}
    return {**(HEAP if heap else {}), "OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": "0", **network}


def controls_heap(controlled: Mapping[str, str], libc: str) -> bool:
    """Whether glibc kept its heap in a run with these controls. libc: such as `glibc 2.36`."""
    refused = re.match(r"glibc 2\.([0-9]|[12][0-9]|3[0-4])(?![0-9])", libc)
    return HEAP.items() <= controlled.items() or (HEAP_BEFORE.items() <= controlled.items() and not refused)


def read_by_torch() -> dict[str, str]:
    """The foreign ones of this process's variables, as far as their values are plain words, which are set for others,
    and shown."""
    return {name: value for name, value in os.environ.items() if is_foreign(name) and PLAIN.fullmatch(value)}


def foreign_variables() -> dict[str, str]:
    """The foreign ones of the caller's variables: a part of the job where that is a person's own."""
    return {name: value for name, value in callers().items() if is_foreign(name)}


def environment(controlled: Mapping[str, str], settings: ProcessSettings) -> dict[str, str]:
    """The variables a worker starts with: the caller's without the foreign ones, controls, its own.

    With no controls (`--bare`) the caller's variables are left alone. Ranks share the machine's threads:
    all of them for each rank would measure how they wait for one another.
    """
    env = clean_environment() if controlled else callers()
    env.update((name, value) for name, value in controlled.items() if name not in settings.without)
    if settings.ranks > 1 and "OMP_NUM_THREADS" in controlled and "OMP_NUM_THREADS" not in settings.without:
        env["OMP_NUM_THREADS"] = str(max(1, int(controlled["OMP_NUM_THREADS"]) // settings.ranks))
    env.update(settings.env)
    return env | preloading([str(native.find(name) or name) for name in settings.preload], env)


def preloading(libraries: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    """LD_PRELOAD with these libraries before those that `env` has there; {} without either."""
    joined = ":".join(filter(None, [*libraries, env.get("LD_PRELOAD")]))
    return {"LD_PRELOAD": joined} if joined else {}


def is_foreign(name: str) -> bool:
    return name not in NEEDED and name.startswith(FOREIGN)


def clean_environment() -> dict[str, str]:
    """The caller's variables without the foreign ones: torch then shows its own defaults."""
    return {name: value for name, value in callers().items() if not is_foreign(name)}


def callers() -> dict[str, str]:
    """The caller's variables but for SECRET, and unbuffered output, so that what a dying process printed last is not
    lost, nor pushed out by what torch's profiler says where there is no GPU."""
    own = {"PYTHONUNBUFFERED": "1", "KINETO_LOG_LEVEL": "6"}
    return {name: value for name, value in os.environ.items() if name not in SECRET} | own
