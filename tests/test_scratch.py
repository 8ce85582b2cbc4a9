"""Scratch folders: where a Unix socket fits, and none left by a killed run for long."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.controls import controls
from harness.discover import BENCHMARKS, discover
from harness.launch import Surroundings
from harness.scratch import LONGEST, scratch_folder
from harness.workplace import Workplace


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder with a short name; pytest's own may be too long."""
    with tempfile.TemporaryDirectory(prefix="tb-", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_it_is_new_empty_and_named_after_its_process(place: Path) -> None:
    first, second = scratch_folder(), scratch_folder()
    assert first != second
    assert first.parent == second.parent == place
    assert first.name.startswith(f"tipbench-{os.getpid()}-")
    assert not list(first.iterdir())


def test_what_an_ended_process_left_is_removed_and_nothing_else(place: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, living, other = (
        place / name for name in (f"tipbench-{ended.pid}-x", f"tipbench-{os.getpid()}-x", "tipbench-mine-x")
    )
    for folder in (left, living, other):
        (folder / "worker-1").mkdir(parents=True)
    scratch_folder()
    assert [folder.exists() for folder in (left, living, other)] == [False, True, True]


def test_a_program_that_a_killed_runs_step_started_is_ended_and_no_other(place: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folders = [place / name / "warm" / "tmp" for name in (f"tipbench-{ended.pid}-x", f"tipbench-{os.getpid()}-x")]
    for folder in folders:
        folder.mkdir(parents=True)
    left, living = (subprocess.Popen(["sleep", "1000"], env={"TMPDIR": str(folder)}) for folder in folders)
    try:
        scratch_folder()
        assert left.wait() == -signal.SIGKILL
        assert living.poll() is None
    finally:
        for process in (left, living):
            process.kill()
            process.wait()


def test_the_sockets_of_a_workers_own_processes_fit(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that multiprocessing makes in TMPDIR, in the longest temporary folder."""
    longest = place / ("x" * (LONGEST - len(str(place)) - 1))
    longest.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(longest))
    monkeypatch.setattr(os, "getpid", lambda: 4_194_304)
    workplace = Workplace(BENCHMARKS, controls(1))
    about = discover(BENCHMARKS / "control.py", "cpu").pairs[0]
    worker = workplace.start(about, Surroundings(), "warm")
    try:
        worker.ready()
        folder = Path(psutil.Process(worker._process.pid).environ()["TMPDIR"], "pymp-12345678")
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "listener-12345678"))
        assert len(str(folder / "listener-12345678")) <= 104  # macOS; Linux allows 4 more
    finally:
        worker.end()
        workplace.close()


def test_a_long_temporary_folder_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = place / ("x" * LONGEST)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    found = scratch_folder()
    found.rmdir()
    assert found.parent == Path("/tmp")
