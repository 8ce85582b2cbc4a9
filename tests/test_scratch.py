"""Scratch folders: Unix sockets fit in, none is left by a killed run for long, and a full one is reported."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.tiny import PAIRS, wait_for
from tipbench.engine.launcher import Launcher
from tipbench.engine.purpose import Purpose
from tipbench.engine.scratch import LONGEST, scratch_folder
from tipbench.machine.controls import controls
from tipbench.records import store
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.process import ProcessSettings


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
        # A program's variables can be read a moment after it has started.
        assert wait_for(lambda: all(psutil.Process(one.pid).environ() for one in (left, living)), 60.0)
        scratch_folder()
        assert left.wait(60.0) == -signal.SIGKILL
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
    about = discover(BENCHMARKS / "control.py", "cpu").pairs[0]
    with closing(Launcher(BENCHMARKS, controls(1))) as launcher:
        worker = launcher.start(about, ProcessSettings(), "warm", Purpose.LAUNCH)
        worker.ready()
        folder = Path(psutil.Process(worker.process.pid).environ()["TMPDIR"], "pymp-12345678")
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "listener-12345678"))
        assert len(str(folder / "listener-12345678")) <= 104  # macOS; Linux allows 4 more
        worker.end()


def test_a_long_temporary_folder_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = place / ("x" * LONGEST)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    found = scratch_folder()
    found.rmdir()
    assert found.parent == Path("/tmp")


# ---- a temporary folder that is full ----

INSIDE = """
mount -t tmpfs -o size="$1" tmpfs "$TMPDIR"
python=$2
shift 2
"$python" -m tests.tiny "$@" || exit $?
"""
"""The command, in a mount namespace of its own where TMPDIR is a file system of the given size."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs a command with a temporary folder of a given size, on one core, where pairs are checked one after another.

    The results of runs go into `tmp_path`.
    """
    unshare = [
        "taskset",
        "--cpu-list",
        str(min(os.sched_getaffinity(0))),
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
    ]
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    with tempfile.TemporaryDirectory(prefix="tb-", dir="/tmp") as folder:

        def run(size: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
            command = [*unshare, "sh", "-c", INSIDE, "sh", size, sys.executable, *words]
            env = {**os.environ, "TMPDIR": folder, **variables}
            return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

        yield run


FILLING = ("--from", str(PAIRS / "fills"))


def test_a_full_temporary_folder_is_reported_before_anything_begins(
    small: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = small("512k", "run", *FILLING, "--results", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"tipbench: the temporary folder /tmp/tb-\w+ is full .*name another with TMPDIR\n", done.stderr)
    assert not list(tmp_path.iterdir())


def test_a_temporary_folder_that_is_filled_while_pairs_are_listed_is_reported(
    small: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Pairs are described with their code: more of it than still fits into a page that has been begun."""
    text, line = (PAIRS / "fills" / "fills.py").read_text(), "        x = torch.randn"
    (tmp_path / "fills.py").write_text(text.replace(line, f"        # {'long ' * 1000}\n{line}"))
    done = small("4m", "list", "--from", str(tmp_path), FILL_AT_IMPORT="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(r"tipbench: the temporary folder /tmp/tb-\w+ is full ", done.stderr)


def test_a_pair_that_fills_the_temporary_folder_fails_by_name_and_the_next_can_be_measured(
    small: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = small("8m", "run", *FILLING, "--results", str(tmp_path))
    (file,) = tmp_path.rglob("*.jsonl")
    assert done.returncode == 1
    assert re.search(r"tipbench: the temporary folder /tmp/tb-\w+ is full .*; 1 of 2 pairs are safe in", done.stderr)
    assert f"continue with: tipbench run --resume {file}\n" in done.stderr
    done = small("8m", "run", "--resume", str(file))
    assert done.returncode == 1
    run, _ = store.read(file)
    assert [record.name for record in run.records] == ["fills.FillsAndExits", "fills.Fills"]
    for record in run.records:
        assert (record.outcome, record.kind) == ("failed", "temporary folder full")
        assert re.match(r"the temporary folder /tmp/tb-\w+ is full ", record.reason)
