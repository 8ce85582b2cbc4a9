"""What is read off /proc and /sys, on trees made for the purpose; and that nothing private is in it."""

import getpass
import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import machine


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tmp_path


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def a_gpu(name: str) -> dict[str, Any]:
    return {"name": name}


@pytest.mark.parametrize(
    ("model", "cores", "gib", "gpus", "expected"),
    [
        ("AMD EPYC", 2, 23.54, "unavailable", "amd-epyc-2c-24g"),
        ("AMD EPYC 9R14 96-Core Processor", 8, 61.8, [], "amd-epyc-9r14-8c-64g"),
        (
            "Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz",
            80,
            503.5,
            [a_gpu("NVIDIA H200")],
            "intel-xeon-platinum-8380-80c-512g-h200",
        ),
        ("AMD Ryzen 7 PRO 6850U with Radeon Graphics", 8, 30.1, [], "amd-ryzen-7-pro-6850u-8c-32g"),
        ("Apple M2 Pro", 10, 16, "unavailable", "apple-m2-pro-10c-16g"),
        (
            "AMD EPYC 7742 64-Core Processor",
            128,
            1007,
            [a_gpu("NVIDIA A100-SXM4-80GB")] * 8,
            "amd-epyc-7742-128c-1024g-8x-a100-sxm4-80gb",
        ),
        ("Neoverse-N1", 4, 7.6, [a_gpu("NVIDIA GeForce RTX 4090")], "neoverse-n1-4c-8g-rtx-4090"),
        ("AMD EPYC", 2, 4.9, [], "amd-epyc-2c-5g"),
    ],
)
def test_name_is_made_from_the_hardware(model: str, cores: int, gib: float, gpus: Any, expected: str) -> None:
    assert machine.name(model, cores, int(gib * machine.GIB), gpus) == expected


def test_name_without_a_processor_name_is_still_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert machine.name(machine.UNAVAILABLE, machine.UNAVAILABLE, machine.UNAVAILABLE, []) == "aarch64"


def test_read_tells_missing_from_denied(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tree, {"there": "performance\n", "empty": ""})
    assert machine.read(tree / "there") == "performance"
    assert machine.read(tree / "empty") == "unavailable"
    assert machine.read(tree / "missing") == "unavailable"
    assert machine.read(tree / "there/inside") == "unavailable"

    def denied(_: Path) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", denied)
    assert machine.read(tree / "there") == "denied"


def test_processor_of_x86(tree: Path) -> None:
    put(
        tree, {"proc/cpuinfo": "model name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f hypervisor amx_tile avx512_bf16x\n"}
    )
    assert machine.cpu_model(tree) == "AMD EPYC"
    assert machine.cpu_flags(tree) == ["avx2", "avx512f", "amx_tile"]
    assert machine.virtual(tree) is True


def test_processor_of_arm_does_not_tell_whether_it_is_virtual(tree: Path) -> None:
    put(tree, {"proc/cpuinfo": "Features\t: fp asimd sve bf16\nCPU part\t: 0xd40\n"})
    assert machine.cpu_model(tree) == "unavailable"
    assert machine.cpu_flags(tree) == ["asimd", "sve", "bf16"]
    assert machine.virtual(tree) == "unavailable"


def test_caches_in_bytes(tree: Path) -> None:
    cache = "sys/devices/system/cpu/cpu0/cache"
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "32K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K"), ("3", "Unified", "32M")]
    ):
        put(tree, {f"{cache}/index{index}/level": level, f"{cache}/index{index}/type": kind})
        put(tree, {f"{cache}/index{index}/size": f"{size}\n"})
    assert machine.caches(tree) == {"L1d": 32 << 10, "L1i": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}


