"""Workers forked from a process that has imported torch: as separate, and as surely ended, as fresh ones."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.controls import controls, environment
from harness.discover import BENCHMARKS, discover
from harness.fork_server import AVAILABLE, Forked, ForkServer, ServerGone
from harness.launch import Surroundings
from harness.record import PairInfo
from harness.workplace import Workplace

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="forks only where the kernel has pidfd (Linux)")


@pytest.fixture(scope="module")
def control() -> PairInfo:
    return next(info for info in discover(BENCHMARKS / "control.py", "cpu").pairs if info.pair == "SmallOperations")


@pytest.fixture
def workplace() -> Iterator[Workplace]:
    made = Workplace(BENCHMARKS, controls(1))
    made._launches_with_server = 6  # whatever memory is free here
    yield made
    made.close()


def parent(workplace: Workplace, info: PairInfo, launch: int | None) -> tuple[int, int]:
    """(pid of a worker, pid of its parent)."""
    worker = workplace.start(info, Surroundings(), "warm", launch)
    try:
        worker.ready()
        return worker._process.pid, psutil.Process(worker._process.pid).ppid()
    finally:
        worker.end()


def test_workers_of_one_launch_have_one_server_and_those_of_another_another(
    workplace: Workplace, control: PairInfo
) -> None:
    first, second, other = (parent(workplace, control, launch) for launch in (0, 0, 1))
    assert len({first[0], second[0], other[0]}) == 3
    assert first[1] == second[1] != other[1]
    assert os.getpid() not in {first[1], other[1]}


def test_what_is_weighed_or_launched_late_is_started_afresh(workplace: Workplace, control: PairInfo) -> None:
    assert parent(workplace, control, None)[1] == os.getpid()
    assert parent(workplace, control, 6)[1] == os.getpid()


def test_a_cold_compile_cache_knows_the_instructions_of_the_machine_and_nothing_else(
    workplace: Workplace, control: PairInfo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    asked.mkdir()
    (asked / "avx2").touch()
    monkeypatch.setattr(workplace, "_instructions", lambda env: asked)
    compiling = replace(control, needs=("C++ compiler",))
    one_arm = replace(control, variants=(control.variants[0], replace(control.variants[1], needs=("C++ compiler",))))
    for about, found in ((compiling, ["avx2"]), (one_arm, ["avx2"]), (control, None)):
        worker = workplace.start(about, Surroundings(), f"cold {found} {about.needs}")
        cache = Path(psutil.Process(worker._process.pid).environ()["TORCHINDUCTOR_CACHE_DIR"])
        worker.end()
        assert (sorted(file.name for file in cache.iterdir()) if found else cache.exists()) == (found or False)


@pytest.mark.parametrize(("available", "servers"), [(5 << 30, 0), (6 << 30, 0), (8 << 30, 4), (100 << 30, 188)])
def test_servers_leave_memory_to_the_pairs(monkeypatch: pytest.MonkeyPatch, available: int, servers: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=available))
    made = Workplace(BENCHMARKS, controls(1))
    made.close()
    assert made._launches_with_server == servers


def test_the_server_of_the_next_launch_is_there_already(workplace: Workplace, control: PairInfo) -> None:
    parent(workplace, control, 0)
    assert set(workplace._servers) == {0, 1}
    parent(workplace, control, 5)
    assert set(workplace._servers) == {0, 1, 5}


def test_a_forked_worker_does_what_a_fresh_one_does(workplace: Workplace, control: PairInfo) -> None:
    for launch in (0, None):
        worker = workplace.start(control, Surroundings(), "warm", launch)
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


def test_of_ranks_torchrun_is_forked_and_they_themselves_are_fresh(workplace: Workplace) -> None:
    (info,) = (info for info in discover(BENCHMARKS / "distributed", "cpu").pairs if info.name == "no-sync.LargeLinear")
    worker = workplace.start(info, info.variants[0].surroundings, "warm")
    try:
        worker.ask("build", variant="baseline", seed=0)
        torchrun = psutil.Process(worker._process.pid)
        assert torchrun.ppid() == workplace._servers[0]._process.pid
        ranks = [child for child in torchrun.children() if "harness.worker_main" in child.cmdline()]
        assert len(ranks) == 2
        assert {rank.environ()["OMP_NUM_THREADS"] for rank in ranks} == {"1"}
    finally:
        worker.end()
    # All are sent SIGKILL before `end` returns, but the kernel takes its time on a busy machine.
    for _ in range(1000):
        if all(map(gone, ranks)):
            break
        time.sleep(0.01)
    assert all(map(gone, ranks))


def test_a_pair_that_ends_the_server_does_not_end_the_launches_after_it(
    workplace: Workplace, control: PairInfo
) -> None:
    _, server = parent(workplace, control, 0)
    os.kill(server, signal.SIGKILL)
    assert parent(workplace, control, 0)[1] == os.getpid()  # this once, afresh
    assert parent(workplace, control, 0)[1] not in (os.getpid(), server)


@pytest.fixture
def server() -> Iterator[ForkServer]:
    made = ForkServer(environment(controls(1), Surroundings()))
    yield made
    made.end()


def forked(server: ForkServer, folder: Path, task: str = "{}") -> tuple[Forked, Connection]:
    """A worker, and the pipe it has connected to."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        listening.listen(1)
        process = server.fork(1, folder / "socket", task, {"TMPDIR": str(folder)}, folder / "output")
        if task == "{}":
            return process, Connection(os.open(os.devnull, os.O_RDONLY), writable=False)
        connected, _ = listening.accept()
        return process, Connection(connected.detach())


