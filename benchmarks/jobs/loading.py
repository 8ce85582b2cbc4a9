"""A stretch of an epoch as a step, whose workers stand still between two steps."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any
from weakref import WeakSet

_stretches: "WeakSet[Stretch]" = WeakSet()


class Stretch:
    """A step that takes `batches` batches in a row, from where the step before it ended, and returns what each gave.

    An epoch is too long for a step. Without more ado a part of one would be unfair: while another side is timed the
    workers go on, on the cores that it needs, until their queue is full, and what lies ready then costs nothing. So
    the workers of all other stretches are stopped while a step runs, and its own after it. Each step finds the queue
    as the one before has left it: as in the midst of an epoch, what it takes from the workers is what they do
    meanwhile. A wait for the storage goes on while its worker is stopped, and ends in the untimed step before a block.
    Starting workers falls on the first step, and the start of each epoch on the step where the last one ends.

    take: takes one batch, such as `Job.step`. Its loader must have `persistent_workers=True`, if any.
    """

    def __init__(self, take: Callable[[], Any], batches: int) -> None:
        self.take = take
        self.batches = batches
        self.workers: list[BaseProcess] | None = None
        _stretches.add(self)

    def __call__(self) -> list[Any]:
        # The launcher stops and resumes whole process groups, and with them what was stopped here.
        for other in _stretches:
            _send(signal.SIGCONT if other is self else signal.SIGSTOP, other.workers or ())
        before = set() if self.workers is not None else set(multiprocessing.active_children())
        taken = [self.take() for _ in range(self.batches)]
        if self.workers is None:
            self.workers = [child for child in multiprocessing.active_children() if child not in before]
            # A stopped process does not end when it is requested to: whoever waits for that would wait for ever.
            Finalize(self, _send, args=(signal.SIGCONT, self.workers), exitpriority=0)
        _send(signal.SIGSTOP, self.workers)
        return taken


def _send(number: signal.Signals, workers: Sequence[BaseProcess]) -> None:
    for worker in workers:
        if worker.pid is not None and worker.is_alive():
            os.kill(worker.pid, number)
