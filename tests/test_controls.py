"""What a worker's environment holds, whatever the person's shell holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tipbench.advise.surveyed import environment_of
from tipbench.given.survey import WayHere
from tipbench.machine import native
from tipbench.machine.controls import HEAP, controls, environment
from tipbench.tip.process import ProcessSettings


def test_threads_hash_seed_and_glibcs_heap_are_fixed_unless_it_cannot_be() -> None:
    fixed = controls(3)
    assert (fixed["OMP_NUM_THREADS"], fixed["PYTHONHASHSEED"]) == ("3", "0")
    assert {name: setting for name, setting in fixed.items() if name not in controls(3, heap=False)} == HEAP


@pytest.mark.parametrize(
    "name", ["OMP_NUM_THREADS", "KMP_AFFINITY", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX", "LD_PRELOAD", "TORCH_LOGS",
             "THP_MEM_ALLOC_ENABLE", "TORCHINDUCTOR_MAX_AUTOTUNE", "PYTORCH_ALLOC_CONF", "GLIBC_TUNABLES",
             "PYTHONHASHSEED",
             "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG",
             "CUBLASLT_LOG_LEVEL", "CUDNN_LOGLEVEL_DBG", "NCCL_DEBUG", "NCCL_ALGO", "TRITON_INTERPRET",
             "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "HIP_LAUNCH_BLOCKING", "MIOPEN_FIND_MODE"],
)  # fmt: skip
def test_a_persons_own_switches_do_not_reach_the_worker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "mine")
    assert environment(controls(2), ProcessSettings()).get(name) != "mine"
    assert environment({}, ProcessSettings())[name] == "mine", "--bare leaves it alone"


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "TORCH_HOME", "TORCHINDUCTOR_CXX", "CUDA_VISIBLE_DEVICES", "CUDA_HOME",
             "TRITON_PTXAS_PATH", "HF_HOME", "PYTHONPATH"],
)  # fmt: skip
def test_what_a_worker_needs_to_find_things_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "mine")
    assert environment(controls(2), ProcessSettings())[name] == "mine"


def test_where_the_network_is_reaches_the_worker_and_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it NCCL may not start at all; with another value the same machine is faster or slower."""
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth1")
    assert controls(2)["NCCL_SOCKET_IFNAME"] == "eth1"
    assert environment(controls(2), ProcessSettings())["NCCL_SOCKET_IFNAME"] == "eth1"
    monkeypatch.delenv("NCCL_SOCKET_IFNAME")
    assert not any(name.startswith("NCCL_") for name in controls(2))


def test_a_variants_own_variables_come_last_and_it_can_go_without_a_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    before = dict(os.environ)
    own = ProcessSettings(env=(("OMP_NUM_THREADS", "1"),))
    assert environment(controls(2), own)["OMP_NUM_THREADS"] == environment({}, own)["OMP_NUM_THREADS"] == "1"
    without = environment(controls(2), ProcessSettings(without=("OMP_NUM_THREADS",)))
    assert ("OMP_NUM_THREADS" in without, without["PYTHONHASHSEED"]) == (False, "0")
    assert dict(os.environ) == before


def test_libraries_are_preloaded_by_the_path_they_are_found_under(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find", {"jemalloc": Path("/cache/libjemalloc.so.2")}.get)
    env = environment(controls(2), ProcessSettings(preload=("jemalloc", "/own/lib.so")))
    assert env["LD_PRELOAD"] == "/cache/libjemalloc.so.2:/own/lib.so"


@pytest.mark.parametrize("controlled", [{}, {"OMP_NUM_THREADS": "2", "LD_PRELOAD": "/shell/a.so /shell/b.so"}])
def test_a_shells_libraries_stay_behind_a_variants(controlled: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--bare`, and where the shell's variables are a part of the job."""
    monkeypatch.setenv("LD_PRELOAD", "/shell/a.so /shell/b.so")
    env = environment(controlled, ProcessSettings(preload=("/own/lib.so",)))
    assert env["LD_PRELOAD"] == "/own/lib.so:/shell/a.so /shell/b.so"
    assert environment(controlled, ProcessSettings())["LD_PRELOAD"] == "/shell/a.so /shell/b.so"
    ways = [WayHere("x", "x", "X", "x", preload=["/own/lib.so"])]
    assert environment_of(ways, env | {"LD_PRELOAD": "/a.so"})["LD_PRELOAD"] == "/own/lib.so:/a.so"


@pytest.mark.parametrize(("cores", "own", "each"), [(5, (), "2"), (1, (), "1"), (4, (("OMP_NUM_THREADS", "4"),), "4")])
def test_ranks_share_threads_unless_they_set_their_own(cores: int, own: tuple[tuple[str, str], ...], each: str) -> None:
    assert environment(controls(cores), ProcessSettings(ranks=2, env=own))["OMP_NUM_THREADS"] == each
    want_none = ProcessSettings(ranks=2, without=("OMP_NUM_THREADS",))
    assert "OMP_NUM_THREADS" not in environment(controls(cores), want_none)
