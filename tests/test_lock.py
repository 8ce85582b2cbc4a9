"""One run at a time: a second is refused, by whatever file system, and no lock is ever stale."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipbench.engine.lock import Busy, only_run

HOLD = """
import time
from tipbench.engine.lock import only_run
with only_run():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of the test's own, so that a measurement on this machine does not disturb it."""
    monkeypatch.setenv("TIPBENCH_LOCK", str(tmp_path / "lock"))
    return tmp_path / "lock"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run of another process, whose typed command holds a secret."""
    command = [sys.executable, "-c", HOLD, "--token=secret"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_and_told_the_first(holder: subprocess.Popen[str]) -> None:
    with pytest.raises(Busy, match=rf"^another run \(process {holder.pid}\) is measuring on this machine"), only_run():
        pytest.fail("two at once")


def test_the_lock_is_free_after_kill_9_after_its_run_and_after_an_error_in_it(holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with pytest.raises(KeyboardInterrupt), only_run():
        raise KeyboardInterrupt
    with only_run():
        pass


def test_the_lock_stays_where_temporary_files_are_tidied_away(holder: subprocess.Popen[str], path: Path) -> None:
    path.unlink(missing_ok=True)
    with pytest.raises(Busy), only_run():
        pytest.fail("two at once")
