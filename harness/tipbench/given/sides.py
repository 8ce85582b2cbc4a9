"""A pair on a person's job, as data: which ways to follow tips each of its sides follows. Reading it needs no torch.

`tipbench.advise` writes each into a file of its own, and `tipbench.given.pair` makes a pair of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tipbench.given.survey import JobForm

AS_IT_IS = "as-it-is"
"""The tip of the pair that has the job on both sides; that of a combination's is TOGETHER."""


@dataclass(frozen=True)
class GivenPair:
    """One pair.

    Attributes:
        tip: AS_IT_IS, TOGETHER, or the name of the first way of a tip that is tried.
        name: of the pair.
        title: what it compares, for people.
        kind: of the job.
        target: absolute FILE:NAME of the function that builds the job.
        sides: by side the names of the ways that it follows; `baseline` and `optimized` are the first.
        batches: consecutive batches that one step takes, if worker processes load them; 0: a step takes one batch.
        draws: random number generators that its data draw from, by `tipbench.given.draws.generators_used`.
        compared: how results are compared: "fp64" where the job runs in double precision, "directly", or "not" at all.
        tolerance: how far results may be off.
    """

    tip: str
    name: str
    title: str
    kind: JobForm
    target: str
    sides: Mapping[str, Sequence[str]]
    batches: int
    draws: Sequence[str]
    compared: Literal["fp64", "directly", "not"]
    tolerance: float

    @property
    def file(self) -> Path:
        """The file of the job."""
        return Path(self.target.rpartition(":")[0])
