"""One run at a time: refused by the process that holds it, never stale, and harmless whatever lies in its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tipbench.cli import main
from tipbench.engine import lock
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


def test_a_second_process_is_refused_and_told_the_first(holder: subprocess.Popen[str], path: Path) -> None:
    with pytest.raises(Busy, match=rf"^another run \(process {holder.pid}\) is measuring on this machine"), only_run():
        pytest.fail("two at once")
    assert path.read_bytes() == b"", "what a person typed is in no file that others can read"


def test_without_the_kernels_list_the_holder_is_another_run(
    holder: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "LOCKS", tmp_path / "nothing")
    with pytest.raises(Busy, match=r"^another run is measuring on this machine"), only_run():
        pytest.fail("two at once")


def test_the_lock_is_free_after_kill_9_after_its_run_and_after_an_error_in_it(holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with pytest.raises(KeyboardInterrupt), only_run():
        raise KeyboardInterrupt
    with only_run():
        pass


def test_all_users_share_one_lock_that_everybody_may_open(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o077)
    try:
        with only_run():
            assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)
    monkeypatch.delenv("TIPBENCH_LOCK")
    assert lock.lock_path() == Path("/tmp/tipbench.lock")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("put", "what"),
    [
        (lambda path: path.symlink_to(path.with_name("theirs")), "a symbolic link"),
        (lambda path: path.symlink_to(path.with_name("nowhere")), "a symbolic link"),
        (Path.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
    ],
)
def test_what_another_user_put_in_its_place_is_left_as_it_is_and_named(
    path: Path, capsys: pytest.CaptureFixture[str], put: Callable[[Path], None], what: str
) -> None:
    theirs = path.with_name("theirs")
    theirs.write_text("somebody's file")
    put(path)
    assert main(["run", "control", "--results", str(path.with_name("results"))]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"tipbench: the lock {path}, which keeps two runs from measuring at once, ")
    assert what in error
    assert theirs.read_text() == "somebody's file"
    assert not path.with_name("nowhere").exists()


def test_a_hard_link_to_somebodys_file_leaves_it_as_it_is(path: Path) -> None:
    theirs = path.with_name("theirs")
    theirs.write_text("somebody's file")
    path.hardlink_to(theirs)
    with only_run():
        pass
    assert theirs.read_text() == "somebody's file"
