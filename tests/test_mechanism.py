"""The counts are exact on functions whose work is known."""

import contextlib
import json
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tipbench.tip import counts as mechanism

GOLDEN = Path(__file__).parent / "golden"


def gelu(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5 * (1 + torch.erf(x / 1.41421))


X = torch.ones(8, 8)


@pytest.mark.parametrize(
    ("step", "count"),
    [
        (lambda: gelu(X), 5),
        (lambda: X.view(64), 0),
        (lambda: torch.empty(3), 0),
        (lambda: X.t().contiguous(), 1),  # the copy inside it
        (lambda: X.contiguous(), 0),  # already is
        (lambda: X.to(torch.float64), 1),
        (lambda: nn.functional.linear(X, X, X[0]), 1),  # addmm, and views inside
        (lambda: [X + X for _ in range(7)], 7),
    ],
)
def test_operations(step: Callable[[], Any], count: int) -> None:
    assert mechanism.operations(step) == count


def test_operations_include_the_backward_pass() -> None:
    x = X.clone().requires_grad_()
    # forward: multiply, sum; backward: the starting gradient, multiply. Expanding it is a view.
    assert mechanism.operations(lambda: torch.autograd.grad((x * 2).sum(), x)) == 4


def test_a_compiled_graph_is_one_operation() -> None:
    compiled = torch.compile(lambda x: gelu(gelu(x)) @ x)
    assert mechanism.operations(lambda: compiled(X)) == 1
    assert mechanism.operations(lambda: compiled(X) + 1) == 2


def test_autograd_nodes() -> None:
    x = X.clone().requires_grad_()
    assert mechanism.autograd_nodes(X) == 0
    assert mechanism.autograd_nodes(x * 2) == 2  # the product, and where x's gradient is added up
    assert mechanism.autograd_nodes((x * 2, x * 3)) == 3  # x's is shared
    with torch.no_grad():
        assert mechanism.autograd_nodes(x * 2) == 0


def test_stack_traces() -> None:
    layer = nn.Linear(8, 8)
    assert mechanism.stack_traces(lambda: layer(X)) == 0
    with torch.autograd.set_detect_anomaly(True):
        assert mechanism.stack_traces(lambda: layer(X)) == 4  # addmm, weight transposed, weight, bias


def test_saved_bytes() -> None:
    x = X.clone().requires_grad_()
    tensor = X.nbytes
    assert mechanism.saved_bytes(lambda: x + 1) == 0
    assert mechanism.saved_bytes(lambda: x.sin()) == tensor
    assert mechanism.saved_bytes(lambda: x.sin() * x.sin()) == 3 * tensor  # x once, and both factors
    with torch.no_grad():
        assert mechanism.saved_bytes(lambda: x.sin()) == 0


def test_saved_bytes_of_a_checkpoint_are_its_input() -> None:
    x = X.clone().requires_grad_()

    def step() -> None:
        checkpoint(lambda x: x.sin().sin().sin(), x, use_reentrant=False).sum().backward()

    assert mechanism.saved_bytes(step) == X.nbytes


def test_not_channels_last() -> None:
    images = torch.randn(2, 3, 8, 8)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())
    assert mechanism.not_channels_last(lambda: model(images)) == 2
    model.to(memory_format=torch.channels_last)
    assert mechanism.not_channels_last(lambda: model(images.to(memory_format=torch.channels_last))) == 0
    model.insert(1, nn.Unflatten(1, (4, 1)))
    model.insert(2, nn.Flatten(1, 2))
    assert mechanism.not_channels_last(lambda: model(images.to(memory_format=torch.channels_last)).contiguous()) == 0


def test_a_hook_is_gone_after_a_step_that_raises() -> None:
    def fail() -> None:
        raise ValueError("this step fails")

    for count in (mechanism.not_channels_last, mechanism.stack_traces, mechanism.saved_bytes, mechanism.operations):
        with pytest.raises(ValueError, match="this step fails"):
            count(fail)
    assert not nn.modules.module._global_forward_hooks
    assert mechanism.operations(lambda: gelu(X)) == 5


# ---- on a GPU: the names that its profiler gives, as they stand in public traces ----


def seen(
    monkeypatch: pytest.MonkeyPatch, done: Sequence[str] = (), calls: Sequence[str] = (), shown: Sequence[str] = ()
) -> None:
    """A profiler that has seen these calls on the host and this work on the GPU. shown: named regions, shown there."""

    def event(name: str, device: str, named: bool = False) -> SimpleNamespace:
        return SimpleNamespace(name=name, device_type=SimpleNamespace(name=device), is_user_annotation=named)

    events = [event(name, "CPU") for name in calls] + [event(name, "CUDA") for name in done]
    events += [event(name, "CUDA", named=True) for name in shown]
    watched = contextlib.nullcontext(SimpleNamespace(events=lambda: events))
    monkeypatch.setattr(mechanism, "profile", lambda activities: watched)
    monkeypatch.setattr(mechanism, "_gpu_is_visible", lambda: bool(events))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ampere_sgemm_128x64_nn", False),
        ("ampere_s1688gemm_128x128_ldg8_relu_f2f_tn", True),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4", False),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k", True),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_tensor16x8x8", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(cutlass_80_simt_sgemm_128x64)", False),
        ("nvjet_tst_192x192_64x3_2x1_v_bz_coopA_TNT", True),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", False),
    ],
)
def test_kernels_on_tensor_cores_are_known_by_name(monkeypatch: pytest.MonkeyPatch, name: str, found: bool) -> None:
    seen(monkeypatch, done=[name], calls=["aten::mm", "cudaLaunchKernel"])
    assert mechanism.tensor_core_kernels(lambda: None) == found


