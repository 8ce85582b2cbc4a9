"""Whole trainings of a pair's variants: those that the suite ships, if one that is counted here goes like them."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import replace

from tipbench.engine.handle import WorkerFailed, WorkerHandle
from tipbench.records.fields import converted
from tipbench.records.record import PairInfo, Trainings
from tipbench.suite.shipped import shipped
from tipbench.verdict.trainings import go_alike

ATTEMPTS = 2
"""Trainings here that must all go otherwise before the shipped ones are dropped: of a single one, chance makes one in
some hundred do so."""


class WholeTrainings:
    """The trainings of a pair's variants. Not from the run's seed: each run draws its own, as the runs of a machine
    count together."""

    def __init__(
        self, info: PairInfo, worker_of: Callable[[str], WorkerHandle], end_worker_of: Callable[[str], None]
    ) -> None:
        """worker_of, end_worker_of: of the variant of a name."""
        self._worker_of, self._seed = worker_of, secrets.randbelow(2**31)
        self._shipped = shipped(info)
        if not self._shipped:
            return
        variant = random.choice([variant.name for variant in info.variants if not variant.why])
        try:
            alike = any(self._goes_like(self._shipped[variant], variant) for _ in range(ATTEMPTS))
        except WorkerFailed:  # said of the variant later, when its own trainings fail
            end_worker_of(variant)
            alike = False
        self._shipped = self._shipped if alike else {}

    def of(self, variant: str) -> Trainings | None:
        """None where the pair counts none. Raises WorkerFailed."""
        if variant in self._shipped:
            return replace(self._shipped[variant], shipped=True)
        return self._counted(variant, self._seed)

    def _goes_like(self, known: Trainings, variant: str) -> bool:
        further = self._counted(variant, secrets.randbelow(2**31), count=1)
        return further is not None and go_alike(further, known)

    def _counted(self, variant: str, seed: int, count: int | None = None) -> Trainings | None:
        answer = self._worker_of(variant).ask("trained", variant=variant, seed=seed, count=count)
        return None if answer is None else converted(answer, Trainings)