CGROUPS = {
    "v2, a limit on the group": (
        {
            "proc/self/cgroup": "0::/user/job\n",
            "sys/fs/cgroup/user/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user/job/cpu.stat": "usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n",
            "sys/fs/cgroup/user/job/memory.max": "1073741824\n",
        },
        1.5,
        (3, 2.5),
        1 << 30,
    ),
    "v2, in a container whose path is the host's": (
        {
            "proc/self/cgroup": "0::/docker/0123\n",
            "sys/fs/cgroup/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/cpu.stat": "nr_throttled 0\nthrottled_usec 0\n",
            "sys/fs/cgroup/memory.max": "max\n",
        },
        4.0,
        (0, 0.0),
        None,
    ),
    "v1": (
        {
            "proc/self/cgroup": "4:memory:/\n1:cpu,cpuacct:/job\n0::/\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.stat": "nr_periods 9\nnr_throttled 7\nthrottled_time 1500000000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        0.5,
        (7, 1.5),
        None,
    ),
    "v1, without a limit": (
        {
            "proc/self/cgroup": "1:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        "none",
        ("unavailable", "unavailable"),
        None,
    ),
    "none": ({}, "unavailable", ("unavailable", "unavailable"), None),
}


@pytest.mark.parametrize(("files", "quota", "throttled", "memory"), CGROUPS.values(), ids=CGROUPS)
def test_cgroups(tree: Path, files: dict[str, str], quota: Any, throttled: Any, memory: int | None) -> None:
    put(tree, files)
    assert machine.quota_cores(tree) == quota
    assert machine.throttling(tree) == throttled
    assert machine.memory_bytes(tree) == (memory or psutil.virtual_memory().total)


@pytest.mark.parametrize(
    ("governors", "expected"),
    [
        (["performance"] * 3, "performance"),
        (["powersave", "performance"], "performance+powersave"),
        ([], "unavailable"),
    ],
)
def test_governor(tree: Path, governors: list[str], expected: str) -> None:
    for core, governor in enumerate(governors):
        put(tree, {f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor": f"{governor}\n"})
    assert machine.governor(tree) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"intel_pstate/no_turbo": "0\n"}, "on"),
        ({"intel_pstate/no_turbo": "1\n"}, "off"),
        ({"cpufreq/boost": "1\n"}, "on"),
        ({"cpufreq/boost": "0\n"}, "off"),
        ({}, "unavailable"),
    ],
)
def test_turbo(tree: Path, files: dict[str, str], expected: str) -> None:
    put(tree, {f"sys/devices/system/cpu/{name}": text for name, text in files.items()})
    assert machine.turbo(tree) == expected


def test_steal_is_the_share_of_all_ticks_between_two_readings(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tree, {"proc/stat": "cpu  100 0 50 800 0 0 0 50 30 0\ncpu0 1 2 3\n"})
    later = "cpu  130 0 50 865 0 0 0 55 60 0\n"
    monkeypatch.setattr(time, "sleep", lambda _: put(tree, {"proc/stat": later}))
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(()))
    assert machine.watch(tree) == (5.0, [])


def test_steal_is_unavailable_without_proc_stat(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(()))
    assert machine.watch(tree, 0)[0] == "unavailable"


class FakeProcess:
    def __init__(self, pid: int, name: str, percent: float) -> None:
        self.pid, self._name, self._percent = pid, name, percent

    def cpu_percent(self) -> float:
        if self._percent < 0:
            raise psutil.NoSuchProcess(self.pid)
        return self._percent

    def name(self) -> str:
        return self._name


def test_busy_processes_are_others_above_a_tenth_of_a_core(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = [
        FakeProcess(os.getpid(), "ourselves", 99),
        FakeProcess(-2, "idle", 10),
        FakeProcess(-3, "compiler", 40),
        FakeProcess(-4, "training", 180),
        FakeProcess(-5, "gone", -1),
    ]
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(processes))
    assert machine.watch(tree, 0)[1] == ["training", "compiler"]


def test_pressure_and_load(tree: Path) -> None:
    put(tree, {"proc/pressure/cpu": "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\nfull avg10=0.00\n"})
    put(tree, {"proc/loadavg": "1.25 0.9 0.8 1/80 999\n"})
    assert machine.cpu_pressure(tree) == 12.5
    assert machine.load(tree) == 1.25
    assert machine.cpu_pressure(tree / "elsewhere") == "unavailable"
    assert machine.load(tree / "elsewhere") == "unavailable"


