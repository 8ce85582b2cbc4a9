"""Workers forked from a process that has imported torch: as separate, and as surely ended, as fresh ones."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

from tests import tiny
from tests.made_up import files
from tipbench.engine import fork_server
from tipbench.engine.checks import WARM
from tipbench.engine.fork_server import ForkServer, ServerGone
from tipbench.engine.handle import WorkerFailed
from tipbench.engine.launcher import Launcher
from tipbench.engine.process import Process
from tipbench.machine.controls import callers, controls, environment
from tipbench.records.record import PairInfo
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.process import ProcessSettings
from tipbench.worker.protocol import Channel, readable


@pytest.fixture(scope="module")
def control() -> PairInfo:
    return next(info for info in discover(BENCHMARKS / "control.py", "cpu").pairs if info.pair == "SmallOperations")


def new_launcher() -> Iterator[Launcher]:
    with closing(Launcher(BENCHMARKS, controls(1))) as made:
        made._launches_with_server = 6  # whatever memory is free here
        yield made


launcher = pytest.fixture(scope="module")(new_launcher)
"""Its servers are those of all tests but of those that end one."""
mortal = pytest.fixture(new_launcher)


def parent(launcher: Launcher, info: PairInfo, launch: int | None) -> tuple[int, int]:
    """(pid of a worker, pid of its parent)."""
    worker = launcher.start(info, ProcessSettings(), "warm", launch)
    try:
        worker.ready()
        return worker.process.pid, psutil.Process(worker.process.pid).ppid()
    finally:
        worker.end()


def test_workers_of_one_launch_share_a_server_with_no_other_launch(launcher: Launcher, control: PairInfo) -> None:
    first, second, other = (parent(launcher, control, launch) for launch in (0, 0, 1))
    assert len({first[0], second[0], other[0]}) == 3
    assert first[1] == second[1] != other[1]
    assert os.getpid() not in {first[1], other[1]}


def test_what_measures_memory_or_is_launched_late_is_started_afresh(launcher: Launcher, control: PairInfo) -> None:
    assert parent(launcher, control, None)[1] == os.getpid()
    assert parent(launcher, control, 6)[1] == os.getpid()


def test_what_an_ended_worker_was_compiling_is_used_by_no_later_one(launcher: Launcher, control: PairInfo) -> None:
    """torch takes a library that a killed linker has begun for a whole one."""
    about, caches = replace(control, needs=("C++ compiler",)), []
    for failure in (WorkerFailed, None, None):
        worker = launcher.start(about, ProcessSettings(), f"{WARM}{about.name}", None)
        worker.ready()
        caches.append(psutil.Process(worker.process.pid).environ()["TORCHINDUCTOR_CACHE_DIR"])
        if failure:
            os.kill(worker.process.pid, signal.SIGKILL)
            with pytest.raises(failure):
                worker.ask("build", variant="baseline", seed=0, first=True)
        worker.end()
    assert caches[0] != caches[1] == caches[2]


def test_who_waits_for_a_server_is_not_waited_for_in_an_interrupted_run(mortal: Launcher, control: PairInfo) -> None:
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(mortal.start, control, ProcessSettings(), "warm", 0)
        assert tiny.wait_for(lambda: mortal._servers, 60)
        mortal.stop()
        with pytest.raises(WorkerFailed):
            starting.result()


def test_a_forked_worker_does_what_a_fresh_one_does(launcher: Launcher, control: PairInfo) -> None:
    for launch in (0, None):
        worker = launcher.start(control, ProcessSettings(), "warm", launch)
        worker.ask("results", variant="baseline", seeds=[1, 2])
        worker.ask("results", variant="optimized", seeds=[1, 2])
        assert worker.ask("compare", variant="optimized")["worst"] == 0.0
        assert worker.ask("observe", variant="baseline", seed=1) == control.sizes["operations"]
        worker.end()


def gone(process: psutil.Process) -> bool:
    """Nobody may be there to collect a killed process whose parent went before it."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_of_ranks_torchrun_is_forked_and_they_themselves_are_fresh(launcher: Launcher) -> None:
    (info,) = (info for info in discover(BENCHMARKS / "distributed", "cpu").pairs if info.name == "no-sync.GPTTraining")
    worker = launcher.start(info, info.variants[0].settings, "warm", None)
    try:
        worker.ask("build", variant="baseline", seed=0)
        torchrun = psutil.Process(worker.process.pid)
        assert torchrun.ppid() == launcher._servers[0]._process.pid
        ranks = [child for child in torchrun.children() if "tipbench.worker" in child.cmdline()]
        assert len(ranks) == 2
        assert {rank.environ()["OMP_NUM_THREADS"] for rank in ranks} == {"1"}
    finally:
        worker.end()
    # All are sent SIGKILL before `end` returns, but the kernel takes its time on a busy machine.
    assert tiny.wait_for(lambda: all(map(gone, ranks)), 10)


def test_a_pair_that_ends_the_server_does_not_end_the_launches_after_it(mortal: Launcher, control: PairInfo) -> None:
    _, server = parent(mortal, control, 0)
    os.kill(server, signal.SIGKILL)
    assert parent(mortal, control, 0)[1] == os.getpid()  # this once, afresh
    assert parent(mortal, control, 0)[1] not in (os.getpid(), server)


def new_server() -> Iterator[ForkServer]:
    made = ForkServer(environment(controls(1), ProcessSettings()))
    yield made
    made.end()


