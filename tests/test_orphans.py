"""What is ended takes along all that it started, and leaves nothing in shared memory."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import tiny
from tipbench.engine.process import Process

SHARED = Path("/dev/shm")

BLOCK = """
from multiprocessing.shared_memory import SharedMemory
held = [SharedMemory(create=True, size=1000)]
"""

LOADER = """
import torch
torch.multiprocessing.set_sharing_strategy("file_system")
loader = torch.utils.data.DataLoader(torch.randn(64, 1000).unbind(), batch_size=4, num_workers=2)
held = [iter(loader)]
held.append(next(held[0]))
"""


@pytest.mark.parametrize(("text", "paused"), [(BLOCK, False), (LOADER, True)], ids=["SharedMemory", "DataLoader"])
def test_what_a_killed_worker_shared_is_removed(text: str, paused: bool) -> None:
    before = {*SHARED.iterdir()}
    program = f"{text}\nimport time\nprint('ready', flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        children = psutil.Process(started.pid).children(recursive=True)
        pids = {started.pid, *(child.pid for child in children)}
        names = _made_by(pids, before)
        assert names
        worker = Process(started.pid, started.wait, ranks=1)
        if paused:
            worker.pause()
        worker.end()
    assert not [name for name in names if name.exists()]
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def test_a_tracker_that_has_only_just_been_started_is_known_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command line is empty for a moment."""
    monkeypatch.setattr(psutil.Process, "cmdline", lambda process: [])
    test_what_a_killed_worker_shared_is_removed(BLOCK, paused=False)


def _made_by(pids: set[int], before: set[Path]) -> set[Path]:
    """Files of shared memory that these processes have open or mapped, and that were not there before."""
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in pids)
    return {path for path in {*SHARED.iterdir()} - before if str(path) in maps}


SURVEY = "import sys; from tipbench.advise.surveyed import survey_job; survey_job(sys.argv[1])"

JOB = """
from pathlib import Path
import time
Path(__file__).with_suffix(".ran").touch()
time.sleep(600)
"""


def test_a_survey_ends_with_its_parent_also_while_it_imports_torch(tmp_path: Path) -> None:
    (job := tmp_path / "job.py").write_text(JOB)
    with subprocess.Popen([sys.executable, "-P", "-c", SURVEY, f"{job}:job"]) as parent:
        assert tiny.wait_for(lambda: psutil.Process(parent.pid).children(), 60.0)
        (survey,) = psutil.Process(parent.pid).children()
        parent.kill()
    assert tiny.wait_for(lambda: not survey.is_running() or survey.status() == psutil.STATUS_ZOMBIE, 60.0)
    assert not job.with_suffix(".ran").exists()


COMMAND = """
import os, subprocess, sys, time
started = subprocess.Popen(["sleep", "600"], start_new_session=True)
open(sys.argv[1], "w").write(f"{os.getpid()} {started.pid}\\n")
time.sleep(600)
"""


@pytest.mark.parametrize("kill", [False, True])
def test_a_command_that_is_surveyed_ends_with_advise_as_does_all_that_it_starts(tmp_path: Path, kill: bool) -> None:
    marker = tmp_path / "pid"
    advise = [sys.executable, "-P", "-m", "tipbench", "advise", "--out", str(tmp_path / "advice"), "--"]
    with subprocess.Popen([*advise, sys.executable, "-c", COMMAND, str(marker)], stderr=subprocess.PIPE) as command:
        assert tiny.wait_for(lambda: marker.exists() and marker.read_text().endswith("\n"), 120.0)
        pids = list(map(int, marker.read_text().split()))
        command.kill() if kill else command.terminate()
        assert command.stderr is not None
        assert kill or b"tipbench: interrupted" in command.stderr.read()
        assert command.wait() == (-signal.SIGKILL if kill else 130)
    assert tiny.wait_for(lambda: not any(map(psutil.pid_exists, pids)), 60.0)
    assert kill or not list((tmp_path / "advice").iterdir())
