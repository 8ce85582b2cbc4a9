"""What doctor finds and what it advises, on described machines; torch is asked only once, for real."""

import io
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness import doctor, machine, native

DESCRIBED: dict[str, Any] = {
    "name": "amd-epyc-2c-24g",
    "cpu": "AMD EPYC",
    "cores": 2,
    "physical_cores": 2,
    "logical_cores": 2,
    "quota_cores": "none",
    "memory_bytes": 24 << 30,
    "caches": "unavailable",
    "flags": ["avx2"],
    "numa_nodes": 1,
    "virtual": True,
    "gpus": "unavailable",
    "os": "Debian GNU/Linux 12",
    "kernel": "6.1",
    "architecture": "x86_64",
    "libc": "glibc 2.36",
    "governor": "performance",
    "turbo": "off",
    "transparent_huge_pages": "madvise",
    "address_randomisation": "2",
    "python": "3.11.7",
    "torch": "2.15.0",
    "torchvision": "0.29.2",
    "numpy": "2.4.6",
    "triton": "unavailable",
    "compiler": "g++ 12.2.0",
}
TORCH: dict[str, Any] = {"torch": "2.15.0+cpu", "threads": 2, "built_for": "", "gpus": 1, "accelerator": ""}
QUIET: dict[str, Any] = {
    "load": 0.1,
    "cpu_pressure_percent": 0.0,
    "steal_percent": 0.0,
    "governor": "performance",
    "throttled_periods": 0,
    "throttled_s": 0.0,
    "free_bytes": 20 << 30,
    "busy_processes": 0,
}


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which nothing is missing, whatever the tests run on; returns its root."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    monkeypatch.setattr(native, "find", lambda name: Path(name))
    monkeypatch.setattr(psutil, "sensors_battery", lambda: None, raising=False)
    (tmp_path / "proc/self").mkdir(parents=True)
    for file in ("clear_refs", "smaps_rollup"):
        (tmp_path / "proc/self" / file).touch()
    return tmp_path


def topics(findings: list[doctor.Finding]) -> list[str]:
    return [finding.topic for finding in findings]


def test_a_complete_and_quiet_machine_is_ready(complete: Path) -> None:
    missed = doctor.missing(DESCRIBED, TORCH, complete)
    disturbing = doctor.disturbances(DESCRIBED, QUIET, [])
    assert (missed, disturbing) == ([], [])
    text = doctor.lines(DESCRIBED, TORCH, missed, disturbing)
    assert text[-4:] == ["", "Disturbs measurements now: nothing seen", "", "Ready."]
    assert text[-6:-4] == ["", "Missing: nothing"]
    values = ("amd-epyc-2c-24g", "AMD EPYC,", "avx2")
    starts = {line.index(value) for line, value in zip(text[1:4], values, strict=True)}
    assert len(starts) == 1, "values stand below each other"


@pytest.mark.parametrize(
    ("said", "topic", "text", "blocks"),
    [
        ({"torch_error": "No module named 'torch'"}, "torch", "cannot be imported: No module named 'torch'", True),
        ({**TORCH, "torch": "2.10.1"}, "torch", "this is 2.10.1; 2.11 to 2.15 are supported", True),
        ({**TORCH, "torch": "2.16.0a0+git1"}, "torch", "this is 2.16.0a0+git1; only 2.11 to 2.15 were tried", False),
        ({**TORCH, "torchvision_error": "no nms\nmore"}, "torchvision", "cannot be imported: no nms", False),
        ({**TORCH, "gpus": 0}, "GPU", "none found", False),
        ({**TORCH, "gpus": 0, "accelerator": "mps"}, "GPU", "use mps here, but no pair is written for it", False),
    ],
)
def test_torch(complete: Path, said: dict[str, Any], topic: str, text: str, blocks: bool) -> None:
    (finding,) = doctor.missing(DESCRIBED, said, complete)
    assert finding.topic == topic
    assert finding.text.endswith(text)
    assert finding.remedy
    assert finding.blocks is blocks


@pytest.mark.parametrize(
    ("built_for", "expected"),
    [("", "but this torch is a CPU build"), ("CUDA 13.2", "but torch for CUDA 13.2 cannot use it")],
)
def test_a_gpu_that_torch_cannot_use(complete: Path, built_for: str, expected: str) -> None:
    described = {**DESCRIBED, "gpus": [{"name": "NVIDIA H200", "driver": "580.1"}]}
    (finding,) = doctor.missing(described, {**TORCH, "gpus": 0, "built_for": built_for}, complete)
    assert finding.text == f"NVIDIA H200 is here, {expected}"


