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
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import archspec.cpu
import psutil
import pynvml
import pytest

from tests.made_up import files
from tests.tiny import wait_for
from tipbench.machine import activity, describe, gpu, limits, microarchitecture
from tipbench.machine.fields import CARD_FIELDS, MACHINE_FIELDS


@pytest.mark.parametrize(
    ("model", "architecture", "cores", "gib", "gpus", "expected"),
    [
        ("AMD EPYC", "unavailable", 2, 4.9, [], "amd-epyc-2c-5g"),
        ("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", "icelake", 80, 503.5, ["NVIDIA H200"],
         "intel-xeon-platinum-8380-icelake-80c-512g-h200"),
        ("AMD EPYC 7742 64-Core Processor", "zen2", 128, 1007, ["NVIDIA A100-SXM4-80GB"] * 8,
         "amd-epyc-7742-zen2-128c-1024g-8x-a100-sxm4-80gb"),
        ("Neoverse-N1", "neoverse_n1", 4, 7.6, ["NVIDIA GeForce RTX 4090"], "neoverse-n1-4c-8g-rtx-4090"),
    ],
)  # fmt: skip
def test_name_is_made_from_the_hardware(
    model: str, architecture: str, cores: int, gib: float, gpus: list[str] | None, expected: str
) -> None:
    cards = "unavailable" if gpus is None else [{"name": name} for name in gpus]
    machine = {"cpu": model, "microarchitecture": architecture, "cores": cores, "gpus": cards}
    assert describe.name({**machine, "memory_bytes": int(gib * describe.GIB)}) == expected


X86 = "model name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f hypervisor amx_tile avx512_bf16x\n"
ARM = "Features\t: fp asimd sve bf16\nCPU part\t: 0xd40\n"
CORE = "sys/devices/system/cpu"
CACHES = (("1", "Data", "32K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K"), ("3", "Unified", "32M"))


@pytest.mark.parametrize(
    ("texts", "fields"),
    [
        ({"proc/cpuinfo": X86}, {"cpu": "AMD EPYC", "flags": ["avx2", "avx512f", "amx_tile"], "virtual": True}),
        ({"proc/cpuinfo": ARM}, {"cpu": "unavailable", "flags": ["asimd", "sve", "bf16"], "virtual": "unavailable"}),
        (
            {
                f"{CORE}/cpu0/cache/index{index}/{name}": text
                for index, cache in enumerate(CACHES)
                for name, text in zip(("level", "type", "size"), cache, strict=True)
            },
            {"caches": {"L1d": 32 << 10, "L1i": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}},
        ),
        (
            {f"{CORE}/cpu{n}/cpufreq/scaling_governor": f"{word}\n" for n, word in enumerate(("powersave", "x", "x"))},
            {"governor": "powersave+x"},
        ),
        *(({f"{CORE}/intel_pstate/no_turbo": f"{bit}\n"}, {"turbo": word}) for bit, word in ((0, "on"), (1, "off"))),
        *(({f"{CORE}/cpufreq/boost": f"{bit}\n"}, {"turbo": word}) for bit, word in ((0, "off"), (1, "on"))),
        *(({f"{CORE}/smt/control": f"{word}\n"}, {"smt": word}) for word in ("on", "forceoff", "notsupported")),
        (
            {
                f"{CORE}/cpu0/cpufreq/cpuinfo_max_freq": "3500000\n",
                f"{CORE}/cpu1/cpufreq/cpuinfo_max_freq": "2400000\n",
                f"{CORE}/cpu0/cpufreq/scaling_max_freq": "2000000\n",
            },
            {"cpu_max_mhz": 3500.0, "cpu_limit_mhz": 2000.0},
        ),
        # A sandbox that hides /proc and /sys.
        (
            {},
            dict.fromkeys(
                [
                    *("cpu", "microarchitecture", "family", "quota_cores", "caches", "flags", "numa_nodes", "virtual"),
                    *("governor", "turbo", "smt", "cpu_max_mhz", "cpu_limit_mhz"),
                ],
                "unavailable",
            ),
        ),
    ],
)
def test_a_machine_is_described_as_its_kernel_does_and_without_guesses(
    tmp_path: Path, texts: dict[str, str], fields: dict[str, Any]
) -> None:
    described = describe.describe(files(tmp_path, texts))
    assert {field: described[field] for field in fields} == fields
    assert described["swap_bytes"] == psutil.swap_memory().total


