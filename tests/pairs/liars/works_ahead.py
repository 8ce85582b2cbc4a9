"""Pairs whose optimized side has its results computed while the other side is timed; and honest ones with threads."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from tipbench.tip.words import Claim, Pair, Step, Tip, stays

TIP = Tip(
    id="works-ahead",
    title="Work while nobody looks",
    guide=(),
    claim=Claim.FASTER,
    mechanism=stays("nothing", lambda step: 0),
)


class _Loading(Pair):
    """A batch is loaded in 2 ms and used in 1 ms, both by waiting, so that a busy machine changes nothing."""

    def loading(self) -> Callable[[], torch.Tensor]:
        inputs = torch.randn(10, device=self.device)

        def load() -> torch.Tensor:
            time.sleep(0.002)
            return inputs * 2

        return load

    def using(self, load: Callable[[], torch.Tensor]) -> Step:
        def step() -> torch.Tensor:
            batch = load()
            time.sleep(0.001)
            return batch + 1

        return step

    def baseline(self) -> Step:
        return self.using(self.loading())


class _Prefetches(_Loading):
    """A prefetcher of one's own: in the long run a step takes the 2 ms of loading, and beside another side 1 ms."""

    ahead = 0

    def optimized(self) -> Step:
        load = self.loading()
        loaded: queue.Queue[torch.Tensor] = queue.Queue(self.ahead)

        def run() -> None:
            while True:
                loaded.put(load())

        threading.Thread(target=run, daemon=True).start()
        return self.using(loaded.get)


class Bounded(_Prefetches):
    ahead = 16


class Unbounded(_Prefetches):
    pass


class Honest(_Loading):
    """Two threads that load four batches at a time, and have nothing to do between two steps."""

    def four(self, threads: int) -> Step:
        load = self.loading()
        pool = ThreadPoolExecutor(threads)
        return lambda: torch.stack([part.result() for part in [pool.submit(load) for _ in range(4)]])

    def baseline(self) -> Step:
        return self.four(1)

    def optimized(self) -> Step:
        return self.four(2)
