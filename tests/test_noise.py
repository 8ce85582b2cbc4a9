"""The noisy neighbour of a calibration: it is there as long as it should be, and no longer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.noise import NoNoise, noise
from tipbench.machine.controls import callers


def burning(parent: int = 0) -> list[psutil.Process]:
    """The neighbours that a process has started; without one this."""
    children = psutil.Process(parent or os.getpid()).children()
    return [child for child in children if "noise.py" in " ".join(child.cmdline())]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_its_parent(ending: signal.Signals) -> None:
    code = "import time\nfrom tests.noise import noise\nwith noise(1): print(1, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=callers()) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        (child,) = burning(parent.pid)
        os.kill(parent.pid, ending)
        # Returns as soon as it is gone; the deadline is only there so that a failure ends.
        assert psutil.wait_procs([child], timeout=60) == ([child], [])


def test_it_ends_with_the_run_and_with_its_failure() -> None:
    with noise(1) as check:
        check()
        assert len(burning()) == 1
    assert burning() == []
    with pytest.raises(ValueError, match="made up"), noise(1):
        raise ValueError("made up")
    assert burning() == []


def test_that_it_ended_by_itself_is_noticed() -> None:
    with noise(1) as check:
        (child,) = burning()
        child.kill()
        while child.status() != psutil.STATUS_ZOMBIE:
            pass
        with pytest.raises(NoNoise):
            check()
