"""One run at a time: refused by the holder's name, and never stale."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipbench.engine import lock
from tipbench.engine.lock import Busy, only_run

HOLD = """
import sys, time
from pathlib import Path
from tipbench.engine import lock
lock.lock_path = lambda: Path(sys.argv[1])
with lock.only_run("`tipbench run holder`"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of the test's own, so that a measurement on this machine does not disturb it."""
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "lock")
    return tmp_path / "lock"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_by_the_name_of_the_first(holder: subprocess.Popen[str]) -> None:
    named = rf"^`tipbench run holder` \(process {holder.pid}\) is measuring on this machine"
    with pytest.raises(Busy, match=named), only_run("`me`"):
        pytest.fail("two at once")


def test_kill_9_lets_the_lock_go_and_its_name_is_overwritten(holder: subprocess.Popen[str], path: Path) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with only_run("`me`"):
        assert path.read_text() == f"`me` (process {os.getpid()})"


def test_the_lock_is_free_after_its_run_and_after_an_error_in_it(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), only_run("`me`"):
        raise KeyboardInterrupt
    with only_run("`me`"):
        pass
    assert path.read_text() == ""


def test_a_holder_that_has_not_yet_written_its_name_is_another_run(path: Path) -> None:
    with only_run("`me`"):
        path.write_text("")
        with pytest.raises(Busy, match=r"^another run is measuring"), only_run("`you`"):
            pytest.fail("two at once")


def test_all_users_share_one_lock_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIPBENCH_LOCK", "/somewhere/lock")
    assert lock.lock_path() == Path("/somewhere/lock")
    monkeypatch.delenv("TIPBENCH_LOCK")
    assert lock.lock_path() == Path("/tmp/tipbench.lock")


def test_everybody_may_open_the_file(path: Path) -> None:
    before = os.umask(0o077)
    try:
        with only_run("`me`"):
            assert path.stat().st_mode & 0o777 == 0o666
        with only_run("`another`"):
            assert path.read_text().startswith("`another`"), "the file that is there is opened"
    finally:
        os.umask(before)