CGROUPS = {
    "v2, a limit on the group": (
        {
            "proc/self/cgroup": "0::/user/job\n",
            "sys/fs/cgroup/user/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user/job/memory.max": "1073741824\n",
        },
        1.5,
        1 << 30,
    ),
    "v2, in a container whose path is the host's": (
        {
            "proc/self/cgroup": "0::/docker/0123\n",
            "sys/fs/cgroup/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/memory.max": "max\n",
        },
        4.0,
        None,
    ),
    "v1": (
        {
            "proc/self/cgroup": "4:memory:/\n1:cpu,cpuacct:/job\n0::/\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        0.5,
        None,
    ),
    "none": ({}, "unavailable", None),
}


@pytest.mark.parametrize(("texts", "quota", "memory"), CGROUPS.values(), ids=CGROUPS)
def test_cgroups(tmp_path: Path, texts: dict[str, str], quota: Any, memory: int | None) -> None:
    files(tmp_path, texts)
    assert limits.quota_cores(tmp_path) == quota
    assert limits.memory_bytes(tmp_path) == (memory or psutil.virtual_memory().total)


@pytest.mark.parametrize(
    ("vendor", "family", "model", "stepping", "flags", "expected"),
    [
        ("AuthenticAMD", 25, 17, 1, "avx2", "zen4"),
        ("AuthenticAMD", 27, 3, 0, "avx2", "f27m3"),
        ("GenuineIntel", 6, 0x55, 4, "avx2", "skylake_avx512"),
        ("GenuineIntel", 6, 0x55, 7, "avx2", "cascadelake"),
        ("GenuineIntel", 6, 0xCF, 2, "avx2 amx_tile", "emeraldrapids"),
        ("GenuineIntel", 6, 0xA7, 1, "avx2 amx_tile", "f6m167"),  # Rocket Lake has no AMX
    ],
)
def test_a_microarchitecture_is_known_by_the_processor_s_numbers(
    tmp_path: Path, vendor: str, family: int, model: int, stepping: int, flags: str, expected: str
) -> None:
    first = f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: AMD EPYC\n"
    last = f"stepping\t: {stepping}\nflags\t\t: {flags}\n"
    files(tmp_path, {"proc/cpuinfo": f"{first}{last}\nvendor_id\t: Other\nstepping\t: 99\n"})
    processor = microarchitecture.identity(tmp_path)
    assert processor == microarchitecture.Identity(vendor, family, model, stepping)
    assert microarchitecture.microarchitecture(processor, tmp_path) == expected


def test_archspec_knows_processors_without_such_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for target, expected in (("neoverse_v2", "neoverse_v2"), ("aarch64", "unavailable")):
        monkeypatch.setattr(archspec.cpu, "host", lambda name=target: archspec.cpu.TARGETS[name])
        assert microarchitecture.microarchitecture(microarchitecture.Identity()) == expected


def test_compiler_is_named_without_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "c++-wrapped"
    program.write_text("#!/bin/sh\nprintf '\\033[2Jcaf\\351 1.0'\n")
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    assert describe.compiler_version() == "[2Jcaf\N{REPLACEMENT CHARACTER} 1.0"


def driver(monkeypatch: pytest.MonkeyPatch, **answers: Callable[..., Any]) -> None:
    """A driver that answers these questions, named without "nvml", and supports no other."""

    def unsupported(*_: object) -> None:
        raise pynvml.NVMLError_NotSupported

    questions = [name for name in dir(pynvml) if name.startswith(("nvmlDeviceGet", "nvmlSystemGet"))]
    replies = {f"nvml{name}": answer for name, answer in answers.items()}
    silent = {"nvmlInit": lambda: None, "nvmlShutdown": lambda: None}
    for name, answer in {**dict.fromkeys(questions, unsupported), **silent, **replies}.items():
        monkeypatch.setattr(pynvml, name, answer)


def refused(*_: object) -> None:
    raise pynvml.NVMLError_NoPermission


def test_gpus_as_the_driver_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_function(*_: object) -> None:
        raise AttributeError("of an nvidia-ml-py older than the question")

    def missing() -> None:
        raise pynvml.NVMLError_LibraryNotFound

    clocks = {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}
    driver(
        monkeypatch,
        SystemGetDriverVersion=lambda: "580.1",
        DeviceGetCount=lambda: 1,
        DeviceGetHandleByIndex=lambda index: index,
        DeviceGetName=lambda _: b"NVIDIA H200 \xff",
        DeviceGetMemoryInfo=lambda _: SimpleNamespace(total=150 << 30),
        DeviceGetCudaComputeCapability=lambda _: (9, 0),
        DeviceGetEnforcedPowerLimit=refused,
        DeviceGetMaxClockInfo=lambda _, kind: clocks[kind],
        DeviceGetApplicationsClock=no_such_function,
        DeviceGetEccMode=lambda _: [1, 1],
        DeviceGetMigMode=refused,
        DeviceGetComputeMode=lambda _: 3,
    )
    seen = {"max_sm_mhz": 1980, "max_memory_mhz": 3201, "ecc": True, "memory_bytes": 150 << 30, "capability": "9.0"}
    named = {"name": "NVIDIA H200 \N{REPLACEMENT CHARACTER}", "driver": "580.1", "compute_mode": "exclusive process"}
    lacking = {"power_limit_w": "denied", "mig": "denied"}
    lacking |= dict.fromkeys(("application_sm_mhz", "application_memory_mhz"), "unavailable")
    assert gpu.gpus({}) == [{**seen, **named, **lacking}]
    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    assert gpu.gpus() == "unavailable", "without a driver"


UUIDS = ("GPU-8932f937-d72c", "GPU-8932aaaa-0000", "GPU-11111111-2222", "GPU-99999999-9999")
MODELS = ("NVIDIA H100", "NVIDIA H200", "NVIDIA L4", "NVIDIA A100")


@pytest.fixture
def four_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver of four cards; the last is split into two instances. A card's handle is its number."""
    instances = {"MIG-aaaa": 3, "MIG-bbbb": 3}

    def instance(uuid: str) -> str:
        if uuid not in instances:
            raise pynvml.NVMLError_NotFound
        return uuid

    driver(
        monkeypatch,
        DeviceGetCount=lambda: 4,
        DeviceGetHandleByIndex=lambda index: index,
        DeviceGetHandleByUUID=instance,
        DeviceGetDeviceHandleFromMigDeviceHandle=instances.__getitem__,
        DeviceGetUUID=UUIDS.__getitem__,
        DeviceGetName=MODELS.__getitem__,
    )


def indices(env: dict[str, str]) -> list[int]:
    cards = gpu.gpus(env)
    assert isinstance(cards, list)
    return [MODELS.index(card["name"]) for card in cards]


VISIBLE = [
    *(("0", [0]), ("2,0", [2, 0]), (" 1, 3", [1, 3]), ("", [])),
    *(("-1", []), ("0,-1,1", [0]), ("1,4,2", [1]), ("GPU-11111111-2222", [2])),
    *(("GPU-8932f937,GPU-1", [0, 2]), ("GPU-8932", []), ("GPU-1,GPU-8932,GPU-9", [2])),
]


@pytest.mark.usefixtures("four_cards")
@pytest.mark.parametrize(
    ("listed", "expected"),
    [*VISIBLE, ("MIG-aaaa", [3]), ("MIG-aaaa,MIG-bbbb", [3]), ("MIG-aaaa,MIG-cccc,MIG-bbbb", [3])],
)
def test_only_those_gpus_are_described_that_cuda_is_let_see(listed: str, expected: list[int]) -> None:
    assert indices({}) == [0, 1, 2, 3]
    assert indices({"CUDA_VISIBLE_DEVICES": listed}) == expected, "a card of several instances once"


@pytest.mark.parametrize(("listed", "expected"), VISIBLE)
def test_torch_counts_as_many_gpus(monkeypatch: pytest.MonkeyPatch, listed: str, expected: list[int]) -> None:
    import torch

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "_raw_device_count_nvml", lambda: 4)
    monkeypatch.setattr(torch.cuda, "_raw_device_uuid_nvml", lambda: list(UUIDS))
    assert torch.cuda._device_count_nvml() == len(expected)


