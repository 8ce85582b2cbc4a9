"""A step that belongs to a whole training towards a target: the step is timed, whole trainings are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SET_ASIDE = range(1000)
"""Seeds of trainings that no run draws: learning rates are tuned with them."""


@dataclass(frozen=True)
class Trained:
    """How one training went. steps: optimizer steps until it reached its target, or until it was given up.
    score: how good it was in the end, such as the share of held-out images it had right."""

    steps: int
    reached: bool
    score: float


@dataclass(frozen=True)
class Training:
    """What a builder returns whose tip is about training to a target: the step, and the training it is a part of.

    step: is timed. train: trains from a seed, untimed. target: what the score must reach, from either side. batch:
    samples of an optimizer step. steps: optimizer steps within the timed step, so that both sides process equally many
    samples in it. `Pair.trainings` says how many of them are counted.
    """

    step: Callable[[], Any]
    train: Callable[[int], Trained]
    target: float
    batch: int
    steps: int = 1

    def __call__(self) -> Any:
        return self.step()
