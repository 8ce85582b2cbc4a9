"""What the jobs of a fleet printed: all that is left of one that ended before tipbench began, or on a full disk."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tipbench.fleet.plan import file_bytes
from tipbench.tip.wording import lines_of

LOGS = "logs"

ON = "== tipbench on "
"""`job.sh` prints this and the node's name first. Slurm's %N in a file's name is the host's, which may be another."""

CANCELLED = re.compile(r"\*\*\* JOB .* CANCELLED AT (?!.*DUE TO TIME LIMIT)")
"""Slurm's last word to a job that it, or a person, ended before its time."""

_LONGEST = 300
"""Characters of a line that are shown."""


@dataclass(frozen=True)
class Try:
    """A job that was on a node.

    Attributes:
        last: the last line that it printed; empty if it printed none.
        written: when something was last printed by it, or by the same job on a later node; seconds since the epoch.
        cancelled: whether Slurm or a person ended it, so that it says nothing against the node.
    """

    last: str
    written: float
    cancelled: bool


def tries(folder: Path) -> dict[str, list[Try]]:
    """By node, oldest first. A requeued job prints into the log that it has, on whichever node."""
    found: dict[str, list[Try]] = {}
    logs = list[tuple[float, str]]()
    for file in (folder / LOGS).glob("*.txt"):
        with suppress(OSError):
            logs.append((file.stat().st_mtime, file_bytes(file).decode(errors="replace")))
    for written, log in sorted(logs):
        _, *parts = re.split(rf"^{ON}([A-Za-z0-9][\w.-]*)$", log, flags=re.MULTILINE)
        for node, part in zip(parts[::2], parts[1::2], strict=True):
            lines = [line for line in lines_of(part).split("\n") if line]
            last = lines[-1][:_LONGEST] if lines else ""
            found.setdefault(node, []).append(Try(last, written, bool(CANCELLED.search(part))))
    return found
