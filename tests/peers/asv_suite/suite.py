"""asv: one benchmark, timed once for each of two commits, all defaults.

The step is built at import and not in a `setup` method: with one, asv times every step right after
a new build, one step a sample, and that would be another case than the other tools'.
"""

from __future__ import annotations

from tests.peers.steps import chosen

STEP = chosen()


def time_step() -> None:
    STEP()
