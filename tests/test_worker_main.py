"""What a worker answers where a step raises; whole workers are in test_bad_luck.py and test_fork_server.py."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.worker_main import Failed, Session


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total"), "out of memory"),
        (RuntimeError("CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`"), "out of memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "out of memory"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "out of memory"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:116] DefaultCPUAllocator: can't allocate memory"),
            "out of memory",
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"), "step raised"),
    ],
)
def test_a_step_for_which_memory_does_not_suffice_is_called_so(error: Exception, kind: str) -> None:
    def step() -> None:
        raise error

    session: Any = SimpleNamespace(check_output=lambda doing: None, file=Path("pair.py"))
    with pytest.raises(Failed) as failed:
        Session._explained(session, "step raised", "optimized, step 1", step)
    assert failed.value.kind == kind
    assert failed.value.reason.startswith(f"optimized, step 1: {type(error).__name__}: ")