server = pytest.fixture(scope="module")(new_server)
mortal_server = pytest.fixture(new_server)


def forked(server: ForkServer, folder: Path, task: str) -> tuple[Process, Channel]:
    """A worker that has started, and the channel to it."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        listening.listen(1)
        pid = server.fork(1, folder / "socket", task, {"TMPDIR": str(folder)}, folder / "output")
        connected, _ = listening.accept()
    channel = Channel(connected)
    channel.send({"command": "ready", "arguments": {}})
    channel.receive(60.0, readable)
    return Process(pid, partial(server.reap, pid), ranks=1), channel


def build(channel: Channel) -> None:
    channel.send({"command": "build", "arguments": {"variant": "baseline", "seed": 0}})
    assert channel.receive(60.0, readable)["answer"]["seconds"] > 0.0


def task(folder: Path, touching: str = "") -> str:
    """A pair that prints, after some code of its own, what its process is."""
    text = (
        "import os, signal, sys, tempfile, threading, torch\n"
        "from tipbench.tip.pair import Claim, Pair, Step, Tip\n"
        "TIP = Tip(id='mine', title='Mine', guide=(), claim=Claim.FASTER)\n"
        "class Printing(Pair):\n"
        "    def baseline(self) -> Step:\n"
        f"        {touching}\n"
        "        print(os.getpgrp() == os.getpid(), threading.active_count(), tempfile.gettempdir(), flush=True)\n"
        "        return lambda: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    def optimized(self) -> Step:\n"
        "        return self.baseline()\n"
    )
    file = files(folder, {"pairs/mine.py": text}) / "pairs/mine.py"
    pair = {"file": str(file), "folder": str(file.parent), "pair": "Printing", "device": "cpu"}
    return json.dumps({**pair, "size": {}, "imports": [], "reports": str(folder)})


def test_a_worker_has_its_own_group_output_and_temporary_folder(server: ForkServer, tmp_path: Path) -> None:
    process, channel = forked(server, tmp_path, task(tmp_path))
    build(channel)
    assert (tmp_path / "output").read_text() == f"True 1 {tmp_path}\n"
    assert process.exit_code(0.0) is None
    channel.close()
    assert process.exit_code(10.0) == 0


def test_how_a_worker_ended_is_known_as_of_any_process(server: ForkServer, tmp_path: Path) -> None:
    process, channel = forked(server, tmp_path, task(tmp_path))
    os.killpg(process.pid, signal.SIGSEGV)
    assert process.exit_code(10.0) == -signal.SIGSEGV
    assert process.exit_code(0.0) == -signal.SIGSEGV, "and again"
    channel.close()


def test_workers_end_with_their_server_and_count_as_killed(mortal_server: ForkServer, tmp_path: Path) -> None:
    process, channel = forked(mortal_server, tmp_path, task(tmp_path))
    mortal_server.end()
    channel.close()
    assert process.exit_code(10.0) == -signal.SIGKILL
    with pytest.raises(ServerGone):
        mortal_server.fork(1, tmp_path / "socket", "{}", {}, tmp_path / "output")


# ---- a server that does not answer ----


def test_a_stopped_server_is_gone_by_its_deadline(mortal_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    mortal_server.ready()
    monkeypatch.setattr(fork_server, "ANSWER_S", 0.05)
    os.kill(mortal_server._process.pid, signal.SIGSTOP)
    with pytest.raises(ServerGone):
        mortal_server.preload("wave")


# ---- a fork after CUDA was touched leaves a worker that cannot use CUDA ----

with_cuda = pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch was built without CUDA")

IMPORTING = """
import importlib, os, pkgutil
import tipbench
from tipbench.suite import files
from tipbench.engine.handle import PRELOADED
from tipbench.engine.launcher import COMPILING
from tipbench.worker import forking

forking.import_all()
import torch
counted = torch.cuda._device_count_nvml
torch.cuda._device_count_nvml = lambda: 1  # as where there is a driver
for package in (*PRELOADED, *COMPILING):
    importlib.import_module(package)
torch.cuda.is_available()  # torch.compile's imports of torch 2.11 ask for it
torch.cuda._device_count_nvml = counted

def bad_fork():
    pid = os.fork()
    if pid == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

server = bad_fork()
for module in pkgutil.walk_packages(tipbench.__path__, "tipbench."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for file in files.pair_files(files.BENCHMARKS):
    files.load_module(file, files.BENCHMARKS)
worker = bad_fork()
try:
    torch.empty(1, device="cuda")
except Exception:
    pass
print(server, worker, bad_fork())
"""


@with_cuda
def test_no_import_touches_cuda() -> None:
    """Neither what a server imports nor what its workers do; what touches it shows, on a machine without a GPU too."""
    done = subprocess.run([sys.executable, "-c", IMPORTING], env=callers(), capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["0 0 1"], done.stderr


@with_cuda
def test_a_worker_may_use_cuda_also_after_another_of_the_same_server_has(server: ForkServer, tmp_path: Path) -> None:
    server.preload("torchvision")
    touching = "print(torch.cuda._is_in_bad_fork(), torch.cuda.is_available() is None)"
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        _, channel = forked(server, tmp_path / name, task(tmp_path / name, touching))
        build(channel)
        channel.close()
        assert (tmp_path / name / "output").read_text().startswith("False False\n")
