"""What a job brings at several values of one setting; reading it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from tipbench.records.fields import Count, Number, Seconds

SWEEPS = WORKERS, BATCH, THREADS = "workers", "batch", "threads"

WITHIN = 0.98
"""Share of the best rate from which on more brings nothing that is worth it."""


@dataclass(frozen=True)
class Point:
    """The job at one value.

    Attributes:
        value: of the setting; of BATCH the samples in a batch.
        step_s: mean duration of a step (s).
        samples: in a step.
        memory: of the process (bytes), of WORKERS with those of its workers; on a GPU of its tensors.
    """

    value: Count
    step_s: Seconds
    samples: Number
    memory: Count = 0

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.samples / self.step_s


@dataclass(frozen=True)
class JobCurve:
    """A sweep of one setting.

    Attributes:
        what: one of SWEEPS.
        points: by rising value.
        ended: why there is no further point, or none at all; empty where all were measured.
    """

    what: str
    points: list[Point] = field(default_factory=list)
    ended: str = ""

    @property
    def knee(self) -> Point:
        """The least value whose rate is within 2 % of the best."""
        most = max(point.rate for point in self.points)
        return next(point for point in self.points if point.rate >= WITHIN * most)