@pytest.mark.usefixtures("four_cards")
def test_the_machine_is_named_after_the_gpus_that_cuda_is_let_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    described = describe.describe()
    assert described["name"].endswith("g-l4")
    assert [card["name"] for card in described["gpus"]] == ["NVIDIA L4"]
    assert not re.search("GPU-[0-9a-f]", json.dumps(described))


@pytest.mark.usefixtures("four_cards")
@pytest.mark.parametrize(
    ("withheld", "listed", "expected"),
    [
        ({0, 2}, None, [1, 3]),
        ({0, 2}, "1", [3]),  # CUDA numbers those that are left
        ({1, 2, 3}, "GPU-8932f937,", [0]),  # an empty entry means no card even where there is but one
    ],
)
def test_gpus_that_a_cgroup_keeps_from_us_leave_the_others(
    monkeypatch: pytest.MonkeyPatch, withheld: set[int], listed: str | None, expected: list[int]
) -> None:
    """The driver counts them all the same."""
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: refused() if index in withheld else index)
    assert indices({} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}) == expected


@pytest.mark.usefixtures("four_cards")
def test_every_field_that_is_recorded_is_in_the_table() -> None:
    """Comparisons, pages and `publish` go by the table: a field that is not in it is nowhere."""
    cards = gpu.gpus({})
    assert isinstance(cards, list)
    assert cards[0].keys() == set(sum(CARD_FIELDS.values(), ()))
    assert describe.describe().keys() == {"name", "gpus", *sum(MACHINE_FIELDS.values(), ())}


