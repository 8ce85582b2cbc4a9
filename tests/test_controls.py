"""What a worker's environment holds, whatever the person's shell holds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness import native
from harness.controls import controls, environment
from harness.launch import Surroundings

linux = pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these thresholds; remedy: run on Linux")


@linux
def test_both_of_glibcs_thresholds_are_raised_or_none() -> None:
    set_here = [name for name in controls(2) if name.startswith("MALLOC_")]
    assert set_here == ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"]


def test_threads_and_hash_seed_are_fixed() -> None:
    found = controls(3)
    assert (found["OMP_NUM_THREADS"], found["PYTHONHASHSEED"]) == ("3", "0")


@pytest.mark.parametrize(
    "name", ["OMP_NUM_THREADS", "KMP_AFFINITY", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX", "LD_PRELOAD", "TORCH_LOGS",
             "TORCHINDUCTOR_MAX_AUTOTUNE", "PYTORCH_ALLOC_CONF", "GLIBC_TUNABLES", "PYTHONHASHSEED"],
)  # fmt: skip
def test_a_persons_own_switches_do_not_reach_the_worker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "mine")
    assert environment(controls(2), Surroundings()).get(name) != "mine"
    assert environment({}, Surroundings())[name] == "mine", "--bare leaves it alone"


@pytest.mark.parametrize("name", ["PATH", "HOME", "TORCH_HOME", "TORCHINDUCTOR_CXX", "CUDA_VISIBLE_DEVICES", "HF_HOME"])
def test_what_a_worker_needs_to_find_things_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "mine")
    assert environment(controls(2), Surroundings())[name] == "mine"


def test_a_variant_can_go_without_a_control() -> None:
    env = environment(controls(2), Surroundings(without=("OMP_NUM_THREADS",)))
    assert "OMP_NUM_THREADS" not in env
    assert env["PYTHONHASHSEED"] == "0"


def test_a_variants_own_variables_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert environment(controls(2), Surroundings(env=(("OMP_NUM_THREADS", "1"),)))["OMP_NUM_THREADS"] == "1"
    assert environment({}, Surroundings(env=(("OMP_NUM_THREADS", "1"),)))["OMP_NUM_THREADS"] == "1"


def test_libraries_are_preloaded_by_the_path_they_are_found_under(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find", {"jemalloc": Path("/cache/libjemalloc.so.2")}.get)
    env = environment(controls(2), Surroundings(preload=("jemalloc", "/own/lib.so")))
    assert env["LD_PRELOAD"] == "/cache/libjemalloc.so.2:/own/lib.so"


def test_the_worker_finds_this_harness_and_then_what_the_person_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    home = str(Path(__file__).parent.parent)
    assert environment(controls(2), Surroundings())["PYTHONPATH"] == f"{home}{os.pathsep}/mine"
    monkeypatch.delenv("PYTHONPATH")
    assert environment(controls(2), Surroundings())["PYTHONPATH"] == home


def test_the_callers_environment_is_left_alone() -> None:
    before = dict(os.environ)
    environment(controls(2), Surroundings(env=(("SIDE", "a"),)))
    assert dict(os.environ) == before


def test_ranks_share_the_threads() -> None:
    env = environment(controls(5), Surroundings(ranks=2))
    assert env["OMP_NUM_THREADS"] == "2"
    assert environment(controls(1), Surroundings(ranks=2))["OMP_NUM_THREADS"] == "1"


def test_ranks_keep_threads_of_their_own_surroundings() -> None:
    env = environment(controls(4), Surroundings(ranks=2, env=(("OMP_NUM_THREADS", "4"),)))
    assert env["OMP_NUM_THREADS"] == "4"