def task(folder: Path) -> str:
    file = folder / "pairs" / "mine.py"
    file.parent.mkdir()
    file.write_text(
        "import os, signal, tempfile, threading\n"
        "from harness.pair import Claim, Pair, Step, Tip\n"
        "TIP = Tip(id='mine', title='Mine', guide=(), claim=Claim.FASTER)\n"
        "class Told(Pair):\n"
        "    def baseline(self) -> Step:\n"
        "        print(os.getpgrp() == os.getpid(), threading.active_count(), tempfile.gettempdir(), flush=True)\n"
        "        return lambda: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    def optimized(self) -> Step:\n"
        "        return self.baseline()\n"
    )
    return f'{{"file": "{file}", "folder": "{file.parent}", "pair": "Told", "device": "cpu", "imports": []}}'


def test_a_worker_has_its_own_group_its_own_output_and_its_own_temporary_folder(
    server: ForkServer, tmp_path: Path
) -> None:
    process, pipe = forked(server, tmp_path, task(tmp_path))
    assert b"ready" in pipe.recv_bytes()
    pipe.send_bytes(b'{"command": "build", "variant": "baseline", "seed": 0}')
    assert b"seconds" in pipe.recv_bytes()
    assert (tmp_path / "output").read_text() == f"True 1 {tmp_path}\n"
    assert process.poll() is None
    pipe.close()
    assert process.wait(10.0) == 0


def test_how_a_worker_ended_is_told_as_of_any_process(server: ForkServer, tmp_path: Path) -> None:
    process, pipe = forked(server, tmp_path, task(tmp_path))
    pipe.recv_bytes()
    os.killpg(process.pid, signal.SIGSEGV)
    assert process.wait(10.0) == -signal.SIGSEGV
    assert process.wait() == -signal.SIGSEGV, "asked again"


def test_what_is_preloaded_is_there_in_every_later_worker(server: ForkServer, tmp_path: Path) -> None:
    file = tmp_path / "pairs" / "mine.py"
    told = task(tmp_path)
    file.write_text(file.read_text().replace("print(", "import sys; print('wave' in sys.modules,"))
    server.preload("wave")
    server.preload("there_is_no_such_module")
    _, pipe = forked(server, tmp_path, told)
    pipe.recv_bytes()
    pipe.send_bytes(b'{"command": "build", "variant": "baseline", "seed": 0}')
    assert b"seconds" in pipe.recv_bytes()
    assert (tmp_path / "output").read_text().startswith("True ")


def test_an_error_that_nobody_caught_is_printed_and_is_exit_code_1(server: ForkServer, tmp_path: Path) -> None:
    process, _ = forked(server, tmp_path)
    assert process.wait(30.0) == 1
    assert "KeyError: 'device'" in (tmp_path / "output").read_text()


def test_workers_end_with_their_server_and_are_told_killed(server: ForkServer, tmp_path: Path) -> None:
    process, pipe = forked(server, tmp_path, task(tmp_path))
    pipe.recv_bytes()
    server.end()
    assert process.wait(10.0) == -signal.SIGKILL
    with pytest.raises(ServerGone):
        server.fork(1, tmp_path / "socket", "{}", {}, tmp_path / "output")
