"""What a job brings at several values of one setting; reading it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from tipbench.records.fields import Count, Number, Seconds

SWEEPS = WORKERS, BATCH, THREADS = "workers", "batch", "threads"

AS_GOOD = 0.02
"""Share of the best rate that is not worth more of anything."""


@dataclass(frozen=True)
class Point:
    """The job at one value.

    Attributes:
        value: of the setting; of BATCH the samples in a batch.
        step_s: mean duration of a step (s).
        samples: in a step.
        memory: of the process (bytes), of WORKERS with those of its workers; on a GPU of its tensors.
        change: by how much the rate of its last pass is above that of its first, as a share.
    """

    value: Count
    step_s: Seconds
    samples: Number
    memory: Count = 0
    change: Number = 0.0

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

    def tolerance(self, point: Point) -> float:
        """Share of the best rate by which a point's may be lower and count as equal: AS_GOOD, or half of what the
        passes of both differ by, beyond what all points have in common."""
        drift, best = median(each.change for each in self.points), max(self.points, key=lambda each: each.rate)
        return max(AS_GOOD, (abs(point.change - drift) + abs(best.change - drift)) / 2)

    @property
    def knee(self) -> Point:
        """The least value whose rate is as good as the best."""
        most = max(point.rate for point in self.points)
        return next(point for point in self.points if point.rate >= (1 - self.tolerance(point)) * most)
