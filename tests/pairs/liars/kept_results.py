"""Pairs whose optimized side does not do the work of every step; and honest ones that look like them."""

from itertools import count

import torch

from tipbench.tip.counts import operations
from tipbench.tip.mechanism import falls, stays
from tipbench.tip.pair import Claim, Pair, Step, Tip, variant
from tipbench.tip.process import within

TIP = Tip(id="kept-results", title="Do not do the work", guide=(), claim=Claim.FASTER)


class _Doubling(Pair):
    """Twice a random input, in two operations; subclasses say how `optimized` gets round the second step's."""

    mechanism = stays("nothing", lambda step: 0)

    def inputs(self) -> torch.Tensor:
        return torch.randn(10, device=self.device)

    def baseline(self) -> Step:
        x = self.inputs()
        return lambda: (x + 0) * 2


class ReturnsTheFirst(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()
        kept: list[torch.Tensor] = []

        def step() -> torch.Tensor:
            if not kept:
                kept.append(x * 2)
            return kept[0]

        return step


class ClonesTheFirst(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()
        kept: list[torch.Tensor] = []

        def step() -> torch.Tensor:
            if not kept:
                kept.append(x * 2)
            return kept[0].clone()

        return step


class BaselineClonesTheFirst(ClonesTheFirst):
    """The same lie on the other side."""

    def baseline(self) -> Step:
        return super().optimized()

    def optimized(self) -> Step:
        return super().baseline()


class FillsABuffer(_Doubling):
    """What is kept lies in a tensor that the build made."""

    def optimized(self) -> Step:
        x = self.inputs()
        kept, filled = torch.empty_like(x), count()

        def step() -> torch.Tensor:
            if next(filled) == 0:
                torch.mul(x, 2, out=kept)
            return kept.clone()

        return step


class _Skips(_Doubling):
    """Works at every second step."""

    idle: int

    def optimized(self) -> Step:
        x = self.inputs()
        calls, last = count(1), x

        def step() -> torch.Tensor:
            nonlocal last
            number = next(calls)
            if number == 1 or number % 2 != self.idle:
                last = x * 2
            return last.clone()

        return step


class SkipsEvenSteps(_Skips):
    idle = 0


class SkipsOddSteps(_Skips):
    idle = 1


class ReturnsWhatItReturnedTwice(_Doubling):
    def optimized(self) -> Step:
        x = self.inputs()
        calls, returned = count(1), x

        def step() -> torch.Tensor:
            nonlocal returned
            if next(calls) % 3 == 0:
                return returned * 1
            returned = x * 2
            return returned

        return step


class _Training(Pair):
    """Subclasses say which steps of `optimized` do not train."""

    mechanism = stays("nothing", lambda step: 0)

    def training(self) -> Step:
        model = torch.nn.Linear(8, 1, device=self.device)
        inputs = torch.randn(4, 8, device=self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step() -> tuple[torch.Tensor, torch.nn.Module]:
            optimizer.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach(), model

        return step

    def baseline(self) -> Step:
        return self.training()


class SkipsOddStepsOfTraining(_Training):
    """Works at the first two steps."""

    def optimized(self) -> Step:
        train, calls = self.training(), count(1)
        last: tuple[torch.Tensor, torch.nn.Module] | None = None

        def step() -> tuple[torch.Tensor, torch.nn.Module]:
            nonlocal last
            if last is None or next(calls) % 2:
                last = train()
            return last[0].clone(), last[1]

        return step


class ReturnsAViewOfItsInput(Pair):
    mechanism = falls("operations dispatched", operations)

    def baseline(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: x.clone()

    def optimized(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: x[:]


class Honest(_Doubling):
    """Every variant here keeps something of its results and may, because it computes them anew."""

    def optimized(self) -> Step:
        x = self.inputs()
        static = torch.empty_like(x)

        def replayed() -> torch.Tensor:  # as a CUDA graph writes to the same place in every step
            torch.mul(x, 2, out=static)
            return static.clone()

        return replayed

    @variant
    def remembers(self) -> Step:
        x = self.inputs()
        history: list[torch.Tensor] = []

        def step() -> torch.Tensor:
            history.append((x * 2).clone())
            return history[-1].clone()

        return step

    @variant
    def updates_in_place(self) -> Step:
        x = self.inputs()
        total = torch.zeros_like(x)

        def step() -> torch.Tensor:
            total.mul_(0).add_(x).add_(x)
            return total.clone()

        return step

    @variant
    @within(torch.inference_mode)
    def without_gradients(self) -> Step:
        x = self.inputs()
        kept: dict[str, torch.Tensor] = {}

        def step() -> torch.Tensor:
            kept["last"] = x * 2
            return kept["last"].clone()

        return step


class CopiesItsInput(Pair):
    """The work is the copy: what comes back is what went in, in every step."""

    mechanism = falls("operations dispatched", operations)

    def baseline(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: (x + 0).clone()

    def optimized(self) -> Step:
        x = torch.randn(10, device=self.device)
        return lambda: x.clone()


class Accumulates(Pair):
    """Gradients are added up over steps, into tensors that stay; the running mean is kept in a buffer."""

    mechanism = stays("nothing", lambda step: 0)

    def build(self) -> Step:
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).to(self.device)
        inputs = torch.randn(4, 8, device=self.device)

        def step() -> tuple[torch.Tensor, ...]:
            model(inputs).square().sum().backward()
            return tuple(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None)

        return step

    def baseline(self) -> Step:
        return self.build()

    def optimized(self) -> Step:
        return self.build()
