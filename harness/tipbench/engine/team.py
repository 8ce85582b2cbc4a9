"""Several workers at once: threads that each wait for one, and the end of all workers when a run is interrupted."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

from tipbench.engine.checks import Start
from tipbench.engine.handle import WorkerHandle
from tipbench.engine.purpose import Purpose
from tipbench.records.record import PairInfo
from tipbench.tip.process import ProcessSettings

Item = TypeVar("Item")
Result = TypeVar("Result")


LOOK_UP_S = 1.0
"""Seconds after which a wait for threads looks up; nothing is timed meanwhile."""


class Interrupted(Exception):
    """The run is over; no more workers are started."""


class Team:
    """So many threads, each of which sleeps in the kernel until a worker has answered.

    They live as long as the team does: Linux ends a process with the *thread* that started it, where the process asked
    to be ended with its parent. They must be idle while anything is timed.
    """

    def __init__(self, start: Start, size: int) -> None:
        self._start = start
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="tipbench")
        self._workers: weakref.WeakSet[WorkerHandle] = weakref.WeakSet()
        self._listing = threading.Lock()
        self._over = threading.Event()

    def start(
        self, info: PairInfo, settings: ProcessSettings, cache: str, purpose: Purpose, launch: int | None = None
    ) -> WorkerHandle:
        """As `Start`. Raises Interrupted once the team is closed."""
        if self._over.is_set():
            raise Interrupted
        worker = self._start(info, settings, cache, purpose, launch)
        with self._listing:
            self._workers.add(worker)
        if self._over.is_set():
            worker.end()
            raise Interrupted
        return worker

    def each(self, do: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
        """Yields each item with what `do` returns for it, as soon as that is known. Raises what `do` raises.

        Whatever it raises, or is raised where it yields, its threads are idle then, as the team is closed.
        """
        begun = {self._threads.submit(do, item): item for item in items}
        waiting = set(begun)
        try:
            while waiting:
                # Not without end: Python may miss a signal that arrives as it falls asleep.
                done, waiting = wait(waiting, LOOK_UP_S, FIRST_COMPLETED)
                for one in sorted(done, key=lambda ended: ended.exception() is not None):  # nothing found is lost
                    yield begun[one], one.result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End what still runs: whoever waits for a worker then learns that it has ended."""
        self._over.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._listing:
            begun = list(self._workers)
        for worker in begun:
            worker.kill()
        self._threads.shutdown()
