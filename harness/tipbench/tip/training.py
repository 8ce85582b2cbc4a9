"""A step that belongs to a whole training towards a target: the step is timed, whole trainings are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SET_ASIDE = range(1000)
"""Seeds of trainings that are never counted: learning rates are tuned with them."""


@dataclass(frozen=True)
class Trained:
    """How one training went.

    Attributes:
        steps: optimizer steps until it reached its target, or until it was stopped.
        reached: whether it reached its target.
        score: its score in the end, such as the accuracy on held-out images.
    """

    steps: int
    reached: bool
    score: float


@dataclass(frozen=True)
class Training:
    """What the builders of a tip about training to a target return. A run times the step; `tipbench.tip.counting`
    counts trainings, and the tip names the table of them as its `evidence`.

    Attributes:
        step: the part that is timed.
        train: trains from a seed.
        target: what the score must reach, from either side.
        batch: samples of an optimizer step.
        steps: optimizer steps within the timed step, so that it has equally many samples on both sides.
        lower_is_better: of the score, as of a loss.
        settings: in words what a training depends on, such as its learning rate.
    """

    step: Callable[[], Any]
    train: Callable[[int], Trained]
    target: float
    batch: int
    steps: int = 1
    lower_is_better: bool = False
    settings: str = ""

    def __call__(self) -> Any:
        return self.step()
