"""Where workers are started: their scratch folders, compile caches and fork servers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil

from tipbench.engine.checks import WARM
from tipbench.engine.fork_server import ForkServer, ServerGone
from tipbench.engine.handle import Worker, WorkerFailed, preloaded
from tipbench.engine.nodes import Nodes, RemoteRanks, Rendezvous
from tipbench.engine.purpose import Purpose
from tipbench.engine.scratch import scratch_folder
from tipbench.machine.controls import environment
from tipbench.machine.temporary import TemporaryFolderFull, writing_to
from tipbench.records.record import PairInfo
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.needs import compiler
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

SERVER_BYTES = 512 << 20
"""What a fork server holds at most: 320 to 450 MB were seen."""

LEFT_FOR_PAIRS = 6 << 30
"""Bytes that fork servers leave available. Launches without a server start their workers afresh."""

SERVERS_AT_ONCE = 2
"""Importing torch keeps one core busy, and the servers of a launch and the next are wanted soon."""

PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
"""For processes that are checked beside others, and never timed: OpenMP's threads otherwise spin at each barrier on the
cores that others compute on. Beside other programs, two checks at a time of four whole jobs took 155 s so, and 25 s
with threads that sleep; one after another they took 28 s."""

COMPILER = compiler().text

COMPILING = ("torch._inductor.compile_fx",)
"""What torch.compile imports when it is first called. The passes that measure one-off costs are not forked, and pay for
it."""

INSTRUCTIONS_S = 120.0
"""Seconds for finding out about the machine's vector instructions; 13 were seen."""


Served = int | Literal[Purpose.CHECK]
"""What the workers of one fork server are for: a launch, by its number, or checks."""


def compiles(info: PairInfo) -> bool:
    """Whether one of its sides calls torch.compile."""
    return COMPILER in {*info.needs, *(need for variant in info.variants for need in variant.needs)}


