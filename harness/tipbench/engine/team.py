"""Threads that each wait for one worker, and that end all workers when a run is interrupted."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TypeVar

from tipbench.engine.checks import Served, Start
from tipbench.engine.handle import WorkerFailed, WorkerHandle
from tipbench.records.record import PairInfo
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


LOOK_UP_S = 1.0
"""Seconds between two checks for signals while threads work; nothing is timed meanwhile."""


class Interrupted(Exception):
    """The run is over; no more workers are started."""


class Team:
    """`size` threads, each of which sleeps in the kernel until its worker answers.

    They live as long as the team, since Linux ends a process that asked to end with its parent as soon as the *thread*
    that started it ends. They must be idle while anything is timed.
    """

    def __init__(self, start: Start, size: int, is_late: Callable[[], bool], stop: Callable[[], None]) -> None:
        """is_late: whether the time is up. Then no more workers are started, and those that `each` waits for end. stop:
        ends what `start` waits for; nothing is started afterwards."""
        self._start = start
        self._stop = stop
        self._is_late = is_late
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="tipbench")
        self._workers: weakref.WeakSet[WorkerHandle] = weakref.WeakSet()
        self._listing = threading.Lock()
        self._over = threading.Event()

    def start(self, info: PairInfo, settings: ProcessSettings, cache: str, served: Served | None) -> WorkerHandle:
        """As `Start`. Raises Interrupted once the team is closed, and WorkerFailed once the time is up."""
        if self._over.is_set():
            raise Interrupted
        if self._is_late():
            raise WorkerFailed(Reason("killed", {"doing": "starting"}))
        worker = self._start(info, settings, cache, served)
        with self._listing:
            self._workers.add(worker)
        if self._over.is_set():
            worker.end()
            raise Interrupted
        return worker

    def each(self, do: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[tuple[_Item, _Result]]:
        """Yield each item with the result of `do` as soon as it is there. Raises what `do` raises.

        If `do` or the caller's loop raises, the team is closed, so its threads are idle.
        """
        begun = {self._threads.submit(do, item): item for item in items}
        waiting = set(begun)
        try:
            while waiting:
                # Not without end: Python may miss a signal that arrives as it falls asleep.
                done, waiting = wait(waiting, LOOK_UP_S, FIRST_COMPLETED)
                # Results before exceptions, so that none is lost.
                for future in sorted(done, key=lambda ended: ended.exception() is not None):
                    yield begun[future], future.result()
                if self._is_late():
                    self._kill()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all workers that still run; a thread that waits for one then sees that it has ended."""
        self._over.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._kill()
        self._threads.shutdown()

    def _kill(self) -> None:
        self._stop()
        with self._listing:
            begun = list(self._workers)
        for worker in begun:
            worker.kill()
