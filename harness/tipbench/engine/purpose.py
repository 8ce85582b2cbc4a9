"""What a worker is started for."""

from __future__ import annotations

from enum import Enum


class Purpose(Enum):
    """Checks and launches may be forked from a process that has imported torch; memory is read in fresh processes."""

    CHECK = "check"
    MEMORY = "memory"
    LAUNCH = "launch"
