"""The process that runs a person's job before anything is measured: it ends with its parent, in a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tiny import living, wait_for
from tipbench.advise.surveyed import NoJob, surveyed, write_command
from tipbench.machine.orphans import end_working_in

HANGS = f"{Path(__file__).parent / 'given_jobs' / 'bad.py'}:hangs"

SURVEYING = "import sys; from tipbench.advise.surveyed import surveyed; surveyed(sys.argv[1])"


@contextmanager
def surveying(target: str, temporary: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that surveys a job, with its temporary files in this folder; nothing of it lives on afterwards."""
    command = [sys.executable, "-c", SURVEYING, target]
    program = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, stderr=subprocess.DEVNULL)
    try:
        yield program
    finally:
        program.kill()
        program.wait()
        end_working_in(temporary)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def sleeping(folder: Path) -> str:
    """The target of a command that starts a program, which runs for long, and waits for it."""
    return f"{write_command(folder, ['sh', '-c', 'sleep 1000; true'])}:job"


def has_started(temporary: Path, program: str) -> bool:
    return any(program in line for line in living(temporary))


def test_a_survey_ends_with_its_parent_while_it_still_imports_torch(temporary: Path) -> None:
    with surveying(HANGS, temporary) as program:
        assert wait_for(lambda: has_started(temporary, "tipbench.worker"), 60)
        program.kill()
        program.wait()
        assert wait_for(lambda: not living(temporary), 60), living(temporary)


def test_a_survey_whose_parent_has_ended_already_ends_too(tmp_path: Path) -> None:
    nobody = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    words = [nobody, "survey", str(tmp_path / "answer.json"), HANGS]
    ended = subprocess.run(
        [sys.executable, "-m", "tipbench.worker.apart", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "the process that started this one has ended" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_a_commands_survey_has_started_ends_when_it_is_asked_to_end(
    tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    with surveying(sleeping(tmp_path), temporary) as program:
        assert wait_for(lambda: has_started(temporary, "sleep 1000"), 60)
        program.send_signal(number)
        program.wait(60)
        assert wait_for(lambda: not living(temporary), 60), living(temporary)
        assert list(temporary.glob("tipbench-*")) == []


def test_a_command_ends_with_a_survey_that_is_killed(tmp_path: Path, temporary: Path) -> None:
    command = write_command(tmp_path, ["sleep", "1000"])
    with surveying(f"{command}:job", temporary) as program:
        assert wait_for(lambda: has_started(temporary, "sleep 1000"), 60)
        program.kill()
        assert wait_for(lambda: not living(temporary), 60), living(temporary)


FILLING = """
import os, tempfile
from pathlib import Path
from torch import nn
import torch

def compiles_into():
    print(os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"], tempfile.gettempdir(), file=SHOWN)
    return nn.Linear(2, 2), torch.ones(1, 2)

def prints():
    def step():
        while True:
            print("x" * 2**20)
    return step

def writes():
    def step():
        with open(os.environ["TMPDIR"] + "/large", "wb") as file:
            os.truncate(file.fileno(), 2**40)
    return step
"""


@pytest.mark.parametrize(
    ("job", "why"),
    [("prints", r"job.py:prints printed over 16 MiB"), ("writes", r"job.py:writes: its step raised .*File too large")],
)
def test_what_a_survey_may_write_is_limited(tmp_path: Path, job: str, why: str) -> None:
    (tmp_path / "job.py").write_text(FILLING)
    with pytest.raises(NoJob, match=why):
        surveyed(f"{tmp_path / 'job.py'}:{job}")


def test_a_survey_compiles_and_writes_in_a_folder_of_its_own(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a name that others can guess could hold what they have put there."""
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    shown = tmp_path / "shown"
    (tmp_path / "job.py").write_text(FILLING.replace("SHOWN", f"open({str(shown)!r}, 'w')"))
    surveyed(f"{tmp_path / 'job.py'}:compiles_into")
    for folder in shown.read_text().split():
        assert Path(folder).relative_to(temporary).parts[0].startswith(f"tipbench-{os.getpid()}-")
    assert list(temporary.iterdir()) == []