class Launcher:
    """Starts workers for the pairs of one folder, in a scratch folder that it removes."""

    def __init__(
        self, folder: Path, controls: Mapping[str, str], nodes: Nodes | None = None, kept: Path | None = None
    ) -> None:
        """nodes: the others that variants with ranks are spread over. kept: an empty folder, made by `scratch_folder`,
        for what several runs of the same code compile: one finds there what another has compiled."""
        self.folder = folder
        self.nodes = nodes
        self.controls = controls
        self.scratch = scratch_folder()
        self._kept = kept or self.scratch
        self._one_cache = kept is not None
        (self._kept / "tmp").mkdir(exist_ok=True)
        self._started = 0
        self._starting = threading.Lock()
        self._met: set[str] = set()
        self._caches: dict[str, int] = {}
        self._servers: dict[Served, ForkServer] = {}
        room = psutil.virtual_memory().available - LEFT_FOR_PAIRS
        self._launches_with_server = max(0, room // SERVER_BYTES)

    def start(
        self,
        info: PairInfo,
        settings: ProcessSettings,
        cache: str,
        purpose: Purpose,
        launch: int | None = None,
        rendezvous: Rendezvous | None = None,
    ) -> Worker:
        """Start a worker, as `checks.Start` says; several threads may. Workers given the same `cache` share what
        torch.compile has compiled.

        rendezvous: on nodes but the first, where node 0 starts the others of its ranks.
        Raises NodeLost, and where the temporary folder is full TemporaryFolderFull at the first worker of a pair,
        WorkerFailed at a later one.
        All share one temporary folder: torch.compile keeps its precompiled headers there, which take it 7 s
        and are the same for whatever it compiles. Emptying its caches leaves them too (`fresh_cache`).
        """
        with self._starting:
            met = info.name in self._met
            self._met.add(info.name)
            try:
                with writing_to(self.scratch):
                    return self._start(info, settings, cache, purpose, launch, rendezvous)
            except TemporaryFolderFull as full:
                # Full at a pair's first worker already, it is so for all that come; later, the pair may have filled it.
                if not met or rendezvous:
                    raise
                raise WorkerFailed(Reason("temporary-folder-full", detail=str(full))) from None

    def _start(
        self,
        info: PairInfo,
        settings: ProcessSettings,
        cache: str,
        purpose: Purpose,
        launch: int | None,
        rendezvous: Rendezvous | None,
    ) -> Worker:
        self._started += 1
        scratch = self.scratch / f"worker-{self._started}"
        scratch.mkdir()
        ranks = settings.ranks
        remote: list[RemoteRanks] = []
        if ranks > 1 and self.nodes:
            rendezvous, remote = self.nodes.start(info, settings, cache, purpose, launch)
        env = environment(self.controls, settings, rendezvous.nodes if rendezvous else 1)
        # Short, as `scratch.LONGEST` allows for: where the path of a socket in TMPDIR is too long, the
        # worker processes of a DataLoader cannot hand over their batches, and it waits for them for ever.
        env["TMPDIR"] = str(self._kept / "tmp")
        self._give_cache(info, cache, env)
        if purpose is Purpose.CHECK:
            env = {**PASSIVE, **env}
        # The controls of benchmarks/ run beside pairs of a person's own folder.
        file = self.folder.parent / info.file
        folder = self.folder if file.is_relative_to(self.folder) and file.exists() else BENCHMARKS
        if purpose is not Purpose.CHECK and ranks > 1:
            launch = launch or 0  # what is forked is torchrun alone; the ranks it starts are fresh processes
        served: Served | None = purpose if purpose is Purpose.CHECK else launch
        if served is not None and self._has_server(served) and settings == ProcessSettings(ranks=ranks):
            try:
                server = self._server(served, env)
                for package in (*preloaded(info), *(COMPILING if compiles(info) else ())):
                    server.preload(package)
                return Worker(info, settings, env, folder, scratch, server, rendezvous, remote)
            except ServerGone:
                # A pair may end the process it was forked from; the next one gets a new server.
                self._servers.pop(served).end()
                shutil.rmtree(scratch)
                scratch.mkdir()
        return Worker(info, settings, env, folder, scratch, None, rendezvous, remote)

    def _give_cache(self, info: PairInfo, cache: str, env: dict[str, str]) -> None:
        """Set the variables of torch.compile's caches, and fill a new one with `_instructions`."""
        kept = self.scratch / f"cache-{self._caches.setdefault(cache, len(self._caches))}"
        if self._one_cache and cache.startswith(WARM):
            kept = self._kept / "cache"
        env |= {"TORCHINDUCTOR_CACHE_DIR": str(kept / "inductor"), "TRITON_CACHE_DIR": str(kept / "triton")}
        if compiles(info) and not kept.exists():
            shutil.copytree(self._instructions(env), kept / "inductor")

    def _instructions(self, env: Mapping[str, str]) -> Path:
        """A compile cache that holds one answer only: which vector instructions the machine has.

        torch.compile finds out by compiling six programs. It took 7.5 s of the 9 s that the first compilation of a
        GELU takes, would be done for every empty cache, and is the same for whatever is compiled.
        """
        answer = self._kept / "instructions"
        if not answer.exists():
            answer.mkdir()
            program = "from torch._inductor.cpu_vec_isa import pick_vec_isa; pick_vec_isa()"
            command = [sys.executable, "-P", "-c", program]
            # Where it fails the compilations find out for themselves, and report it.
            with suppress(subprocess.TimeoutExpired):
                env = {**env, "TORCHINDUCTOR_CACHE_DIR": str(answer)}
                subprocess.run(command, env=env, timeout=INSTRUCTIONS_S, check=False, capture_output=True)
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
            # Whatever still imports would take a core from the blocks to come.
            for server in begun.values():
                server.ready()
        return self._servers[served]

    def close(self) -> None:
        for server in self._servers.values():
            server.end()
        shutil.rmtree(self.scratch, ignore_errors=True)