def test_an_empty_tree_is_described_without_guesses(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What macOS looks like, and a sandbox that hides /proc and /sys."""
    monkeypatch.setattr(machine, "gpus", lambda: machine.UNAVAILABLE)
    described = machine.describe(tree)
    for field in ("cpu", "quota_cores", "caches", "flags", "numa_nodes", "virtual", "governor", "turbo"):
        assert described[field] == "unavailable", field
    monkeypatch.setattr(psutil, "process_iter", lambda: iter(()))
    state = machine.state(tree, 0)
    for field in ("load", "cpu_pressure_percent", "steal_percent", "governor", "throttled_periods", "throttled_s"):
        assert state[field] == "unavailable", field


def test_compiler_is_named_without_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "c++-wrapped"
    program.write_text('#!/bin/sh\necho "$0 (Vendor) 12.2.0"\n')
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    assert machine.compiler() == "c++-wrapped (Vendor) 12.2.0"


def test_gpus_as_the_driver_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    def refuse(_: object) -> None:
        raise pynvml.NVMLError_NoPermission

    def unsupported(_: object) -> None:
        raise pynvml.NVMLError_NotSupported

    def unsupported_clock(_: object, kind: object) -> None:
        raise pynvml.NVMLError_NotSupported

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _: b"NVIDIA H200",
        "nvmlDeviceGetMemoryInfo": lambda _: type("Memory", (), {"total": 150 << 30}),
        "nvmlDeviceGetCudaComputeCapability": lambda _: (9, 0),
        "nvmlDeviceGetEnforcedPowerLimit": refuse,
        "nvmlDeviceGetMaxClockInfo": lambda _, kind: {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[kind],
        "nvmlDeviceGetApplicationsClock": unsupported_clock,
        "nvmlDeviceGetEccMode": lambda _: [1, 1],
        "nvmlDeviceGetMigMode": refuse,
        "nvmlDeviceGetClockInfo": lambda _, kind: {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[kind],
        "nvmlDeviceGetTemperature": lambda _, sensor: {pynvml.NVML_TEMPERATURE_GPU: 41}[sensor],
        "nvmlDeviceGetPowerUsage": refuse,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: pynvml.nvmlClocksEventReasonGpuIdle,
        "nvmlDeviceGetTotalEnergyConsumption": unsupported,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    assert machine.gpus() == [
        {
            "name": "NVIDIA H200",
            "memory_bytes": 150 << 30,
            "driver": "580.1",
            "capability": "9.0",
            "power_limit_w": "denied",
            "max_sm_mhz": 1980,
            "max_memory_mhz": 3201,
            "application_sm_mhz": "unavailable",
            "application_memory_mhz": "unavailable",
            "ecc": True,
            "mig": "denied",
            "readings": {
                "sm_mhz": 1980,
                "memory_mhz": 3201,
                "celsius": 41,
                "milliwatts": "denied",
                "clock_events": 1,
                "millijoules": "unavailable",
            },
        }
    ]


def test_no_driver_means_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    def missing() -> None:
        raise pynvml.NVMLError_LibraryNotFound

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    assert machine.gpus() == "unavailable"


def test_the_description_of_this_machine_is_json_and_holds_nothing_private() -> None:
    described = machine.describe()
    text = json.dumps(described, allow_nan=False)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", described["name"])
    assert isinstance(described["cores"], int)
    assert described["python"] == platform.python_version()
    assert str(Path.home()) not in text or str(Path.home()) == "/"
    assert not re.search(r"GPU-[0-9a-f]{8}|\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b", text), "a UUID or a network address"
    strings = re.findall(r'"([^"]*)"', text)
    assert socket.gethostname() not in strings
    assert getpass.getuser() not in strings
    assert not [string for string in strings if string.startswith(("/", "~"))]


def test_neither_machine_nor_doctor_imports_torch() -> None:
    code = "import sys, harness.machine, harness.doctor, harness.native; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
