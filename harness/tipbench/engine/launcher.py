"""Starts workers, with their scratch folders, compile caches and fork servers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path

import psutil

from tipbench.engine.checks import CHECKS, WARM, Served
from tipbench.engine.fork_server import ForkServer, ServerGone
from tipbench.engine.handle import SPOILT, Worker, WorkerFailed, packages_to_preload
from tipbench.machine.controls import environment
from tipbench.machine.scratch import Scratch
from tipbench.machine.temporary import TemporaryFolderFull, writing_to
from tipbench.records.record import PairInfo
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.needs import compiler
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

SERVER_BYTES = 512 << 20
"""Most memory of a fork server (bytes): 320 to 450 MB were measured."""

LEFT_FOR_PAIRS = 6 << 30
"""Memory that fork servers leave free (bytes). Launches without a server start fresh processes."""

SERVERS_AT_ONCE = 2
"""Fork servers that are started together: the one of the next launch is needed soon, and importing torch keeps only one
core busy."""

PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment of checks, which run in parallel and are not timed: otherwise OpenMP's threads spin at each barrier on
cores that other checks need (harness/decisions.md, "Checks in parallel, with sleeping threads")."""

_COMPILER = compiler().text

COMPILING = ("torch._inductor.compile_fx",)
"""What torch.compile imports at its first call. Memory passes are not forked, so their one-off costs include it."""

INSTRUCTIONS_S = 120.0
"""Most seconds for detecting the machine's vector instructions; up to 13 were measured."""


def compiles(info: PairInfo) -> bool:
    """Whether a variant of the pair calls torch.compile."""
    return _COMPILER in {*info.needs, *(need for variant in info.variants for need in variant.needs)}


