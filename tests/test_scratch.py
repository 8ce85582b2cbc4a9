"""Scratch folders: Unix sockets fit in, none is left by a killed run for long, and a full one is reported."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.tiny import PAIRS
from tipbench.engine.launcher import Launcher
from tipbench.machine.controls import controls
from tipbench.machine.scratch import LONGEST_FOLDER, Scratch
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


HOLD = """
import sys, time
from tipbench.machine.scratch import Scratch
with Scratch() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process and its scratch folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], env={**os.environ, "TMPDIR": str(place)}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_it_is_new_and_gone_at_its_end(place: Path) -> None:
    with Scratch() as first, Scratch() as second:
        assert first != second
        assert first.parent == second.parent == place
        assert not [file for file in first.iterdir() if file.name != "lock"]
    assert list(place.iterdir()) == []


def test_what_a_kill_amid_its_removal_left_is_removed_by_the_next(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Scratch()
    for name in ("a", "z"):
        (held.path / name).mkdir()

    def cut_short(folder: Path, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", cut_short)
        with pytest.raises(KeyboardInterrupt):
            held.remove()
    with Scratch():
        assert not held.path.exists()


def test_what_a_killed_process_left_is_removed(other: tuple[subprocess.Popen[str], Path]) -> None:
    process, left = other
    process.kill()
    process.wait()
    assert left.exists()
    with Scratch():
        assert not left.exists()


def test_what_a_living_process_uses_stays_even_where_its_id_says_nothing(
    other: tuple[subprocess.Popen[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in another container that shares the folder: there no process has the id in the folder's name."""
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: False)
    with Scratch():
        assert other[1].exists()


def test_the_sockets_of_a_workers_own_processes_fit(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that multiprocessing makes in TMPDIR, in the longest temporary folder."""
    longest = place / ("x" * (LONGEST_FOLDER - len(str(place)) - 1))
    longest.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(longest))
    about = discover(BENCHMARKS / "control.py", "cpu").pairs[0]
    monkeypatch.setattr(os, "getpid", lambda: 4_194_304)
    with closing(Launcher(BENCHMARKS, controls(1))) as launcher:
        worker = launcher.start(about, ProcessSettings(), "warm", None)
        worker.ready()
        folder = Path(psutil.Process(worker.process.pid).environ()["TMPDIR"], "pymp-12345678")
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "listener-12345678"))
        assert len(str(folder / "listener-12345678")) <= 104  # macOS; Linux allows 4 more
        worker.end()


def test_a_long_temporary_folder_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = place / ("x" * LONGEST_FOLDER)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with Scratch() as folder:
        assert folder.parent == Path("/tmp")


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
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    unshare = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), *alone]
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
    """Pairs are described with their tip's texts: more than still fits into a page that has been begun."""
    text = (PAIRS / "fills" / "fills.py").read_text()
    (tmp_path / "fills.py").write_text(text.replace("Leave room", "Leave room " * 500))
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
    assert "continue with: the same command\n" in done.stderr
    done = small("8m", "run", *FILLING, "--results", str(tmp_path))
    assert done.returncode == 1
    run, _ = store.read(file)
    assert [record.name for record in run.records] == ["fills.FillsAndExits", "fills.Fills"]
    for record in run.records:
        assert (record.outcome, record.kind) == ("failed", "temporary folder full")
        assert re.match(r"the temporary folder /tmp/tb-\w+ is full ", record.reason)
