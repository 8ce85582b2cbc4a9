"""What doctor reports and what it advises, on described machines; torch is imported only once, for real."""

import getpass
import os
import pwd
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.made_up import MACHINE
from tipbench.cli import main
from tipbench.machine import describe, doctor, native

DESCRIBED: dict[str, Any] = {
    **MACHINE, "logical_cores": 2, "numa_nodes": 1, "virtual": True, "os": "Debian GNU/Linux 12",
    "architecture": "x86_64", "libc": "glibc 2.36", "governor": "performance", "turbo": "off",
    "transparent_huge_pages": "madvise", "address_randomisation": "2", "torchvision": "0.29.2", "numpy": "2.4.6",
    "triton": "unavailable", "compiler": "g++ 12.2.0",
}  # fmt: skip
TORCH: dict[str, Any] = {"torch": "2.15.0+cpu", "threads": 2, "built_for": "", "gpus": 1}
FREE = 20 << 30
CARD: dict[str, Any] = {
    **{"name": "NVIDIA H100", "driver": "580.1", "memory_bytes": 80 << 30, "capability": "9.0"},
    **{"mig": False, "compute_mode": "default"},
}


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which nothing is missing, whatever the tests run on; returns its root."""
    monkeypatch.setattr(native, "missing", lambda name: None)
    return tmp_path


def topics(findings: list[doctor.Finding]) -> list[str]:
    return [finding.topic for finding in findings]


def test_a_complete_and_quiet_machine_is_ready(complete: Path) -> None:
    missed = doctor.missing_findings(DESCRIBED, TORCH, complete)
    disturbing = doctor.disturbances(DESCRIBED, "", FREE)
    assert (missed, disturbing) == ([], [])
    text = doctor.lines(DESCRIBED, TORCH, missed, disturbing)
    assert text[-1] == "Ready."
    values = ("amd-epyc-zen4-2c-24g", "AMD EPYC,", "avx2")
    starts = {line.index(value) for line, value in zip(text[1:4], values, strict=True)}
    assert len(starts) == 1, "values are below each other"


def with_cards(*cards: dict[str, Any]) -> dict[str, Any]:
    return {"gpus": [{**CARD, **card} for card in cards]}


EXCLUSIVE = {"compute_mode": "exclusive process"}
CPU_BUILD, TOO_OLD = {"gpus": 0, "built_for": ""}, {"gpus": 0, "built_for": "CUDA 13.2"}
NO_TORCH, OLD_TORCH = {"torch_error": "No module named 'torch'"}, {"torch": "2.10.1"}


@pytest.mark.parametrize(
    ("described", "facts", "topic", "text", "remedy"),
    [
        ({}, NO_TORCH, "torch", "cannot be imported: No module named 'torch'", "make setup"),
        ({}, OLD_TORCH, "torch", "2.10.1; 2.11 to 2.15 ", "make setup"),
        ({}, {"torch": "2.16.0a0+git1"}, "torch", "2.16.0a0+git1; 2.11 to 2.15 ", "make setup"),
        ({}, {"torchvision_error": "no nms\nmore"}, "torchvision", "cannot be imported: no nms", "torchvision"),
        ({}, {"gpus": 0}, "GPU", "none found", "with a GPU"),
        (with_cards({}), CPU_BUILD, "GPU", "NVIDIA H100 is here, but this torch is a CPU build", "580.1"),
        (with_cards({}), TOO_OLD, "GPU", "NVIDIA H100 is here, but torch for CUDA 13.2 cannot use it", "580.1"),
        (with_cards({}, EXCLUSIVE), {}, "compute mode", "exclusive process: the workers", "-c DEFAULT"),
    ],
)
def test_what_is_missing_is_named_with_its_remedy_and_without_a_supported_torch_nothing_can_be_measured(
    complete: Path, described: dict[str, Any], facts: dict[str, Any], topic: str, text: str, remedy: str
) -> None:
    known = facts if facts is NO_TORCH else {**TORCH, **facts}
    (finding,) = doctor.missing_findings({**DESCRIBED, **described}, known, complete)
    assert (finding.topic, finding.blocks) == (topic, facts in (NO_TORCH, OLD_TORCH))
    assert text in finding.text
    assert remedy in finding.remedy
    assert "more" not in finding.text, "one line"


@pytest.mark.parametrize(("total", "too_small"), [((1 << 30) - 1, True), (1 << 30, False)])
def test_too_little_shared_memory(complete: Path, monkeypatch: pytest.MonkeyPatch, total: int, too_small: bool) -> None:
    disks = {complete / "dev/shm": SimpleNamespace(total=total)}
    monkeypatch.setattr(shutil, "disk_usage", disks.__getitem__)
    missed = doctor.missing_findings(DESCRIBED, TORCH, complete)
    assert topics(missed) == ["/dev/shm"] * too_small
    assert all("--shm-size" in finding.remedy and "--ipc=host" in finding.remedy for finding in missed)


@pytest.mark.parametrize(
    ("described", "occupied", "free", "topic", "words"),
    [
        ({}, "other programs keep 1.0 of 2 cores busy (cc)", FREE, "other work", "(cc)"),
        ({"governor": "powersave"}, "", FREE, "governor", "is powersave"),
        ({"quota_cores": 1.5}, "", FREE, "CPU quota", "1.5 cores, but 2 threads"),
        ({}, "", 1 << 30, "memory", "1.0 GiB left"),
    ],
)
def test_disturbances(
    complete: Path, described: dict[str, Any], occupied: str, free: int, topic: str, words: str
) -> None:
    (finding,) = doctor.disturbances({**DESCRIBED, **described}, occupied, free)
    assert finding.topic == topic
    assert words in finding.text
    assert finding.remedy


def test_the_last_sentence() -> None:
    gpu, torch = doctor.Finding("GPU", "", ""), doctor.Finding("torch", "", "", blocks=True)
    assert doctor.lines(DESCRIBED, TORCH, [], [gpu])[-1] == "Ready, within these limits."
    assert doctor.lines(DESCRIBED, TORCH, [gpu, torch], [])[-1].startswith("Not ready: ")


def test_a_python_that_dies_or_is_missing_is_an_error_of_torch(tmp_path: Path) -> None:
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\nkill -SEGV $$\n")
    dying.chmod(0o755)
    assert "status -11" in doctor.ask_torch(str(dying))["torch_error"]
    assert "No such file" in doctor.ask_torch(str(tmp_path / "missing"))["torch_error"]


def test_a_gpu_that_only_the_driver_counts_is_none_for_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a driver too old for this torch: `device_count` asks the driver, `is_available` asks CUDA."""
    (tmp_path / "torch.py").write_text(
        "from types import SimpleNamespace as S\n"
        "__version__, get_num_threads = '2.15.0', lambda: 2\n"
        "version = S(cuda='13.2', hip=None)\n"
        "cuda = S(device_count=lambda: 1, is_available=lambda: False)\n"
    )
    (tmp_path / "torchvision.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    facts = doctor.ask_torch()
    assert facts == {"torch": "2.15.0", "threads": 2, "built_for": "CUDA 13.2", "gpus": 0}


def test_the_whole_report_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """Through the real torch, whose import the child process survives or reports."""
    status = doctor.report()
    text = capsys.readouterr().out
    assert status == 0, text
    assert describe.version("torch") in text
    assert text.splitlines()[-1].startswith("Ready")
    assert "Traceback" not in text


def test_a_user_without_home_and_without_an_entry_in_passwd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, "put back after the test")
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["doctor"]) in (0, 1)
    (home,) = tmp_path.glob("tipbench-home.*")
    assert (os.environ["HOME"], home.stat().st_mode & 0o777) == (str(home), 0o700)
    assert getpass.getuser() == str(os.geteuid())
    monkeypatch.delenv("HOME")
    shutil.rmtree(home)
    home.touch()
    assert main(["doctor"]) == 2
    assert "set HOME to one" in capsys.readouterr().err