class Launcher:
    """Starts workers for the pairs of one folder, in a scratch folder that it removes."""

    def __init__(
        self,
        folder: Path,
        controls: Mapping[str, str],
        shared: Path | None = None,
    ) -> None:
        """shared: a folder in which several runs of the same code share what they compile; None: this run's own."""
        self.folder = folder
        self.controls = controls
        self._scratch = Scratch()
        self.scratch = self._scratch.path
        self._shared = shared or self.scratch
        (self._shared / "tmp").mkdir(exist_ok=True)
        self._started = 0
        self._starting = threading.Lock()
        self._stopped = False
        self._met: set[str] = set()
        self._caches: dict[str, int] = {}
        self._servers: dict[Served, ForkServer] = {}
        room = psutil.virtual_memory().available - LEFT_FOR_PAIRS
        self._launches_with_server = max(0, room // SERVER_BYTES)

    def start(self, info: PairInfo, settings: ProcessSettings, cache: str, served: Served | None) -> Worker:
        """Start a worker, as described in `checks.Start`; callable from several threads.

        Workers with the same `cache` share what torch.compile has compiled. All workers share one temporary folder:
        torch.compile keeps its precompiled headers there, which take 7 s and are the same for all code. Emptying its
        caches (`fresh_cache`) leaves them too.

        Where the temporary folder is full, raises TemporaryFolderFull at the first worker of a pair, and WorkerFailed
        at a later one, and once it is stopped.
        """
        with self._starting:
            self._require_going()
            met = info.name in self._met
            self._met.add(info.name)
            try:
                with writing_to(self.scratch):
                    return self._start(info, settings, cache, served)
            except TemporaryFolderFull as full:
                # If it is full at a pair's first worker, it is full for all; later, the pair itself may have filled it.
                if not met:
                    raise
                raise WorkerFailed(Reason("temporary-folder-full", detail=str(full))) from None

    def _start(self, info: PairInfo, settings: ProcessSettings, cache: str, served: Served | None) -> Worker:
        self._started += 1
        scratch = self.scratch / f"worker-{self._started}"
        scratch.mkdir()
        ranks = settings.ranks
        env = environment(self.controls, settings)
        # Short, as `machine.scratch.LONGEST` ensures: where the path of a socket in TMPDIR is too long, the worker
        # processes of a DataLoader cannot send their batches, and it waits for ever.
        env["TMPDIR"] = str(self._shared / "tmp")
        if served == CHECKS:
            env = {**PASSIVE, **env}
        # With a person's own folder of pairs, the controls come from benchmarks/.
        file = self.folder.parent / info.file
        folder = self.folder if file.is_relative_to(self.folder) and file.exists() else BENCHMARKS
        self._give_cache(info, cache, env)
        if served is None and ranks > 1:
            served = 0  # only torchrun is forked; its ranks are fresh processes
        if served is not None and self._has_server(served) and settings == ProcessSettings(ranks=ranks):
            try:
                server = self._server(served, env)
                for package in (*packages_to_preload(info), *(COMPILING if compiles(info) else ())):
                    server.preload(package)
                return Worker(info, settings, env, folder, scratch, server)
            except ServerGone:
                # A pair may end its fork server; the next worker gets a new one.
                self._servers.pop(served).end()
                self._require_going()
                shutil.rmtree(scratch)
                scratch.mkdir()
        return Worker(info, settings, env, folder, scratch)

    def _give_cache(self, info: PairInfo, cache: str, env: dict[str, str]) -> None:
        """Set the variables of torch.compile's caches, and fill a new one with `_instructions`."""
        place = self.scratch / f"cache-{self._caches.setdefault(cache, len(self._caches))}"
        if self._shared != self.scratch and cache.startswith(WARM):
            place = self._shared / "cache"
        numbered = (place / str(number) for number in count())
        folder = next(folder for folder in numbered if not (folder / SPOILT).exists())
        env |= {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}
        if compiles(info) and not (folder / "inductor").exists():
            shutil.copytree(self._instructions(env), folder / "inductor")

    def _instructions(self, env: Mapping[str, str]) -> Path:
        """A compile cache that holds only which vector instructions the machine has.

        torch.compile detects them by compiling six programs, again for every empty cache, although the result is the
        same for all code. That took 7.5 s of the 9 s of the first compilation of a GELU.
        """
        answer = self._shared / "instructions"
        if not answer.exists():
            tried = tempfile.mkdtemp(dir=self._shared)
            program = "from torch._inductor.cpu_vec_isa import pick_vec_isa; pick_vec_isa()"
            command = [sys.executable, "-P", "-c", program]
            env = {**env, "TORCHINDUCTOR_CACHE_DIR": tried}
            try:
                subprocess.run(command, env=env, timeout=INSTRUCTIONS_S, check=True, capture_output=True)
                Path(tried).rename(answer)
            except subprocess.SubprocessError:  # each compilation detects them itself, and reports the failure
                answer.mkdir()
        return answer

    def _has_server(self, served: Served) -> bool:
        return (served if isinstance(served, int) else 0) < self._launches_with_server

    def _server(self, served: Served, env: Mapping[str, str]) -> ForkServer:
        if served not in self._servers:
            soon: Iterable[Served] = (served,)
            if isinstance(served, int):
                soon = range(served, min(served + SERVERS_AT_ONCE, self._launches_with_server))
            begun = {key: ForkServer(env) for key in soon if key not in self._servers}
            self._servers |= begun
            # A server that is still importing would take a core from the next blocks.
            for server in begun.values():
                server.ready()
        return self._servers[served]

    def _require_going(self) -> None:
        if self._stopped:
            raise WorkerFailed(Reason("killed", {"doing": "starting"}))

    def stop(self) -> None:
        """Start no more workers, and end what `start` waits for; callable while other threads are in `start`."""
        self._stopped = True
        for server in [*self._servers.values()]:
            server.kill()

    def close(self) -> None:
        with self._starting:  # where it is interrupted, a thread may be starting a server
            for server in self._servers.values():
                server.end()
        self._scratch.remove()