@pytest.mark.parametrize(("version", "blocks"), [((3, 10, 2), True), ((3, 14, 0), False)])
def test_python(complete: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], blocks: bool) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    (finding,) = doctor.missing(DESCRIBED, TORCH, complete)
    assert finding.topic == "Python"
    assert finding.blocks is blocks


def test_native_parts(complete: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find", lambda name: None)
    missed = doctor.missing({**DESCRIBED, "compiler": "unavailable"}, TORCH, complete)
    assert topics(missed) == ["C++ compiler", "libjemalloc", "libtcmalloc", "libiomp5", "numactl"]
    assert "make native" in missed[-1].remedy


def test_memory_readings_that_a_sandbox_withholds(complete: Path) -> None:
    (complete / "proc/self/clear_refs").unlink()
    (complete / "proc/self/clear_refs").mkdir()
    (finding,) = doctor.missing(DESCRIBED, TORCH, complete)
    assert finding.text == f"{complete}/proc/self/clear_refs: is a directory; resident peaks are left out"


@pytest.mark.parametrize(
    ("described", "state", "busy", "topic", "words"),
    [
        ({}, {"load": 1.5}, [], "other work", "load 1.5 on 2 cores, some task waited for a core 0 % of the time"),
        ({}, {"load": "unavailable"}, ["cc"], "other work", "other processes are running"),
        ({}, {}, ["cc", "cc", "make"], "other work", "busy: cc and make"),
        ({}, {}, ["a", "b", "c", "d", "e"], "other work", "busy: a, b, c and d and others"),
        ({}, {"governor": "powersave"}, [], "governor", "the frequency governor is powersave"),
        ({"quota_cores": 1.5}, {}, [], "CPU quota", "grants the time of 1.5 cores, but 2 threads will run"),
        ({}, {"throttled_periods": 3, "throttled_s": 2.5}, [], "throttling", "3 periods, 2.5 s in all"),
        ({}, {"steal_percent": 4.0}, [], "steal", "took 4 % of the processor time"),
        ({}, {"free_bytes": 1 << 30}, [], "memory", "1.0 GiB left"),
    ],
)
def test_disturbances(
    complete: Path, described: dict[str, Any], state: dict[str, Any], busy: list[str], topic: str, words: str
) -> None:
    (finding,) = doctor.disturbances({**DESCRIBED, **described}, {**QUIET, **state}, busy)
    assert finding.topic == topic
    assert words in finding.text
    assert finding.remedy


def test_what_the_platform_does_not_tell_is_no_disturbance(complete: Path) -> None:
    unknown = dict.fromkeys(QUIET, "unavailable") | {"free_bytes": 8 << 30}
    assert doctor.disturbances({**DESCRIBED, "quota_cores": "unavailable"}, unknown, []) == []


def test_a_laptop_on_battery(complete: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unplugged = type("Battery", (), {"power_plugged": False})
    monkeypatch.setattr(psutil, "sensors_battery", lambda: unplugged, raising=False)
    assert topics(doctor.disturbances(DESCRIBED, QUIET, [])) == ["battery"]


def test_the_last_sentence() -> None:
    gpu, torch = doctor.Finding("GPU", "", ""), doctor.Finding("torch", "", "", blocks=True)
    load, steal = doctor.Finding("other work", "", ""), doctor.Finding("steal", "", "")
    assert doctor.verdict([], []) == "Ready."
    assert doctor.verdict([gpu], [load, steal]) == (
        "Ready, with limits: see GPU under Missing; "
        "intervals will be wider than need be because of other work and steal."
    )
    assert doctor.verdict([gpu, torch], [load]) == "Not ready: nothing can be measured before this is mended: torch."


def test_a_python_that_dies_or_is_missing_is_told(tmp_path: Path) -> None:
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\nkill -SEGV $$\n")
    dying.chmod(0o755)
    assert doctor.ask_torch(str(dying)) == {"torch_error": "importing it ended the process with status -11"}
    assert "No such file" in doctor.ask_torch(str(tmp_path / "missing"))["torch_error"]


def test_the_whole_report_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the real torch, whose import the child process survives or reports."""
    stream = io.StringIO()
    status = doctor.report(stream)
    text = stream.getvalue()
    assert status == 0, text
    assert text.startswith("This machine\n  name ")
    assert machine.version("torch") in text
    assert text.splitlines()[-1].startswith("Ready")
    assert "Traceback" not in text
