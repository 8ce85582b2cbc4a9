"""cudnn.benchmark as people switch it, with a cache behind it that belongs to the whole process."""

from collections.abc import Callable

import torch

from benchmarks.gpu.cudnn_benchmark import searching
from tests.made_up_cuda import convolve
from tipbench.tip.words import Claim, Pair, Sizes, Step, Tip, Unseen, falls, process_settings, within

TIP = Tip(id="plans", title="Search for convolution algorithms", guide=(), claim=Claim.FASTER)


def unseen(step: Step) -> int:
    raise Unseen("nothing here can count it")


class _Searching(Pair):
    mechanism = falls("plans that were searched for", unseen)
    sizes = Sizes(dict(shape=1))

    def build(self) -> Callable[[], torch.Tensor]:
        def step() -> torch.Tensor:
            convolve(self.size["shape"])
            return torch.rand(3)

        return step

    def baseline(self) -> Step:
        return self.build()


class AroundTheBlocks(_Searching):
    """In one process with the other side."""

    @within(searching)
    def optimized(self) -> Step:
        return self.build()


class WithinTheStep(_Searching):
    """The same, set and reset where no reading between blocks finds it."""

    def optimized(self) -> Step:
        return searching()(self.build())


class ByFlags(_Searching):
    """By torch's own context manager."""

    def optimized(self) -> Step:
        return torch.backends.cudnn.flags(enabled=True, benchmark=True)(self.build())


class InAProcessOfItsOwn(_Searching):
    """As it must be."""

    @process_settings(own_process=True)
    @within(searching)
    def optimized(self) -> Step:
        return self.build()


class LeftAsItIs(_Searching):
    """Sets what is set already, which decides nothing."""

    def optimized(self) -> Step:
        step = self.build()

        def same() -> torch.Tensor:
            torch.backends.cudnn.benchmark = False
            return step()

        return same