def test_a_step_s_first_kernels_are_counted_in_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, done=["implicit_gemm", "winograd", "implicit_gemm", "Memset (Device)", "Memcpy DtoD"])
    ran_in: list[int] = []
    assert mechanism.first_kernels(lambda: ran_in.append(threading.get_ident())) == 3
    assert len(ran_in) == 1
    assert ran_in != [threading.get_ident()]


@pytest.mark.parametrize(
    "count", [mechanism.launches, mechanism.tensor_core_kernels, mechanism.first_kernels, mechanism.copies_to_device]
)
def test_where_the_profiler_is_blind_nothing_is_counted(
    monkeypatch: pytest.MonkeyPatch, count: Callable[[Callable[[], None]], object]
) -> None:
    """Without CUPTI the profiler runs and shows the host alone: a count of 0 would say "not engaged"."""
    seen(monkeypatch)
    with pytest.raises(mechanism.Unseen, match="CUPTI is missing or not permitted"):
        count(lambda: None)


@pytest.mark.parametrize("done", [[], ["void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>"]])
def test_whether_the_profiler_is_blind_is_tried_with_a_kernel(monkeypatch: pytest.MonkeyPatch, done: list[str]) -> None:
    whether = mechanism._gpu_is_visible.__wrapped__
    seen(monkeypatch, done=done, calls=["aten::fill_"])
    launched: list[str] = []
    monkeypatch.setattr(torch, "ones", lambda count, device: launched.append(device))
    assert whether() == bool(done)
    assert launched == ["cuda"]


class SyncDebugMode:
    """As `torch.cuda.set_sync_debug_mode` behaves: its first call warns after it has set the mode."""

    def __init__(self) -> None:
        self.mode = "default"
        self.warned = False

    def set(self, mode: str) -> None:
        self.mode = mode
        if not self.warned:
            self.warned = True
            warnings.warn("Synchronization debug mode is a prototype feature and does not yet detect all", stacklevel=2)

    def wait(self) -> None:
        if self.mode == "warn":
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)


@pytest.fixture
def debugged(monkeypatch: pytest.MonkeyPatch) -> SyncDebugMode:
    debug = SyncDebugMode()
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", debug.set)
    return debug


def test_waits_are_counted_though_warnings_are_errors(debugged: SyncDebugMode) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mechanism.synchronisations(debugged.wait) == 1
        assert mechanism.synchronisations(lambda: None) == 0
    assert debugged.mode == "default"


def replayed(trace: str) -> tuple[list[str], list[str], list[str]]:
    """Names of a profiler's trace, as Kineto exports one: done on the GPU, called on the host, regions shown."""
    by_kind: dict[str, list[str]] = {}
    for event in json.loads((GOLDEN / trace).read_text())["traceEvents"]:
        by_kind.setdefault(event["cat"], []).append(event["name"])
    done = [*by_kind["kernel"], *by_kind["gpu_memcpy"], *by_kind["gpu_memset"]]
    calls = [name for kind in ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver") for name in by_kind[kind]]
    return done, calls, by_kind["gpu_user_annotation"]


def test_a_stored_trace_of_a_training_step_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by hand in Kineto's format, with names as they stand in public traces: no card was there to record it."""
    seen(monkeypatch, *replayed("gpu-step.json"))
    nothing = lambda: None  # noqa: E731
    assert mechanism.launches(nothing) == {"launches": 6, "compiled": 2}  # two graphs, and four kernels by themselves
    assert mechanism.tensor_core_kernels(nothing) == 2
    assert mechanism.copies_to_device(nothing) == {"pageable": 2, "pinned": 0}
    assert mechanism.first_kernels(nothing) == 10


def test_kernels_that_multiply_nothing_are_no_products_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of oneDNN 3.13 on a Xeon with AMX: a float32 GELU, a float32 convolution, a product in bfloat16."""
    kernels = (b"eltwise,jit:avx10_1_512_amx", b"convolution,jit:avx512_core", b"matmul,brg_matmul:avx10_1_512_amx")
    monkeypatch.setattr(mechanism, "_onednn_log", lambda step: [b"primitive,exec,cpu," + each for each in kernels])
    assert mechanism.bfloat16_kernels(lambda: None) == 1
