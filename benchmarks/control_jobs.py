"""No tip at all, on whole jobs: two jobs beside themselves, and one whose truth is known because it was planted.

Launches of whole jobs differ by more than those of operations, and a tip's answer rests on whole jobs. So what
`control.py` shows of operations must be shown of them too: that identical code is not called different, and that a
difference of 3 % is found.
"""

from typing import Any

from benchmarks.control import TIP
from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

__all__ = ["TIP", "GPTTraining", "LessWork", "ResNetInference"]


class GPTTraining(TrainGPT, apply=as_it_is):
    """Training a small GPT, beside itself."""

    truth = {"optimized": 1.0}


class ResNetInference(RunResNet, apply=as_it_is):
    """Running ResNet-18 over images, beside itself."""

    truth = {"optimized": 1.0}


TURNS = 17


class LessWork(TrainGPT):
    """Optimizer steps of two GPTs in turns, TURNS of each; the optimized side leaves out the last of the second.

    In turns, so that each step finds the caches as all others do: with a single step of a second GPT at the end, 36
    launches had 4.9 % (standard error 0.9 %) in place of 3.0 %.
    """

    against = "one optimizer step more"
    mechanism = falls("operations dispatched", operations)
    sizes = Sizes(dict(layers=1, width=128, context=64, batch=1), test=dict(layers=1, width=16, context=16))
    truth = {"optimized": 2 * TURNS / (2 * TURNS - 1)}

    def steps(self, of_second: int) -> Step:
        job, second = self.job(), self.job()

        def step() -> Any:
            for number in range(TURNS):
                result = job.step()
                if number < of_second:
                    second.step()
            return result

        return step

    def baseline(self) -> Step:
        return self.steps(TURNS)

    def optimized(self) -> Step:
        return self.steps(TURNS - 1)