def test_the_description_of_this_machine_is_json_and_holds_nothing_private() -> None:
    described = describe.describe()
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


# ---- what others take of the cores ----


def stat(*busy: int) -> dict[str, str]:
    """/proc/stat with so many ticks of user time for each core, and as many idle ones that do not count."""
    return {
        "proc/stat": "cpu  1 2 3\n" + "".join(f"cpu{n} {ticks} 0 0 77 5 0 0 9 0 0\n" for n, ticks in enumerate(busy))
    }


def test_what_others_take_is_that_of_our_cores_without_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2})
    monkeypatch.setattr(os, "sysconf", lambda _: 100)
    moments = []
    for when, own, busy in ((10.0, 1.0, (100, 0, 50)), (14.0, 4.0, (500, 999, 250))):
        monkeypatch.setattr(time, "monotonic", lambda when=when: when)
        monkeypatch.setattr(activity, "_own_s", lambda own=own: own)
        files(tmp_path, stat(*busy))
        moments.append(activity.Usage.now(tmp_path))
    before, after = moments
    assert after.others(before) == pytest.approx((4.0 + 2.0 - 3.0) / 4.0)
    assert before.others(before) == -1.0, "no time has passed"
    assert after.others(activity.Usage.now(tmp_path / "nowhere")) == -1.0


def test_what_our_children_take_is_our_own() -> None:
    before = activity.Usage.now()
    burn = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    with subprocess.Popen([sys.executable, "-c", burn + "\ntime.sleep(60)"]) as living:
        assert wait_for(lambda: sum(psutil.Process(living.pid).cpu_times()[:2]) >= 0.3, 60.0)
        assert activity.Usage.now().own_s - before.own_s >= 0.6
        living.kill()


def test_a_machine_is_busy_where_others_took_much_in_most_launches() -> None:
    idle, busy = 0.1, 1.0
    assert activity.mostly_beside([]) == activity.mostly_beside([busy, idle]) == ""
    assert activity.mostly_beside([busy, idle, 2.0]) == "other programs kept 1.5 cores busy in 2 of 3 launches"


@pytest.mark.parametrize(
    ("others", "said"), [(0.1, ""), (-1.0, ""), (1.04, "other programs keep 1.0 of 2 cores busy (cc, ld)")]
)
def test_what_keeps_cores_busy_now_is_named(monkeypatch: pytest.MonkeyPatch, others: float, said: str) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(activity, "watch", lambda _: ["cc", "ld", "cc"])
    monkeypatch.setattr(activity.Usage, "others", lambda self, earlier: others)
    assert activity.describe_load(0.0) == said
